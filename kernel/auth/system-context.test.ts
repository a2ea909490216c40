/** Work inside the node writes where callers read, or not at all. */
import { seeded } from 'svcdb/lib/random'
import { boot } from 'svcdb/testkit'
import t, { type Test } from 'tap'
import { SvcError } from '../lib/errors/index.ts'
import { definePlugin, type Svc } from '../plugin.ts'
import type { CallContext, Decision } from './auth.ts'

async function setUp(t: Test, { multiTenancy, plugins = [] }: { multiTenancy: boolean; plugins?: string[] }) {
  const kept: { svc?: Svc; decisions: Decision[]; limited: boolean } = { decisions: [], limited: false }
  const plugin = definePlugin({
    id: 'inside',
    summary: 'Works inside the node',
    stability: 'beta',
    capabilities: ['points'],
    setup(svc) {
      kept.svc = svc
      svc.auth.observer((decision) => void kept.decisions.push({ ...decision }))
      svc.auth.limiter({ admitted: () => (kept.limited ? new SvcError('RATE_LIMITED', 'too often') : undefined) })
      svc.http.get('/points', async (request) => {
        let rows = 0
        const { dataNamespace: namespace } = svc.context(request)
        for await (const chunk of svc.storage.scan({ namespace, measurement: 'm' })) rows += chunk.times.length
        return { rows }
      })
    },
  })
  const node = await boot({ plugins: [plugin, ...plugins], config: { server: { multi_tenancy: multiTenancy } } })
  t.teardown(() => node.stop())
  const svc = kept.svc as Svc
  let n = 0
  const write = async (context: CallContext) =>
    svc.ingest
      .points(context)
      .add('m', { n: String(n++) }, { v: 1 })
      .write()
  return { kept, svc, node, write }
}

/** Names that callers can give, that nearly are, and that a careless reader takes for others. */
function* hostileNames(seed: number, count: number): Generator<string> {
  const random = seeded(seed)
  const pick = <T>(of: readonly T[]): T => of[Math.floor(random() * of.length)]
  const parts = [
    'acme',
    'default',
    'DEFAULT',
    'a',
    '-',
    '.',
    '/',
    '..',
    '\0',
    ' ',
    '%00',
    'ä',
    '\u202e',
    '*',
    '',
    '\n',
    '__proto__',
    '9',
    'x'.repeat(63),
    '"',
    "'; drop",
    '\ud800',
  ]
  yield* ['default', '', '*', '__proto__', 'constructor', 'toString', 'default ', ' default', 'Default', 'acme', 'acme\0', 'acme-', `a${'b'.repeat(63)}`]
  for (let i = 0; i < count; i++) yield Array.from({ length: 1 + Math.floor(random() * 4) }, () => pick(parts)).join('')
}

const REFUSED = new Set(['BAD_REQUEST', 'FORBIDDEN', 'NOT_FOUND'])

t.test('whatever name is given: it is refused with a sentence, or a caller who names it reads what was written', async (t) => {
  const seed = Math.floor(Math.random() * 2 ** 31)
  t.comment(`seed ${seed}`)
  for (const [multiTenancy, plugins] of [
    [false, []],
    [true, []],
    [true, ['namespaces']],
  ] as const) {
    const { svc, node, write } = await setUp(t, { multiTenancy, plugins: [...plugins] })
    const defined = plugins.length > 0
    if (defined) t.equal((await node.inject({ method: 'POST', url: '/api/v1/namespaces', payload: { name: 'acme' } })).statusCode, 201)
    const outcomes = { written: 0, refused: 0 }
    for (const name of hostileNames(seed, 300)) {
      const before = (await node.storage.namespaces()).join()
      let context: CallContext
      try {
        context = await svc.systemContext(name)
      } catch (error) {
        outcomes.refused++
        const { code, message } = error as SvcError
        if (!REFUSED.has(code) || !message.startsWith('cannot use namespace ')) t.fail(`${JSON.stringify(name)}: ${code} ${message}`)
        if ((await node.storage.namespaces()).join() !== before) t.fail(`${JSON.stringify(name)} has left something behind`)
        continue
      }
      outcomes.written++
      const rows = async () => {
        const answer = await node.inject({ url: '/points', headers: { 'x-namespace': name } })
        return answer.statusCode === 404 ? 0 : (answer.json().rows as number)
      }
      const had = await rows()
      await write(context)
      if ((await rows()) !== had + 1) t.fail(`what was written to ${JSON.stringify(name)} cannot be read by its name`)
      if (defined && !['acme', 'default'].includes(name)) t.fail(`${JSON.stringify(name)} is not defined`)
      if (!multiTenancy && name !== 'default') t.fail(`${JSON.stringify(name)} without multi_tenancy`)
    }
    t.ok(outcomes.written > 0 && outcomes.refused > 100, JSON.stringify({ multiTenancy, plugins, ...outcomes }))
  }
})

t.test('who it is, and for what', async (t) => {
  const { svc } = await setUp(t, { multiTenancy: true })
  t.match(await svc.systemContext(), {
    principal: 'system:inside',
    method: 'system',
    namespace: 'default',
    dataNamespace: 'default',
    namespaces: ['default'],
    admin: false,
  })
  const [one, two] = [await svc.systemContext('acme', { name: 'poll' }), await svc.systemContext('acme', { name: 'poll' })]
  t.match(one, { principal: 'system:inside:poll', namespaces: ['acme'], dataNamespace: 'acme' })
  t.not(one.requestId, two.requestId)
})

t.test('limiters may refuse it, and observers are told either way', async (t) => {
  const { svc, kept } = await setUp(t, { multiTenancy: false })
  await svc.systemContext()
  kept.limited = true
  await t.rejects(svc.systemContext(), { code: 'RATE_LIMITED' })
  await t.rejects(svc.systemContext('other'), { code: 'FORBIDDEN', message: /keeps no namespaces apart.*server\.multi_tenancy/ })
  t.match(kept.decisions, [
    { outcome: 'allow', action: 'write', resource: 'system:inside', credentials: { protocol: 'system' }, identity: { method: 'system' } },
    { outcome: 'deny', stage: 'limit', error: { code: 'RATE_LIMITED' } },
    { outcome: 'deny', stage: 'namespace', error: { code: 'FORBIDDEN' } },
  ])
})

t.test('a namespace that was deleted takes no more', async (t) => {
  const { svc, node, write } = await setUp(t, { multiTenancy: true, plugins: ['namespaces'] })
  await node.inject({ method: 'POST', url: '/api/v1/namespaces', payload: { name: 'gone', max_ingestion_rate: 1 } })
  await write(await svc.systemContext('gone'))
  for (let i = 0; i < 20; i++) await write(await svc.systemContext('gone')).catch(() => {})
  await t.rejects(write(await svc.systemContext('gone')), { code: 'RATE_LIMITED', message: /max_ingestion_rate/ }, 'its quota holds')
  t.equal((await node.inject({ method: 'DELETE', url: '/api/v1/namespaces/gone' })).statusCode, 200)
  await t.rejects(svc.systemContext('gone'), { code: 'NOT_FOUND', message: /nobody could read it/ })
})
