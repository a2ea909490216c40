/**
 * Who may do what, against a model: random keys, revocations, denials, deletions of namespaces, restarts, and calls over all listeners. Every call is let in
 * or refused as the model says, and what is read is what was written under the name by its present owner, also where results are kept and logins are old.
 * SVC_SEED=<n> repeats a run, SVC_SEEDS=<n> takes that many.
 */
import type { ServiceError } from '@grpc/grpc-js'
import { definePlugin } from 'svcdb'
import { SvcError } from 'svcdb/lib/errors'
import { seeded } from 'svcdb/lib/random'
import { temporaryFolder } from 'svcdb/testkit'
import t, { type Test } from 'tap'
import { type KeyNode, keyText, start } from '../../plugins/api_keys/testing.ts'
import { FlightClient } from '../../plugins/flight_sql/testing.ts'
import { point, TestClient } from '../../plugins/grpc/testing.ts'

t.setTimeout(300_000)

const { SVC_SEED, SVC_SEEDS = '1' } = process.env
const STEPS = 60
const NAMESPACES = ['red', 'green', 'blue']
const ROOT = keyText()
const CONFIGURED = keyText()
const QUERY = 'SELECT w FROM m ORDER BY w'

interface Key {
  name: string
  token: string
  namespaces: string[]
  /** The Flight SQL login that was made with it, in this run of the server. */
  login: string | undefined
  made: boolean
}

type Outcome = 'allowed' | 'unauthenticated' | 'denied'

class World {
  readonly keys: Key[] = []
  /** Whose key is of no more use. */
  readonly ended: Key[] = []
  readonly denied = new Set<string>()
  /** What was written to each namespace since it came into being. */
  readonly rows = new Map<string, string[]>()
  node!: KeyNode
  grpc!: TestClient
  flight!: FlightClient
  private readonly dir: string
  private written = 0

  constructor(dir: string) {
    this.dir = dir
    this.keys.push({ name: 'configured', token: CONFIGURED, namespaces: ['red', 'green'], login: undefined, made: false })
  }

  async start(): Promise<void> {
    const { denied } = this
    const policies = definePlugin({
      id: 'policies',
      summary: 'Denies what the model says',
      stability: 'experimental',
      setup(svc) {
        svc.auth.authorizer(({ context: { principal }, action }) =>
          denied.has(`${principal} ${action}`) ? new SvcError('FORBIDDEN', 'the policies forbid it') : undefined,
        )
      },
    })
    const keys = [
      { name: 'root', key: ROOT, admin: true, namespaces: ['*'] },
      { name: 'configured', key: CONFIGURED, namespaces: ['red', 'green'] },
    ]
    const config = { server: { multi_tenancy: true }, grpc: { addr: '127.0.0.1:0' }, flight_sql: { addr: '127.0.0.1:0' } }
    this.node = await start({ keys, dir: this.dir, config, others: [policies, 'namespaces', 'native', 'sql', 'grpc', 'flight_sql'] })
    this.grpc = new TestClient(this.node.port('grpc'))
    this.flight = new FlightClient(this.node.port('flight_sql'))
    for (const key of [...this.keys, ...this.ended]) key.login = undefined
  }

  async stop(): Promise<void> {
    this.grpc.close()
    this.flight.close()
    await this.node.stop()
  }

  expected({ name, namespaces }: Key, known: boolean, namespace: string, action: string): Outcome {
    if (!known) return 'unauthenticated'
    return namespaces.includes(namespace) && !this.denied.has(`${name} ${action}`) ? 'allowed' : 'denied'
  }

  end(key: Key): void {
    this.keys.splice(this.keys.indexOf(key), 1)
    this.ended.push(key)
  }

  async write(over: string, key: Key, namespace: string): Promise<Outcome> {
    const w = `w${String(this.written++).padStart(4, '0')}`
    const headers = { authorization: `Bearer ${key.token}`, 'x-namespace': namespace }
    const outcome =
      over === 'http'
        ? ofStatus(
            (await this.node.inject({ method: 'POST', url: '/api/v1/write', payload: [{ measurement: 'm', tags: { w }, fields: { v: 1 } }], headers }))
              .statusCode,
          )
        : await ofCall(this.grpc.call('Write', { points: [point('m', BigInt(Date.now()) * 1_000_000n, { w }, { v: 1 })] }, { metadata: headers }))
    if (outcome === 'allowed') this.rows.set(namespace, [...(this.rows.get(namespace) ?? []), w])
    return outcome
  }

  /** @returns what was read too; nothing where there is no such measurement. */
  async read(over: string, key: Key, namespace: string): Promise<[Outcome, string[]]> {
    const headers = { authorization: over === 'login' && key.login !== undefined ? key.login : `Bearer ${key.token}`, 'x-namespace': namespace }
    if (over === 'http') {
      const answer = await this.node.inject({ method: 'POST', url: '/api/v1/svc/sql', payload: { query: QUERY }, headers })
      const outcome = ofStatus(answer.statusCode)
      return [outcome, answer.statusCode === 200 ? answer.json().rows.flat() : []]
    }
    let found: string[] = []
    if (over === 'grpc') {
      const asked = this.grpc.query({ measurement: 'm', format: 'ROWS' }, { metadata: headers }).then((messages) => {
        found = messages.flatMap(({ rows = [] }) => rows).flatMap(({ tags = [] }) => tags.map(({ value }: { value: string }) => value))
      })
      return [await ofCall(asked), found.sort()]
    }
    const asked = this.flight.sql(QUERY, headers).then(({ rows }) => {
      found = rows.map(({ w }) => String(w))
    })
    return [await ofCall(asked), found]
  }
}

/** What an admitted call answers for want of a measurement is no refusal. */
function ofStatus(status: number): Outcome {
  return status === 401 ? 'unauthenticated' : status === 403 ? 'denied' : 'allowed'
}

async function ofCall(call: Promise<unknown>): Promise<Outcome> {
  try {
    await call
    return 'allowed'
  } catch (error) {
    const { code } = error as ServiceError
    return code === 16 ? 'unauthenticated' : code === 7 ? 'denied' : 'allowed'
  }
}

async function life(t: Test, seed: number): Promise<void> {
  const random = seeded(seed)
  const below = (n: number): number => Math.floor(random() * n)
  const pick = <T>(list: readonly T[]): T => list[below(list.length)]
  const world = new World(temporaryFolder(t))
  await world.start()
  t.teardown(() => world.stop())
  const asRoot = { authorization: `Bearer ${ROOT}` }
  const done: string[] = []
  for (let step = 0; step < STEPS; step++) {
    const roll = below(100)
    const known = world.ended.length === 0 || below(4) > 0
    const key = pick(known ? world.keys : world.ended)
    const namespace = pick(NAMESPACES)
    if (roll < 12) {
      const name = `k${step}`
      const namespaces = NAMESPACES.filter(() => below(2) > 0)
      if (namespaces.length === 0) continue
      const { status, body } = await world.node.call('POST', ROOT, '', { name, namespaces })
      t.equal(status, 201)
      world.keys.push({ name, token: body.key, namespaces, login: undefined, made: true })
      done.push(`${name} for ${namespaces}`)
    } else if (roll < 18 && known && key.made) {
      t.equal((await world.node.call('DELETE', ROOT, `/${key.name}`)).status, 204)
      world.end(key)
      done.push(`revoked ${key.name}`)
    } else if (roll < 26 && known) {
      const what = `${key.name} ${pick(['read', 'write'])}`
      if (!world.denied.delete(what)) world.denied.add(what)
      done.push(`denied ${[...world.denied]}`)
    } else if (roll < 32 && world.rows.has(namespace)) {
      t.equal((await world.node.inject({ method: 'DELETE', url: `/api/v1/namespaces/${namespace}`, headers: asRoot })).statusCode, 200)
      world.rows.delete(namespace)
      for (const one of [...world.keys])
        if (one.made) {
          one.namespaces = one.namespaces.filter((name) => name !== namespace)
          if (one.namespaces.length === 0) world.end(one)
        }
      done.push(`deleted ${namespace}`)
    } else if (roll < 35) {
      await world.stop()
      await world.start()
      done.push('restarted')
    } else if (roll < 42 && known) {
      const basic = `Basic ${Buffer.from(`user:${key.token}`).toString('base64')}`
      const { header } = await world.flight.call('Handshake', new Uint8Array(0), { authorization: basic })
      key.login = String(header.get('authorization')[0])
      done.push(`login of ${key.name}`)
    } else if (roll < 66) {
      const over = pick(['http', 'grpc'])
      done.push(`write of ${key.name} to ${namespace} over ${over}`)
      t.equal(await world.write(over, key, namespace), world.expected(key, known, namespace, 'write'), done.slice(-20).join('; '))
    } else {
      const over = pick(['http', 'http', 'grpc', 'flight', 'login'])
      done.push(`read of ${key.name} from ${namespace} over ${over}`)
      const wanted = world.expected(key, known, namespace, 'read')
      const [outcome, rows] = await world.read(over, key, namespace)
      t.equal(outcome, wanted, done.slice(-20).join('; '))
      t.same(rows, wanted === 'allowed' ? (world.rows.get(namespace) ?? []) : [], done.slice(-20).join('; '))
    }
  }
}

const seeds = SVC_SEED === undefined ? Array.from({ length: Number(SVC_SEEDS) }, (_, i) => i + 1) : [Number(SVC_SEED)]
for (const seed of seeds) t.test(`seed ${seed}`, (t) => life(t, seed))
