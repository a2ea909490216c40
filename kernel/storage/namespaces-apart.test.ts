/** Data that server.multi_tenancy, switched on or off, has put out of reach: it is there, and the start says so. */
import { boot, temporaryFolder } from 'svcdb/testkit'
import t, { type Test } from 'tap'

async function life(t: Test, dataDir: string, multi_tenancy: boolean, writes: Record<string, string>): Promise<string[]> {
  const said: string[] = []
  const log = (line: string): void => {
    const { msg } = JSON.parse(line) as { msg: string }
    if (msg.includes('multi_tenancy')) said.push(msg)
  }
  const node = await boot({
    ...{ storage: 'embedded', dataDir, log, plugins: ['line_protocol', 'namespaces'] },
    config: { server: { multi_tenancy, allow_open: true } },
  })
  try {
    for (const [namespace, payload] of Object.entries(writes)) {
      const headers = { 'content-type': 'text/plain', 'x-namespace': namespace }
      t.equal((await node.inject({ method: 'POST', url: '/write', headers, payload })).statusCode, 204)
    }
  } finally {
    await node.stop()
  }
  return said
}

t.test('data of a node that kept no namespaces apart is out of reach once it does', async (t) => {
  const dir = temporaryFolder(t)
  t.same(await life(t, dir, false, { default: 'a v=1' }), [])
  t.same(await life(t, dir, false, {}), [])
  t.same(await life(t, dir, true, { default: 'a v=1' }), [
    'points that were written without server.multi_tenancy belong to no namespace, and cannot be read; switch it off to read them, or write them again',
  ])
})

t.test('data of namespaces is out of reach of a node that keeps none apart', async (t) => {
  const dir = temporaryFolder(t)
  t.same(await life(t, dir, true, Object.fromEntries(['red', 'green', 'blue', 'grey'].map((name) => [name, 'a v=1']))), [])
  t.same(await life(t, dir, false, {}), [
    'points of 4 namespaces ("blue", "green", "grey", ...) were written with server.multi_tenancy, and cannot be read; switch it on to read them',
  ])
})
