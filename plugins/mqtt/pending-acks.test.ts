/** Acknowledgements go out when their messages are settled, and never ahead of one that came before (MQTT 5.0, section 4.6). */
import { setImmediate as turn } from 'node:timers/promises'
import t from 'tap'
import { PendingAcks } from './pending-acks.ts'

function stage() {
  const sent: number[] = []
  const acks = new PendingAcks<number>((packets) => void sent.push(...packets))
  const settle = Array.from({ length: 4 }, (_, packet) => acks.add(packet))
  return { sent, acks, settle }
}

t.test('in the order in which the messages came, each when it and all before it are settled', async (t) => {
  const { sent, acks, settle } = stage()
  settle[1]()
  settle[3]()
  await turn()
  acks.flush()
  t.same([sent, acks.waiting], [[], 4], 'the first is not settled')
  settle[0]()
  t.same(sent, [], 'with others of the same turn')
  await turn()
  t.same([sent, acks.waiting], [[0, 1], 2])
  settle[2]()
  await turn()
  t.same([sent, acks.waiting], [[0, 1, 2, 3], 0])
})

t.test('those of a connection that is gone are never sent', async (t) => {
  const { sent, acks, settle } = stage()
  settle[0]()
  acks.close()
  await turn()
  acks.flush()
  settle[1]()
  acks.add(9)()
  await turn()
  t.same([sent, acks.waiting], [[], 0])
})
