import t from 'tap'
import { Backlog } from './backlog.ts'

t.test('a batch of more messages than a call takes arguments waits again, before what came behind it', async (t) => {
  const messages = 300_000
  const backlog = new Backlog<number>({ maxMessages: 2 * messages, maxBytes: 1 << 30, maxBatchMessages: messages, maxBatchBytes: 1 << 30 })
  for (let id = 0; id <= messages; id++) backlog.add({ message: { body: id, ack() {}, nack() {} }, bytes: 1, group: undefined })
  const batch = backlog.next()
  t.equal(batch.length, messages)
  backlog.putBack(batch)
  backlog.release(batch)
  const again = backlog.next()
  t.equal(again.length, messages)
  t.equal(again[messages - 1].message.body, messages - 1)
  t.same(
    backlog.next().map(({ message }) => message.body),
    [messages],
  )
})
