/** What says nothing of what an edge node is now: messages that a broker has kept, or that delete one, and data of edge nodes whose births were missed. */
import t from 'tap'
import { encode, host, NOW } from './testing.ts'

const NODE = 'spBv1.0/plant/NBIRTH/edge'
const DEVICE = 'spBv1.0/plant/DBIRTH/edge/press'
const KEPT = { redelivered: true }
const birth = (seq: number, name: string, bdSeq: number, timestamp = NOW) => ({
  timestamp,
  seq,
  metrics: [
    { name: 'bdSeq', type: 'UInt64', value: bdSeq },
    { name, alias: 1, type: 'Double', value: 0 },
  ],
})
const data = (seq: number, alias = 1) => ({ timestamp: NOW + seq, seq, metrics: [{ alias, type: 'Double', value: seq }] })
const NO_BIRTH = { points: [], error: { message: /no birth has said what alias 1 is/ } }

t.test('data without its births asks for them, also where each metric has its name', async (t) => {
  const { take, asked } = host()
  const named = { timestamp: NOW, seq: 7, metrics: [{ name: 'a', type: 'Double', value: 1 }] }
  t.match(take('spBv1.0/plant/NDATA/edge', named), { points: [{ fields: { a: 1 } }], error: undefined })
  t.same(asked.splice(0), ['plant/edge'])
  take(NODE, birth(0, 'a', 2))
  t.match(take('spBv1.0/plant/NDATA/edge', { ...named, seq: 1 }).error, undefined)
  t.same(asked, [], 'its birth has come')
  t.match(take('spBv1.0/plant/DDATA/edge/press', { ...named, seq: 2 }).error, undefined)
  t.same(asked, ['plant/edge'], 'and not that of the device')
})

t.test('a birth that the broker has kept counts if what follows is the next number', async (t) => {
  const { take, asked } = host()
  take(NODE, birth(0, 'old', 1), KEPT)
  t.match(take('spBv1.0/plant/NDATA/edge', data(50)), NO_BIRTH, 'another may have come since')
  t.ok(asked.includes('plant/edge'))
  take(NODE, birth(0, 'new', 2), KEPT)
  t.match(take('spBv1.0/plant/NDATA/edge', data(1)), { points: [{ fields: { new: 1 } }], error: undefined })

  take(DEVICE, birth(80, 'old', 1), KEPT)
  t.match(take('spBv1.0/plant/DDATA/edge/press', data(90)), NO_BIRTH)
})

t.test('a birth that comes again is not taken in place of a newer one', async (t) => {
  const { take, asked } = host()
  take(NODE, birth(0, 'new', 2, NOW + 2))
  take(DEVICE, birth(1, 'new', 2, NOW + 3))
  take(NODE, birth(0, 'old', 1, NOW - 5), KEPT)
  take(DEVICE, birth(99, 'old', 1, NOW - 4), KEPT)
  t.match(take('spBv1.0/plant/DDATA/edge/press', data(2)), { points: [{ fields: { new: 2 } }], error: undefined })
  t.match(take('spBv1.0/plant/NDATA/edge', data(3)), { points: [{ fields: { new: 3 } }], error: undefined })
  t.same(asked, [])
})

t.test('an empty message is neither a birth nor a death', async (t) => {
  const { take } = host()
  take(NODE, birth(0, 'a', 1))
  const empty = new Uint8Array(0)
  for (const topic of [NODE, DEVICE, 'spBv1.0/plant/NDEATH/edge', 'spBv1.0/plant/DDEATH/edge/press', 'spBv1.0/plant/NDATA/edge'])
    t.throws(() => take(topic, empty), { code: 'BAD_REQUEST', message: /it is empty/ }, topic)
  t.match(take('spBv1.0/plant/NDATA/edge', encode(data(1))), { points: [{ fields: { a: 1 } }], error: undefined }, 'what was known is')
})
