/**
 * What an operator is told instead of an answer: for each operation all that can be wrong with a call, made from how it is declared. Each sentence says what was
 * refused, names the thing or the place it is about, and says what to do or how it would be right.
 */
import t from 'tap'
import type { Operation } from './operation.ts'
import { OPERATIONS } from './routes/index.ts'
import { type Reply, startApi } from './testing.ts'

const IDS: Readonly<Record<string, string>> = {
  run: 'run_01ARZ3NDEKTSV4RRFFQ69G5FAV',
  case: 'case_01ARZ3NDEKTSV4RRFFQ69G5FAV',
  task: 'ab'.repeat(32),
}
/** Of bodies that are right as far as can be told without a store. */
const BODIES: Readonly<Record<string, Record<string, unknown>>> = {
  cancel_run: { reason: 'r' },
  reopen_run: { reason: 'r' },
  abandon_run: { reason: 'r' },
  reconcile_effect: { effect: 'f'.repeat(64), disposition: 'did_not_happen', note: 'n' },
  take_over_task: { from: 'bob' },
  decide_task: { approved: true, reason: 'r' },
  acknowledge_obligation: { case: IDS.case, obligation: 'o' },
  place_hold: { case: IDS.case, reason: 'r' },
  release_hold: { case: IDS.case },
  place_halt: { scope: 'tenant', reason: 'r' },
  lift_halt: { scope: 'tenant' },
  deliver_event: { id: '1', kind: 'k', payload: null },
  rearm_push: { run: IDS.run, id: 'p' },
}
const JSON_TYPE = { 'content-type': 'application/json' }

/** A call, what it has to be answered, and what the sentence has to name. */
interface Wrong {
  what: string
  path: string
  body?: unknown
  headers?: Record<string, string>
  statuses: readonly number[]
  names: RegExp
}

const pathOf = ({ path }: Operation, ids = IDS): string => path.replace(/\{(\w+)\}/g, (_, name: string) => ids[name])
const quoted = (text: string): RegExp => new RegExp(text.replace(/[.*+?^${}()|[\]\\]/g, '\\$&'))

function wrongWith(operation: Operation): Wrong[] {
  const { parameters, query = {}, body, operationId } = operation
  const good = BODIES[operationId]
  const path = pathOf(operation)
  const found: Wrong[] = []
  for (const name of parameters) {
    found.push({
      what: `a ${name} that is none`,
      path: pathOf(operation, { ...IDS, [name]: 'x y' }),
      body: good,
      statuses: [400],
      names: /"x y" is not a (run|case|task) id/,
    })
    found.push({ what: `a ${name} that there is none of`, path, body: good, statuses: [404, 200], names: name === 'task' ? /task/ : quoted(IDS[name]) })
  }
  for (const [name, schema] of Object.entries(query)) {
    const { default: usual } = schema as { default?: string }
    found.push({ what: `${name} twice`, path: `${path}?${name}=a&${name}=b`, statuses: [400], names: quoted(name) })
    if (usual !== undefined) found.push({ what: `${name} of nothing`, path: `${path}?${name}=`, statuses: [400], names: quoted(name) })
  }
  if (body === undefined) return found
  const { properties, required = [] } = body as { properties: Record<string, { type?: string }>; required?: string[] }
  found.push({ what: 'no JSON', path, body: '{"', headers: JSON_TYPE, statuses: [400], names: /JSON/ })
  found.push({ what: 'half of a character', path, body: { ...good, [Object.keys(properties)[0]]: '\ud83d' }, statuses: [400], names: /surrogate/ })
  found.push({ what: 'another type', path, body: 'a=b', headers: { 'content-type': 'text/plain' }, statuses: [415], names: /"text\/plain".*application\/json/ })
  found.push({ what: 'too much', path, body: { ...good, more: 'x'.repeat(1 << 20) }, statuses: [413], names: /1048576 bytes/ })
  found.push({ what: 'a member that there is none of', path, body: { ...good, tenant: 'acme' }, statuses: [422], names: /tenant/ })
  found.push({ what: 'no object', path, body: [], statuses: [422], names: /body/ })
  for (const name of required) {
    const { [name]: _, ...rest } = good
    found.push({ what: `no ${name}`, path, body: rest, statuses: [422], names: quoted(name) })
  }
  for (const [name, { type }] of Object.entries(properties)) {
    if (type === 'string') found.push({ what: `${name} of another type`, path, body: { ...good, [name]: 7 }, statuses: [422], names: quoted(name) })
    if (type === 'string' && name !== 'note' && name !== 'obligation')
      found.push({ what: `an empty ${name}`, path, body: { ...good, [name]: '' }, statuses: [400, 422, 200, 404], names: quoted(name) })
  }
  return found
}

/** Of an event, whose body comes in three forms. */
const EVENTS: readonly Omit<Wrong, 'path' | 'statuses'>[] = [
  { what: 'no JSON', body: '{"', headers: JSON_TYPE, names: /JSON/ },
  { what: 'half of a character', body: { id: '1', kind: 'k', payload: { '\ud83d': 1 } }, names: /surrogate/ },
  { what: 'another type', body: 'a=b', headers: { 'content-type': 'text/plain' }, names: /"text\/plain".*application\/json/ },
  { what: 'no object', body: [], names: /body.*id, kind, payload/ },
  { what: 'no kind', body: { id: '1', payload: null }, names: /`kind`/ },
  { what: 'an empty id', body: { id: '', kind: 'k', payload: null }, names: /the id of an event is not empty/ },
  { what: 'a member that there is none of', body: { id: '1', kind: 'k', payload: null, tenant: 'x' }, names: /tenant.*id, kind, payload/ },
  { what: 'another version', body: { specversion: '2.0' }, headers: { 'content-type': 'application/cloudevents+json' }, names: /specversion "1\.0"/ },
  { what: 'no source', body: { specversion: '1.0', id: '1' }, headers: { 'content-type': 'application/cloudevents+json' }, names: /attribute source/ },
]

/** One sentence that ends, and nothing of the server within. */
function problemOf(sentence: unknown): string | undefined {
  if (typeof sentence !== 'string' || sentence.length < 20 || sentence.length > 600) return 'it is no sentence'
  if (/\n|\bat .*:\d+:\d+|undefined|\[object|NaN/.test(sentence)) return 'it has more in it than a sentence'
  // What is wrong, and behind it what to do or how it would be right.
  if (!/[;:(]| is one of | must be | is needed| is not empty| is to be | has the /.test(sentence)) return 'it does not say what to do'
  return undefined
}

t.test('each refusal says what, where, and what to do', async (t) => {
  const { as, with: bearing, plane } = await startApi(t, [])
  const ann = as('ann')
  let refused = 0
  for (const operation of OPERATIONS) {
    const { method, operationId, action, store } = operation
    const ask = (client: typeof ann, { path, body, headers }: Pick<Wrong, 'path' | 'body' | 'headers'>): Promise<Reply> =>
      method === 'GET' ? client.get(path) : client.post(path, body, headers)
    const check = (what: string, { status, body }: Reply, statuses: readonly number[], names: RegExp) => {
      t.ok(statuses.includes(status), `${operationId}, ${what}: ${status} ${JSON.stringify(body)}`)
      if (status < 300) return
      refused++
      t.equal(problemOf(body.error), undefined, `${operationId}, ${what}: ${body.error}`)
      t.match(body.error, names, `${operationId}, ${what}`)
    }
    const right = { path: pathOf(operation), body: BODIES[operationId] }
    check('no token', await ask(bearing(undefined), right), [401], /Authorization: Bearer/)
    check('another token', await ask(bearing('Bearer x'), right), [401], /check the token/)
    check('no plane', await ask(as('stray'), right), [403], /tenant "nowhere"/)
    check('no permit', await ask(as('nobody'), right), [403], quoted(`"${action}"`))
    const own = plane() as unknown as Record<string, unknown>
    const isMissing = store !== undefined && store.of(plane()) === undefined
    const wrongs = operationId === 'deliver_event' ? EVENTS.map((one) => ({ ...one, path: right.path, statuses: [400] })) : wrongWith(operation)
    for (const wrong of wrongs) {
      const answer = await ask(ann, wrong)
      if (isMissing) check(wrong.what, answer, [501], /no push store.*select the plugin webhooks/)
      else check(wrong.what, answer, wrong.statuses, wrong.names)
    }
    if (store === undefined) continue
    const held = Object.entries(own).find(([, one]) => one !== undefined && one === store.of(plane()))
    if (held === undefined) continue
    own[held[0]] = undefined
    check('no store', await ask(ann, right), [501], quoted(`no ${store.name} store`))
    own[held[0]] = new Proxy({}, { get: () => () => Promise.reject(new Error('the disk is gone')) })
    const failed = await ask(ann, right)
    check('a store that fails', failed, [500, 503], /store of the plane is unavailable/)
    t.notMatch(failed.body.error, /disk/)
    own[held[0]] = held[1]
  }
  t.ok(refused > 300, `${refused} refusals`)
})
