/** An upstream that nothing comes back from, not even a refusal to be connected. */
import { setTimeout as sleep } from 'node:timers/promises'
import { temporaryFolder } from 'svcdb/testkit'
import t from 'tap'
import { blackHole } from '../../test/support/black-hole.ts'
import { i64, lines, NOW, write } from '../conformance/points.ts'
import { edgeOf, upstream } from './testing.ts'

const POINT = { measurement: 'cpu', tags: { host: 'a' }, time: NOW, fields: { v: i64(1n) } }
const linux = { skip: process.platform === 'linux' ? false : 'ports that take no connection are made on Linux' } as const

t.test('the next upstream has its turn after the time for an answer', linux, async (t) => {
  const { node, url } = await upstream(t, { config: { server: { allow_open: true } } })
  const hole = `http://127.0.0.1:${await blackHole(t)}`
  const forward = {
    timeout_secs: 1,
    failover_after_secs: 1,
    upstream: [
      { name: 'one', url: hole },
      { name: 'two', url },
    ],
  }
  const edge = edgeOf({ data_dir: temporaryFolder(t), forward })
  await edge.open()
  await write(edge, [POINT], { namespace: '' })
  await edge.drained()
  t.equal((await lines(node.storage, { namespace: '', measurement: 'cpu' })).length, 1)
  await edge.close()
})

t.test('a stop does not wait for a connection', linux, async (t) => {
  for (const protocol of ['http', 'https']) {
    const url = `${protocol}://127.0.0.1:${await blackHole(t)}`
    const edge = edgeOf({ data_dir: temporaryFolder(t), forward: { timeout_secs: 600, upstream: [{ name: 'one', url }] } })
    await edge.open()
    await write(edge, [POINT], { namespace: '' })
    // It has begun to connect, to see whether the upstream is there and with the point.
    await sleep(100)
    const tried = new AbortController()
    const outcome = await Promise.race([edge.close().then(() => 'closed'), sleep(8000, 'waits', tried)])
    tried.abort()
    t.equal(outcome, 'closed', protocol)
  }
})
