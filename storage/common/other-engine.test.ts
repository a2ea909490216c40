/** A data directory that another engine has written: nothing of it is touched, and the log says what is not served, and how to have it. */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { definePlugin } from 'svcdb'
import { boot, temporaryFolder } from 'svcdb/testkit'
import t from 'tap'

const WRITE = { method: 'POST', url: '/write', payload: 'cpu,host=a usage=1' } as const

/** Remembers something. */
const keeper = definePlugin({
  id: 'keeper',
  summary: 'Remembers that it was started',
  capabilities: ['state'],
  stability: 'experimental',
  setup(svc) {
    svc.start(() => svc.storage.state(svc.id).transaction((tx) => tx.put('started', true)))
  },
})

/** Starts a node, has it take a point and a plugin remember something if they are to, and stops it. @returns its warnings. */
async function life(dataDir: string, engine: 'embedded' | 'forward', writes: boolean, remembers = false): Promise<string[]> {
  const warnings: string[] = []
  const node = await boot({
    plugins: ['line_protocol', ...(remembers ? [keeper] : [])],
    storage: engine,
    dataDir,
    config: engine === 'forward' ? { database: { forward: { upstream: [{ name: 'up', url: 'http://127.0.0.1:9' }] } } } : {},
    log: (line) => {
      const entry = JSON.parse(line) as { msg: string }
      if (entry.msg.includes('the data directory holds')) warnings.push(entry.msg)
    },
  })
  try {
    if (writes) {
      const { statusCode, body } = await node.inject(WRITE)
      t.equal(statusCode < 300, true, body)
    }
  } finally {
    await node.stop()
  }
  return warnings
}

t.test('an edge over the directory of a database, and back', async (t) => {
  const dataDir = temporaryFolder(t)
  t.same(await life(dataDir, 'embedded', false), [])
  t.match(await life(dataDir, 'forward', false), [/holds a catalog, which may have/], 'no points were written')
  t.same(await life(dataDir, 'embedded', true), [])
  const [asEdge, ...more] = await life(dataDir, 'forward', true)
  t.match(asEdge, /holds points and a catalog, which may have state of plugins .*, of the engine "embedded".*engine = "embedded" to have it/)
  t.same(more, [])
  const [asDatabase, ...others] = await life(dataDir, 'embedded', false)
  t.match(asDatabase, /holds points that its upstream may not have yet, of the engine "forward"/)
  t.same(others, [])
})

t.test('a database and an edge that have no points have what plugins remember', async (t) => {
  const dataDir = temporaryFolder(t)
  t.same(await life(dataDir, 'embedded', false, true), [])
  const [asEdge, ...more] = await life(dataDir, 'forward', false)
  t.match(
    asEdge,
    /holds a catalog, which may have state of plugins \(.*API keys and which are revoked.*\), of the engine "embedded": "forward" leaves that as it is and has none of it/,
  )
  t.same(more, [])
  t.same(await life(dataDir, 'embedded', false), [], 'an edge whose plugins remember nothing has none')
  await life(dataDir, 'forward', false, true)
  const [asDatabase, ...others] = await life(dataDir, 'embedded', false)
  t.match(
    asDatabase,
    /holds state of plugins \(.*API keys and which are revoked.*\), of the engine "forward": "embedded" leaves that as it is and has none of it; start with .*"forward" to have it/,
  )
  t.same(others, [])
  const [asEdgeAgain] = await life(dataDir, 'forward', true, true)
  t.match(asEdgeAgain, /holds a catalog/)
  t.match(await life(dataDir, 'embedded', false), [
    /holds points that its upstream may not have yet and state of plugins .*leaves that as it is and has none of it/,
  ])
})

t.test('a file that is called as a folder of another engine is none', async (t) => {
  for (const [engine, names] of [
    ['embedded', ['state', 'queue']],
    ['forward', ['wal', 'segments', 'catalog']],
  ] as const) {
    const dataDir = temporaryFolder(t)
    for (const name of names) writeFileSync(join(dataDir, name), 'a note of whoever keeps this machine')
    t.same(await life(dataDir, engine, true), [])
  }
})
