/** A start loads what it runs: of what would come along unasked, nothing. */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t from 'tap'
import { reachable, staticImportsOf, withoutTypes } from '../../scripts/modules.ts'
import { runServer } from '../support/server.ts'
import { ROOT } from '../support/tree.ts'

t.setTimeout(180_000)

/** At the end it writes which modules of Node.js and which CommonJS files the main thread has loaded. */
const PROBE = `
if (require('node:worker_threads').isMainThread) process.on('exit', () => {
  require('node:fs').writeFileSync(process.env.LOADED, JSON.stringify([...process.moduleLoadList, ...Object.keys(require.cache)]))
})`

const UNASKED = {
  'what strips types, since all modules are compiled already': /deps\/amaro/,
  'fetch, which node:http exports a part of': /deps\/undici/,
  "prom-client's exemplars": /@opentelemetry/,
  'clients of brokers, of which none is configured': /node_modules\/(kafkajs|mqtt)\//,
}

for (const config of ['ingest-only', 'full'] as const) {
  t.test(`modules of a second start: ${config}`, async (t) => {
    const folder = mkdtempSync(join(tmpdir(), 'svc-modules-'))
    t.teardown(() => rmSync(folder, { recursive: true, force: true }))
    const probe = join(folder, 'probe.cjs')
    writeFileSync(probe, PROBE)
    const loaded = join(folder, 'loaded.json')
    const env = { XDG_CACHE_HOME: join(folder, 'cache'), LOADED: loaded }
    for (let start = 0; start < 2; start++) {
      const server = await runServer(join(ROOT, 'examples', config, 'svc.toml'), { env, nodeArgs: ['--require', probe] })
      t.equal(await server.stop(), 0)
    }
    const modules: string[] = JSON.parse(readFileSync(loaded, 'utf8'))
    t.ok(modules.some((name) => name.includes('fastify')))
    for (const [what, pattern] of Object.entries(UNASKED)) {
      t.same(
        modules.filter((name) => pattern.test(name)),
        [],
        what,
      )
    }
  })
}

t.test('a node without the section [agent_plane] loads nothing of it but what it is called', async (t) => {
  const loaded = [...reachable(ROOT, ['plugins/agent_plane/index.ts'], (source) => staticImportsOf(withoutTypes(source))).keys()]
  t.same(
    loaded.filter((file) => file.startsWith('plugins/')),
    ['plugins/agent_plane/index.ts', 'plugins/agent_plane/command.ts', 'plugins/agent_plane/config.ts'],
  )
})
