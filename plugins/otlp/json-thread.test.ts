import t, { type Test } from 'tap'
import { JsonThread } from './json-thread.ts'

/** Too large to be read at once. */
const BODY = Buffer.from(JSON.stringify({ resourceMetrics: [], more: 'x'.repeat(40_000) }))

function setUp(t: Test, maxWaiting?: number) {
  const thread = new JsonThread(maxWaiting)
  t.teardown(() => thread.stop())
  const read: string[] = []
  const convert = (namespace: string, name: string, ended?: () => Error | undefined) =>
    Promise.resolve(thread.convert(BODY, { namespace, ...(ended && { ended }) })).then(() => void read.push(name))
  return { thread, read, convert }
}

t.test('namespaces take turns', async (t) => {
  const { read, convert } = setUp(t)
  await Promise.all(['a1', 'a2', 'a3', 'a4', 'b1', 'c1'].map((name) => convert(name[0], name)))
  t.same(read, ['a1', 'a2', 'b1', 'c1', 'a3', 'a4'])
})

t.test('a body that nobody waits for any more is not read', async (t) => {
  const { read, convert } = setUp(t)
  const gone = new Error('gone')
  const all = [convert('a', 'a1'), convert('a', 'a2', () => gone), convert('a', 'a3', () => undefined)]
  await t.rejects(all[1], gone)
  await Promise.all([all[0], all[2]])
  t.same(read, ['a1', 'a3'])
})

t.test('so many bytes of a namespace wait, but always one body', async (t) => {
  const { read, convert } = setUp(t, 100_000)
  const all = ['a1', 'a2', 'a3', 'b1'].map((name) => convert(name[0], name))
  t.throws(() => convert('a', 'a4'), { code: 'BACKPRESSURE' })
  await Promise.all(all)
  await convert('a', 'a5')
  t.equal(read.length, 5)
  const small = setUp(t, 1000)
  const two = [small.convert('a', 'a1'), small.convert('a', 'a2')]
  t.throws(() => small.convert('a', 'a3'), { code: 'BACKPRESSURE' })
  await Promise.all(two)
})

t.test('when it is stopped all that wait are told so', async (t) => {
  const { thread, convert } = setUp(t)
  const all = [convert('a', 'a1'), convert('a', 'a2'), convert('b', 'b1')]
  const settled = Promise.allSettled(all)
  await thread.stop()
  const stopping = { status: 'rejected', reason: { code: 'BACKPRESSURE' } }
  t.match(await settled, [stopping, stopping, stopping])
})
