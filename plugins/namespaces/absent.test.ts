/** Namespaces that go while a plugin that keeps something for them is not selected. */

import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { definePlugin, NAMESPACES, type NamespaceLifecycle, type Plugin } from 'svcdb'
import { temporaryFolder } from 'svcdb/testkit'
import t from 'tap'
import { until } from '../../test/support/until.ts'
import analytics from '../analytics/index.ts'
import exports from '../export/index.ts'
import line from '../line_protocol/index.ts'
import native from '../native/index.ts'
import rollups from '../rollups/index.ts'
import sql from '../sql/index.ts'
import triggers from '../triggers/index.ts'
import webhooks from '../webhooks/index.ts'
import plugin from './index.ts'
import { type FolderNode, openNode } from './testing.ts'

const PATH = '/api/v1/namespaces'
const point = (): string => `m,host=a v=1 ${BigInt(Date.now()) * 1_000_000n}`

const keptFor = async ({ node }: FolderNode, owner: string, namespace: string): Promise<string[]> => {
  const entries = (await node.storage?.state(owner).list({})) ?? []
  return entries.map(({ key }) => key).filter((key) => key.includes(namespace))
}

t.test('plugins forget a namespace that went while they were not selected', async (t) => {
  const dir = temporaryFolder(t)
  const settings = {
    triggers: {},
    webhooks: { allow_private_targets: true, signing_secrets: [`whsec_${Buffer.alloc(24, 1).toString('base64')}`] },
  }
  // In both orders: whoever keeps something may start before the plugin namespaces and after it.
  for (const keepers of [
    [triggers, rollups, webhooks, exports, analytics, sql, plugin, line, native],
    [plugin, line, native, webhooks, sql, analytics, exports, rollups, triggers],
  ]) {
    let at = await openNode(dir, settings, [], keepers)
    const post = (url: string, body: object) => at.inject('POST', url, body, 'acme')
    t.equal((await at.inject('POST', '/write', point(), 'acme')).statusCode, 204)
    const query = "CREATE TRIGGER hot ON m WHEN v > 0 DELIVER webhook('http://127.0.0.1:9/of-acme')"
    t.equal((await post('/api/v1/triggers', { query })).statusCode, 200)
    const rollup = { name: 'hourly', source_measurement: 'm', target_measurement: 'm1', every: '1h', aggregations: ['avg'] }
    t.equal((await post('/api/v1/rollups', rollup)).statusCode, 201)
    t.equal((await post('/api/v1/export/parquet', { measurement: 'm', output_path: 'm.parquet' })).statusCode, 200)
    await at.node.stop()

    at = await openNode(dir)
    t.equal((await at.inject('DELETE', `${PATH}/acme`)).statusCode, 200)
    t.equal((await at.inject('POST', '/write', point(), 'acme')).statusCode, 204, 'the name is free, and somebody else has it')
    await at.node.stop()
    // Nobody would tell them.
    const alone = keepers.filter((keeper) => keeper !== plugin)
    await t.rejects(openNode(dir, settings, [], alone), { code: 'CONFIG_ERROR', message: /with plugin "[a-z]+" and without "namespaces": .*has to forget/ })
    at = await openNode(dir, {}, [], [line, native])
    await at.node.stop()

    at = await openNode(dir, settings, [], keepers)
    t.equal((await at.inject('POST', '/write', point(), 'acme')).statusCode, 204)
    t.same((await at.inject('GET', '/api/v1/triggers', undefined, 'acme')).json(), { triggers: [] })
    t.match((await at.inject('GET', '/api/v1/rollups', undefined, 'acme')).json(), { total: 0 })
    t.match((await at.inject('GET', '/api/v1/admin/webhooks')).json(), { total: 0 })
    t.notOk(existsSync(join(dir, 'exports', 'acme')), 'its files are gone')
    for (const owner of ['triggers', 'rollups', 'webhooks']) t.same(await keptFor(at, owner, 'acme'), [], owner)

    // What the new one has made meanwhile is its own.
    await at.node.stop()
    at = await openNode(dir, settings, [], alone)
    await at.node.stop()
    at = await openNode(dir, settings, [], keepers)
    t.equal((await post('/api/v1/rollups', rollup)).statusCode, 201)
    await at.node.stop()
    at = await openNode(dir, settings, [], keepers)
    t.match((await at.inject('GET', '/api/v1/rollups', undefined, 'acme')).json(), { total: 1 })
    t.equal((await at.inject('DELETE', '/api/v1/rollups/hourly', undefined, 'acme')).statusCode, 204)
    t.equal((await at.inject('DELETE', `${PATH}/acme`)).statusCode, 200)
    await at.node.stop()
  }
})

t.test('what was written to while namespaces were not defined has a definition from the next start on', async (t) => {
  const dir = temporaryFolder(t)
  let at = await openNode(dir, {}, [], [line, native])
  t.equal((await at.inject('POST', '/write', point(), 'acme')).statusCode, 204)
  await at.node.stop()
  at = await openNode(dir)
  t.match((await at.inject('GET', `${PATH}/acme`)).json(), { name: 'acme', usage: { measurements: 1 } })
  t.equal((await at.inject('DELETE', `${PATH}/acme`)).statusCode, 200)
  await at.node.stop()
})

t.test('a plugin that has forgotten a namespace is not asked to by the next start, when another has the name', async (t) => {
  const dir = temporaryFolder(t)
  const forgotten: string[] = []
  const keeper: Plugin = definePlugin({
    id: 'keeper',
    summary: 'x',
    stability: 'stable',
    setup: (svc) => svc.start(() => svc.find<NamespaceLifecycle>(NAMESPACES)?.onDelete((name) => void forgotten.push(name), svc.id)),
  })
  let at = await openNode(dir, {}, [keeper])
  await at.inject('POST', '/write', point(), 'acme')
  t.equal((await at.inject('DELETE', `${PATH}/acme`)).statusCode, 200)
  await at.inject('POST', '/write', point(), 'acme')
  await at.node.stop()
  at = await openNode(dir, {}, [keeper])
  await at.node.stop()
  t.same(forgotten, ['acme'], 'once')
})

t.test('a plugin that fails to forget is asked again by the next start', async (t) => {
  const dir = temporaryFolder(t)
  const forgotten: string[] = []
  let broken = true
  const keeper: Plugin = definePlugin({
    id: 'keeper',
    summary: 'x',
    stability: 'stable',
    setup: (svc) =>
      svc.start(() =>
        svc.find<NamespaceLifecycle>(NAMESPACES)?.onDelete((name) => {
          if (broken) throw new Error('cannot forget')
          forgotten.push(name)
        }, svc.id),
      ),
  })
  let at = await openNode(dir, {}, [keeper])
  await at.inject('POST', '/write', point(), 'acme')
  await at.node.stop()
  at = await openNode(dir)
  t.equal((await at.inject('DELETE', `${PATH}/acme`)).statusCode, 200)
  await at.node.stop()
  await t.rejects(openNode(dir, {}, [keeper]), { message: /cannot start plugin "keeper": cannot forget/ })
  broken = false
  for (let start = 0; start < 2; start++) {
    at = await openNode(dir, {}, [keeper])
    await at.node.stop()
  }
  t.same(forgotten, ['acme'], 'once')
})

t.test('a deletion that was cut off is ended before anything is written without the plugin', async (t) => {
  const dir = temporaryFolder(t)
  const cut = async () => {
    const at = await openNode(dir)
    t.equal((await at.inject('POST', '/write', point(), 'acme')).statusCode, 204)
    const storage = at.node.storage as NonNullable<typeof at.node.storage>
    storage.drop = () => Promise.reject(new Error('the disk is gone'))
    t.equal((await at.inject('DELETE', `${PATH}/acme`)).statusCode, 500)
    await at.node.stop()
  }
  const ended = async (at: FolderNode) => {
    await until('the deletion has ended', async () => (await keptFor(at, 'namespaces', 'acme')).length === 0)
    t.same(await at.node.storage?.namespaces(), [])
    await at.node.stop()
  }
  await cut()
  await t.rejects(openNode(dir, {}, [], [line, native]), {
    code: 'CONFIG_ERROR',
    message: /cannot start without plugin "namespaces": .*the deletion of namespace "acme"; select it/,
  })
  await ended(await openNode(dir))
  let at = await openNode(dir, {}, [], [line, native])
  t.equal((await at.inject('POST', '/write', point(), 'acme')).statusCode, 204)
  await at.node.stop()

  await cut()
  const together = { server: { multi_tenancy: false } }
  await ended(await openNode(dir, together))
  // What a deletion keeps is not taken by one that follows, with another setting.
  at = await openNode(dir)
  t.equal((await at.inject('POST', '/write', point(), 'acme')).statusCode, 204)
  await at.node.stop()
  at = await openNode(dir, together)
  const storage = at.node.storage as NonNullable<typeof at.node.storage>
  t.equal((await at.inject('DELETE', `${PATH}/acme`)).statusCode, 200)
  t.same(await keptFor(at, 'namespaces', 'acme'), [], 'in one step, which nothing can cut off')
  t.same(await storage.namespaces(), ['acme'])
  await at.node.stop()
})
