/** What says nothing of what an edge node is now: messages that delete one that a broker has kept. */
import t from 'tap'
import { encode, host, NOW } from './testing.ts'

const NODE = 'spBv1.0/plant/NBIRTH/edge'
const DEVICE = 'spBv1.0/plant/DBIRTH/edge/press'
const birth = (seq: number, name: string, bdSeq: number, timestamp = NOW) => ({
  timestamp,
  seq,
  metrics: [
    { name: 'bdSeq', type: 'UInt64', value: bdSeq },
    { name, alias: 1, type: 'Double', value: 0 },
  ],
})
const data = (seq: number, alias = 1) => ({ timestamp: NOW + seq, seq, metrics: [{ alias, type: 'Double', value: seq }] })

t.test('an empty message is neither a birth nor a death', async (t) => {
  const { take } = host()
  take(NODE, birth(0, 'a', 1))
  const empty = new Uint8Array(0)
  for (const topic of [NODE, DEVICE, 'spBv1.0/plant/NDEATH/edge', 'spBv1.0/plant/DDEATH/edge/press', 'spBv1.0/plant/NDATA/edge'])
    t.throws(() => take(topic, empty), { code: 'BAD_REQUEST', message: /it is empty/ }, topic)
  t.match(take('spBv1.0/plant/NDATA/edge', encode(data(1))), { points: [{ fields: { a: 1 } }], error: undefined }, 'what was known is')
})
