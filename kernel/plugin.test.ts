import { mkdirSync, mkdtempSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t from 'tap'
import { Type } from 'typebox'
import { definePlugin, type Plugin, type Svc } from './plugin.ts'
import type { Storage, StorageEngine } from './storage/storage.ts'
import { boot } from './testkit/index.ts'

function plugin(id: string, setup: (svc: Svc) => void | Promise<void>, more: Partial<Plugin> = {}): Plugin {
  return definePlugin({ id, summary: 'For a test', stability: 'experimental', ...more, setup })
}

function fakeEngine(seen: string[] = []): StorageEngine {
  const engine = {
    capabilities: new Set(['points']),
    open: async () => void seen.push('open'),
    close: async () => void seen.push('close'),
    holdRetention: () => () => {},
    status: () => ({ accepting: !seen.includes('full'), reason: 'the memory is full' }),
  }
  return engine as unknown as StorageEngine
}

t.test('the plugin of the design page works as written', async (t) => {
  const greeter = definePlugin({
    id: 'greeter',
    summary: 'Greets, and counts how often',
    stability: 'beta',
    config: Type.Object({ greeting: Type.String({ default: 'hi', description: 'What to say' }) }),
    async setup(svc, config) {
      const greeted = svc.metrics.counter('greetings_total', 'Greetings given')
      svc.http.get('/greet', async () => {
        greeted.inc()
        return { greeting: config.greeting }
      })
    },
  })
  const node = await boot({ plugins: [greeter], config: { greeter: { greeting: 'hello' } } })
  t.teardown(() => node.stop())
  t.same((await node.inject('/greet')).json(), { greeting: 'hello' })
  t.match((await node.inject('/metrics')).body, 'svc_greetings_total 1')
})

t.test('a declaration without one of its members, or with one that is not known, says which', async (t) => {
  const whole = { id: 'whole', summary: 'For a test', stability: 'beta', setup() {} }
  const cases: [Record<string, unknown>, string][] = [
    [{ id: undefined }, 'cannot define a plugin: it has no id; give it one, such as id: "hello"'],
    [{ summary: undefined }, 'cannot define plugin "whole": it has no summary; say in one line what it does'],
    [{ stability: undefined }, 'cannot define plugin "whole": its stability is none of stable, beta, experimental; give it one of them'],
    [{ stability: 'alpha' }, 'cannot define plugin "whole": its stability is none of stable, beta, experimental; give it one of them'],
    [{ setup: undefined }, 'cannot define plugin "whole": it has no setup; give it a function of that name, which declares its routes and hooks'],
    [{ require: ['sql'] }, 'cannot define plugin "whole": it has no member "require"; did you mean "requires"?'],
    [
      { onShutdown() {} },
      'cannot define plugin "whole": it has no member "onShutdown"; there are id, summary, stability, setup, api, config, section, needsSection, requires, includes, provides, capabilities, errors, auditActions, protocols, commands, check',
    ],
    [{ requires: 'sql' }, 'cannot define plugin "whole": its requires is not a list'],
    [{ needsSection: false }, 'cannot define plugin "whole": its needsSection is not true'],
    [{ check: true }, 'cannot define plugin "whole": its check is not a function'],
    [{ config: [] }, 'cannot define plugin "whole": its config is not a schema'],
    [{ setup: 'start' }, 'cannot define plugin "whole": it has no setup; give it a function of that name, which declares its routes and hooks'],
  ]
  const declare = (given: unknown) => definePlugin(given as Plugin)
  t.equal(declare(whole).id, 'whole')
  for (const [changed, message] of cases) t.throws(() => declare({ ...whole, ...changed }), { message })
})

t.test('a route that somebody else has is refused, and whose it is is said', async (t) => {
  const serves = (id: string, path: string) => plugin(id, (svc) => svc.http.get(path, async () => id))
  await t.rejects(boot({ plugins: [serves('first', '/a'), serves('second', '/a')] }), {
    message: 'cannot set up plugin "second": cannot add the route "GET /a": plugin "first" has it already; give it another path, or select one of the two',
  })
  await t.rejects(boot({ plugins: [serves('first', '/health')] }), /cannot add the route "GET \/health": the server itself has it; give it another path/)
})

t.test('a metric that cannot be is named', async (t) => {
  const counts = (name: string, labels: string[]) => plugin('counts', (svc) => void svc.metrics.counter(name, 'For a test', labels))
  const head = 'cannot set up plugin "counts": cannot register metric'
  await t.rejects(boot({ plugins: [counts('per-second', [])] }), {
    message: `${head} "svc_per-second" of "counts": Invalid metric name; names are letters, digits and "_"`,
  })
  await t.rejects(boot({ plugins: [counts('seen_total', ['a-b'])] }), {
    message: `${head} "svc_seen_total" of "counts": Invalid label name; names are letters, digits and "_"`,
  })
})

t.test('hooks run in order of dependency, and back', async (t) => {
  const seen: string[] = []
  const noted = (id: string, requires: string[] = []) =>
    plugin(
      id,
      (svc) => {
        seen.push(`setup ${id}`)
        for (const phase of ['start', 'ready', 'drain', 'stop'] as const) svc[phase](async () => void seen.push(`${phase} ${id}`))
      },
      { requires, capabilities: ['points'] },
    )
  const node = await boot({ plugins: [noted('user', ['base']), noted('base')], storage: fakeEngine(seen) })
  await node.stop()
  const expected = ['setup base', 'setup user', 'open', 'start base', 'start user', 'ready base', 'ready user']
  t.same(seen, [...expected, 'drain user', 'drain base', 'stop user', 'stop base', 'close'])
})

t.test('a plugin that fails to start is named, and the others and the storage are closed again', async (t) => {
  const seen: string[] = []
  const first = plugin('first', (svc) => svc.stop(() => void seen.push('stop first')), { capabilities: ['points'] })
  const second = plugin('second', (svc) => svc.start(() => Promise.reject(new Error('no broker'))))
  await t.rejects(boot({ plugins: [first, second], storage: fakeEngine(seen) }), /^cannot start plugin "second": no broker$/)
  t.same(seen, ['open', 'stop first', 'close'])
})

t.test('a plugin that hangs in setup or start is named', async (t) => {
  const never = () => new Promise<void>(() => {})
  await t.rejects(
    boot({ plugins: [plugin('sleepy', never)], config: { server: { setup_timeout_secs: 0.05 } } }),
    /^cannot set up plugin "sleepy": it took longer than 0.05 s; .*server.setup_timeout_secs/,
  )
  await t.rejects(
    boot({ plugins: [plugin('sleepy', (svc) => svc.start(never))], config: { server: { start_timeout_secs: 0.5 } } }),
    /^cannot start plugin "sleepy".*server.start_timeout_secs/,
  )
})

t.test('a metric of two plugins stops the start, naming both', async (t) => {
  const counting = (id: string) => plugin(id, (svc) => void svc.metrics.counter('things_total', 'Things'))
  await t.rejects(boot({ plugins: [counting('one'), counting('two')] }), /plugin "two".*"svc_things_total" of "two": "one" has registered it already/)
})

t.test('a route of two plugins stops the start, naming the second', async (t) => {
  const routed = (id: string) => plugin(id, (svc) => svc.http.get('/same', async () => id))
  await t.rejects(boot({ plugins: [routed('one'), routed('two')] }), /cannot set up plugin "two": .*\/same/)
})

t.test('the storage is not there in setup, nor for a plugin without capabilities', async (t) => {
  await t.rejects(
    boot({ plugins: [plugin('eager', (svc) => void svc.storage, { capabilities: ['points'] })], storage: fakeEngine() }),
    /cannot use the storage in plugin "eager" during setup: it opens in the start phase/,
  )
  await t.rejects(boot({ plugins: [plugin('blind', (svc) => svc.start(() => void svc.storage))] }), /"blind": it declares no capabilities/)
  let storage: Storage | undefined
  const patient = plugin('patient', (svc) => svc.start(() => void (storage = svc.storage)), { capabilities: ['points'] })
  const engine = fakeEngine()
  const node = await boot({ plugins: [patient], storage: engine })
  t.equal(storage, engine)
  await node.stop()
})

t.test('the data directory is known from setup on, where there is one', async (t) => {
  const seen: (string | undefined)[] = []
  const note = () => plugin('note', (svc) => void seen.push(svc.dataDir))
  const keeps = plugin('keeps', () => {}, { capabilities: ['points'] })
  for (const [plugins, storage] of [
    [[note(), keeps], 'embedded'],
    [[note(), keeps], 'memory'],
    [[note()], 'embedded'],
  ] as const) {
    const node = await boot({ plugins, storage }).catch((error) => error as Error)
    if (node instanceof Error) throw node
    if (seen.length === 1) t.equal(seen[0], node.dataDir)
    await node.stop()
  }
  t.same(seen.slice(1), [undefined, undefined], 'nothing is kept in memory, nor without a storage')
})

t.test('readiness follows the storage', async (t) => {
  const seen: string[] = []
  const node = await boot({ plugins: [plugin('user', () => {}, { capabilities: ['points'] })], storage: fakeEngine(seen) })
  t.teardown(() => node.stop())
  t.equal((await node.inject('/ready')).statusCode, 200)
  seen.push('full')
  t.same((await node.inject('/ready')).json(), { ready: false, reason: 'the memory is full' })
})

t.test('services go from provider to user, by declared names only', async (t) => {
  const maker = plugin('maker', (svc) => svc.provide('clock_face', { hands: 2 }), { provides: ['clock_face'] })
  let hands = 0
  const user = plugin('user', (svc) => void (hands = svc.use<{ hands: number }>('clock_face').hands), { requires: ['clock_face'] })
  const node = await boot({ plugins: [user, maker] })
  t.equal(hands, 2)
  await node.stop()
  await t.rejects(
    boot({ plugins: [maker, plugin('sneaky', (svc) => void svc.use('clock_face'))] }),
    /"clock_face" in plugin "sneaky": it is not in its requires/,
  )
  await t.rejects(boot({ plugins: [plugin('loose', (svc) => svc.provide('x', 1))] }), /cannot provide "x" from plugin "loose"/)
  await t.rejects(boot({ plugins: [plugin('forgetful', () => {}, { provides: ['x'] })] }), /plugin "forgetful".*did not call provide/)
})

t.test('a service that a plugin can do without is found once everything is set up', async (t) => {
  const found: (number | undefined)[] = []
  const seeker = plugin('seeker', (svc) => svc.start(() => void found.push(svc.find<{ hands: number }>('clock_face')?.hands)))
  await (await boot({ plugins: [seeker] })).stop()
  const maker = plugin('maker', (svc) => svc.provide('clock_face', { hands: 2 }), { provides: ['clock_face'] })
  await (await boot({ plugins: [seeker, maker] })).stop()
  t.same(found, [undefined, 2])
  await t.rejects(boot({ plugins: [plugin('hasty', (svc) => void svc.find('clock_face'))] }), /cannot find "clock_face" in plugin "hasty" during setup/)
})

t.test('parsers stay with the plugin that added them', async (t) => {
  const reader = plugin('reader', (svc) => {
    svc.http.parser('text/csv', (body) => body.toString().split(','))
    svc.http.post('/csv', async (request) => request.body)
  })
  const other = plugin('other', (svc) => svc.http.post('/other', async (request) => request.body))
  const node = await boot({ plugins: [reader, other] })
  t.teardown(() => node.stop())
  const headers = { 'content-type': 'text/csv' }
  t.same((await node.inject({ method: 'POST', url: '/csv', payload: 'a,b', headers })).json(), ['a', 'b'])
  t.equal((await node.inject({ method: 'POST', url: '/other', payload: 'a,b', headers })).statusCode, 415)
})

t.test('what is declared is declared in setup', async (t) => {
  const late = plugin('late', (svc) => svc.start(() => svc.auth.authenticator(() => undefined)))
  await t.rejects(boot({ plugins: [late] }), /cannot add an authenticator of plugin "late": everything is declared in setup/)
})

t.test('a plugin that Node.js cannot load for where it lies is refused with what to do', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'svc-plugins-'))
  // As `npm init -y` makes it.
  writeFileSync(join(folder, 'package.json'), '{ "type": "commonjs" }')
  for (const [name, refusal] of [
    ['old.ts', /: .*; \/.*old\.ts is read as CommonJS: set "type": "module" in \/.*package\.json, or name the file \.mts or \.mjs/],
    ['alone.mts', /: Cannot find package 'svcdb' .*; install svcdb in its folder or in one above, and start the svc of that folder/],
  ] as const) {
    writeFileSync(
      join(folder, name),
      "import { definePlugin } from 'svcdb'\nexport default definePlugin({ id: 'x', summary: 's', stability: 'beta', setup() {} })",
    )
    await t.rejects(boot({ plugins: [`./${name}`], folder }), refusal)
  }
})

t.test('plugins load by path and by package name', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'svc-plugins-'))
  const source = (id: string) => `
    import { definePlugin } from '${new URL('./index.ts', import.meta.url).href}'
    export default definePlugin({ id: '${id}', summary: 's', stability: 'beta', setup(svc) { svc.http.get('/${id}', async () => '${id}') } })`
  writeFileSync(join(folder, 'by_path.ts'), source('by_path'))
  const home = join(folder, 'node_modules', '@acme', 'svc-thing')
  mkdirSync(join(home, 'lib'), { recursive: true })
  writeFileSync(
    join(home, 'package.json'),
    JSON.stringify({ name: '@acme/svc-thing', type: 'module', exports: { '.': { types: './lib/x.d.ts', import: './lib/main.js' } } }),
  )
  writeFileSync(join(home, 'lib', 'main.js'), source('by_package'))
  const node = await boot({ plugins: ['./by_path.ts', '@acme/svc-thing'], folder })
  t.teardown(() => node.stop())
  for (const id of ['by_path', 'by_package']) t.equal((await node.inject(`/${id}`)).body, id)
  writeFileSync(join(folder, 'not_one.ts'), 'export default {}')
  await t.rejects(boot({ plugins: ['./not_one.ts'], folder }), /cannot load plugin ".\/not_one.ts": .* has no default export made by definePlugin/)
  writeFileSync(join(folder, 'broken.ts'), 'throw new Error("it broke")')
  await t.rejects(boot({ plugins: ['./broken.ts'], folder }), /cannot load plugin ".\/broken.ts": it broke \(/)
  writeFileSync(join(folder, 'typo.ts'), 'export const a = 1\nexport default { a b }\n')
  await t.rejects(boot({ plugins: ['./typo.ts'], folder }), /cannot load plugin ".\/typo.ts": .* at \/.*\/typo\.ts:2 \(/, 'the line of a syntax error')
  writeFileSync(join(folder, 'deep.ts'), 'import "./typo.ts"')
  await t.rejects(boot({ plugins: ['./deep.ts'], folder }), /cannot load plugin ".\/deep.ts": .* at \/.*\/typo\.ts:2 \(/, 'also in a file that it imports')
  writeFileSync(
    join(folder, 'slip.ts'),
    `import { definePlugin } from '${new URL('./index.ts', import.meta.url).href}'
    export default definePlugin({ id: 'slip', summary: 's', stability: 'beta',
      setup(svc) { svc.http.fetch('/slip') } })`,
  )
  await t.rejects(boot({ plugins: ['./slip.ts'], folder }), /cannot set up plugin "slip": .* is not a function at \/.*\/slip\.ts:3$/)
})

t.test('an action that is none stops the start: taken for another one, it would let in callers that it is to keep out', async (t) => {
  const plugin = definePlugin({
    id: 'admins',
    summary: 's',
    stability: 'beta',
    setup(svc) {
      svc.http.get('/secret', { config: { action: 'Admin' as 'admin' } }, async () => 'secret')
    },
  })
  await t.rejects(boot({ plugins: [plugin] }), /cannot set up plugin "admins": cannot add route "\/secret": there is no action "Admin"; did you mean "admin"\?/)
})
