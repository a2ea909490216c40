/** State of plugins that are not selected any more: said at the start, and refused where one of them has begun what must be ended. */
import { definePlugin, type Plugin, UNFINISHED } from 'svcdb'
import { Logs, resolveConfig, SvcNode, temporaryFolder } from 'svcdb/testkit'
import t from 'tap'

type Svc = Parameters<Plugin['setup']>[0]

const pluginOf = (id: string, start: (svc: Svc) => Promise<void>): Plugin =>
  definePlugin({ id, summary: 'x', stability: 'stable', capabilities: ['state'], setup: (svc) => svc.start(() => start(svc)) })

/** Starts a node and stops it. @returns what it has warned of. */
async function life(dir: string, plugins: readonly Plugin[]): Promise<string[]> {
  const tree = { plugins: [], server: { http_addr: '127.0.0.1:0' }, database: { data_dir: dir } }
  const config = await resolveConfig({ tree: tree as never, file: 'the test', folder: dir, overrides: new Map() }, { plugins: [...plugins] })
  const lines: string[] = []
  const node = new SvcNode(config, { logs: new Logs({ level: 'warn', format: 'json', destination: { write: (line) => void lines.push(line) } }) })
  try {
    await node.setup()
    await node.start()
  } finally {
    await node.stop()
  }
  return lines.filter((line) => line.includes('not selected'))
}

t.test('state of plugins that are not selected', async (t) => {
  const dir = temporaryFolder(t)
  const keeps = (id: string) => pluginOf(id, (svc) => svc.storage.state(id).transaction((tx) => tx.put('a', 1)))
  const other = pluginOf('other', async () => {})
  const begins = pluginOf('begins', (svc) => svc.storage.state('begins').transaction((tx) => tx.put(`${UNFINISHED}it`, 'the work of a test')))
  const ends = pluginOf('begins', (svc) => svc.storage.state('begins').transaction((tx) => tx.delete(`${UNFINISHED}it`)))
  t.same(await life(dir, [keeps('one'), keeps('two')]), [])
  const [line, ...more] = await life(dir, [other, keeps('two')])
  t.same(more, [])
  t.match(JSON.parse(line), { plugins: 'one', msg: /not selected.*it is kept/ })
  t.match(await life(dir, [other]), [/"one,two"/])
  t.same(await life(dir, [keeps('one'), keeps('two'), begins]), [])
  for (let start = 0; start < 2; start++)
    await t.rejects(life(dir, [other]), { code: 'CONFIG_ERROR', message: /cannot start without plugin "begins": .*, the work of a test; select it/ })
  t.match(await life(dir, [ends]), [/"one,two"/])
  t.match(await life(dir, [keeps('one')]), [/"two"/], 'it has nothing any more')
  const what = { what: 'what others have to forget', beside: 'one' }
  await life(dir, [pluginOf('begins', (svc) => svc.storage.state('begins').transaction((tx) => tx.put(`${UNFINISHED}it`, what)))])
  t.match(await life(dir, [other]), [/"begins,one,two"/], 'nobody who is selected has to')
  await t.rejects(life(dir, [keeps('one')]), { message: /cannot start with plugin "one" and without "begins": .*, what others have to forget; select it/ })
  t.match(await life(dir, [keeps('one'), ends]), [/"two"/])
})
