/** A data directory that another engine has written: nothing of it is touched, and the log says what is not served, and how to have it. */
import { boot, temporaryFolder } from 'svcdb/testkit'
import t from 'tap'

const WRITE = { method: 'POST', url: '/write', payload: 'cpu,host=a usage=1' } as const

/** Starts a node, has it take a point if it is to, and stops it. @returns its warnings. */
async function life(dataDir: string, engine: 'embedded' | 'forward', writes: boolean): Promise<string[]> {
  const warnings: string[] = []
  const node = await boot({
    plugins: ['line_protocol'],
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
  t.same(await life(dataDir, 'forward', false), [], 'nothing was written')
  t.same(await life(dataDir, 'embedded', true), [])
  const [asEdge, ...more] = await life(dataDir, 'forward', true)
  t.match(asEdge, /holds points, of the engine "embedded".*engine = "embedded" to have them/)
  t.same(more, [])
  const [asDatabase] = await life(dataDir, 'embedded', false)
  t.match(asDatabase, /holds points that its upstream may not have yet, of the engine "forward"/)
})
