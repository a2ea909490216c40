/** What holds for every plugin, whatever it does. */

import { definePlugin, type Plugin, type Schema } from 'svcdb'
import { boot, builtinPlugins, loadPlugin } from 'svcdb/testkit'
import t from 'tap'
import { COMPANIONS, minimalConfig } from '../../scripts/minimal-config.ts'
import { configKeys } from '../../scripts/reference.ts'
import { createEngine } from '../../storage/memory/index.ts'

const plugins = await Promise.all(builtinPlugins().map((id) => loadPlugin(id, '.')))
t.ok(plugins.length >= 3)

/** The plugin and those that it needs. */
function withRequired(plugin: Plugin): Plugin[] {
  const names = [...(plugin.requires ?? []), ...(plugin.includes ?? []), ...(COMPANIONS[plugin.id] ?? [])]
  const needed = names.map((name) => plugins.find((other) => other.id === name || other.provides?.includes(name)) as Plugin)
  return [...new Set([...needed.flatMap(withRequired), plugin])]
}

for (const plugin of plugins) {
  t.test(`plugin ${plugin.id}`, async (t) => {
    const selected = withRequired(plugin)
    const { config, remove } = await minimalConfig(
      selected.map(({ id }) => id),
      ['/api/v1/openapi.json'],
    )
    t.teardown(remove)

    t.test('starts alone, twice in a row, and stops twice', async (t) => {
      for (let i = 0; i < 2; i++) {
        const node = await boot({ plugins: selected, storage: 'embedded', config })
        t.equal((await node.inject('/ready')).statusCode, 200)
        t.same(await node.stop(), [])
        t.same(await node.stop(), [])
      }
    })

    if (selected.some(({ capabilities = [] }) => capabilities.length > 0))
      t.test('is stopped cleanly when the storage does not open', async (t) => {
        const engine = createEngine({ config: {}, log: console, metrics: undefined as never, now: Date.now })
        const capabilities = new Set(['points', 'sql', 'sql_functions', 'state', 'jobs', 'delete', 'backup', 'export', 'archive', 'changes'])
        Object.assign(engine, { capabilities, open: () => Promise.reject(new Error('no disk')) })
        await t.rejects(boot({ plugins: selected, storage: engine, config }), /cannot start storage engine .*no disk/)
      })

    t.test('is stopped cleanly when another plugin fails to start', async (t) => {
      const failing = definePlugin({
        id: 'failing',
        summary: 'Fails to start',
        stability: 'experimental',
        requires: [plugin.id],
        setup(svc) {
          svc.start(() => Promise.reject(new Error('out of luck')))
        },
      })
      await t.rejects(boot({ plugins: [...selected, failing], storage: 'embedded', config }), /cannot start plugin "failing": out of luck/)
    })

    t.test('describes itself and its routes', async (t) => {
      t.match(plugin.summary, /^[A-Z].*[^.]$/, 'one line, without a full stop')
      for (const { key, meaning } of configKeys(plugin.config as Schema | undefined)) t.ok(meaning.length > 0, key)
      const node = await boot({ plugins: selected, storage: 'embedded', config })
      t.teardown(() => node.stop())
      const { paths } = (await node.inject('/api/v1/openapi.json')).json() as { paths: Record<string, Record<string, { tags?: string[]; summary?: string }>> }
      for (const [path, methods] of Object.entries(paths)) {
        for (const [method, { summary, tags }] of Object.entries(methods)) t.ok(summary && tags?.length, `${method} ${path} has a summary and a tag`)
      }
    })
  })
}
