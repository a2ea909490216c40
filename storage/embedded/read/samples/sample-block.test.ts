/** Times in milliseconds, and blocks as they are built. */

import { SAMPLE_FLOAT, SAMPLE_HISTOGRAM, SAMPLE_STALE } from 'svcdb/lib/columns'
import { staleHistogram } from 'svcdb/lib/histogram'
import t from 'tap'
import { Random } from '../../../conformance/random.ts'
import { milliseconds } from '../../parquet/nanoseconds.ts'
import { SampleBlockBuilder } from './sample-block.ts'

const seed = Number(process.env.SVC_SEED ?? Date.now() % 1e9)
const halves = (ns: bigint): [low: number, high: number] => [Number(BigInt.asIntN(32, ns)), Number(ns >> 32n)]
const floorMs = (ns: bigint): number => Number((ns - (((ns % 1_000_000n) + 1_000_000n) % 1_000_000n)) / 1_000_000n)

t.test(`nanoseconds to milliseconds, rounded down, SVC_SEED=${seed}`, async (t) => {
  const random = new Random(seed)
  const edges = [-(2n ** 63n), 2n ** 63n - 1n, 0n, -1n, 1n, -1_000_000n, 999_999n, 2n ** 32n, 2n ** 31n, -(2n ** 32n)]
  const times = edges.flatMap((edge) => [-1n, 0n, 1n].map((by) => BigInt.asIntN(64, edge + by)))
  for (let i = 0; i < 20_000; i++) {
    const ms = BigInt(Math.floor((random.next() - 0.5) * 2 ** (10 + random.below(34))))
    times.push(ms * 1_000_000n + BigInt(random.pick([0, 1, 499_999, 500_000, 999_999])))
  }
  for (const ns of times) if (milliseconds(...halves(ns)) !== floorMs(ns)) return t.equal(milliseconds(...halves(ns)), floorMs(ns), `${ns}`)
})

t.test('floats, markers and histograms side by side', async (t) => {
  const builder = new SampleBlockBuilder(2)
  const histogram = Uint8Array.of(1, 2, 3)
  builder.addFloat(3, ...halves(1_000_000n), 0, 0x3ff00000)
  builder.addFloat(3, ...halves(2_500_000n), 2, 0x7ff00000)
  builder.addBlob(3, ...halves(3_000_000n), histogram)
  builder.addBlob(9, ...halves(1_000_000n), staleHistogram())
  for (let i = 0; i < 100; i++) builder.addNumber(10 + i, ...halves(BigInt(i) * 1_000_000n), i)
  builder.addFloat(500, ...halves(7n), 1, 0x7ff80000)
  const { bytes } = builder
  const block = builder.build(true)
  t.same([...block.series.subarray(0, 3)], [3, 9, 10])
  t.same([...block.starts.subarray(0, 4)], [0, 3, 4, 5])
  t.equal(block.series.length, 103)
  t.equal(block.starts[103], 105)
  t.same([...block.times.subarray(0, 4)], [1, 2, 3, 1])
  t.equal(block.rests?.[1], 500_000)
  t.same([...(block.kinds?.subarray(0, 5) ?? [])], [SAMPLE_FLOAT, SAMPLE_STALE, SAMPLE_HISTOGRAM, SAMPLE_STALE, SAMPLE_FLOAT])
  t.equal(block.blobs?.[2], histogram)
  t.equal(block.values[0], 1)
  t.ok(Number.isNaN(block.values[104]))
  t.equal(block.kinds?.[104], SAMPLE_FLOAT, 'an ordinary NaN is a sample')
  t.same([block.minTime, block.maxTime], [0, 99])
  t.ok(bytes > 105 * 21 + histogram.length, 'histograms count as memory')
  t.equal(block.times.buffer.byteLength, 105 * 8, 'arrays are cut to size')
})
