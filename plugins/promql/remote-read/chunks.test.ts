import type { NativeHistogram } from 'svcdb/lib/histogram'
import t from 'tap'
import { BitWriter } from './bit-writer.ts'
import { floatChunk } from './float-chunk.ts'
import { histogramChunk, succession } from './histogram-chunk.ts'
import { readFloatChunk, readHistogramChunk } from './testing-chunks.ts'

let seed = 11
const random = (): number => (seed = (seed * 48271) % 2147483647) / 2147483647
const bitsOf = (value: number): bigint => new BigUint64Array(Float64Array.of(value).buffer)[0]

t.test('bits, varints and numbers of variable width', async (t) => {
  const hex = (write: (out: BitWriter) => void): string => {
    const out = new BitWriter()
    write(out)
    return Buffer.from(out.take()).toString('hex')
  }
  t.equal(
    hex((out) => {
      out.bits(0b101, 3)
      out.bits(0x12345678, 32)
    }),
    'a2468acf00',
  )
  t.equal(
    hex((out) => out.uvarint(300)),
    'ac02',
  )
  t.equal(
    hex((out) => out.varint(-2)),
    '03',
  )
  t.equal(
    hex((out) => out.varbitInt(4)),
    'a0',
    'the largest of three bits: 10 100',
  )
  t.equal(
    hex((out) => out.varbitInt(-3)),
    'a8',
  )
  t.equal(
    hex((out) => out.varbitInt(-4)),
    'de00',
    'one more takes six: 110 111100',
  )
  t.equal(
    hex((out) => out.varbitInt(-(2 ** 60))),
    'fff000000000000000',
  )
  const out = new BitWriter()
  for (let i = 0; i < 1000; i++) out.bits(1, 7)
  t.equal(out.length, 875)
  out.take()
  out.bits(0, 16)
  t.same(out.take(), [0, 0], 'nothing of the last chunk is left')
})

t.test('floats come back bit for bit', async (t) => {
  const cases: Record<string, { step: (i: number) => number; value: (i: number) => number }> = {
    constant: { step: () => 15_000, value: () => 1 },
    counter: { step: () => 15_000, value: (i) => i * 7 },
    'random walk with jitter': { step: () => 15_000 + Math.round(random() * 20 - 10), value: () => random() * 100 },
    'every size of gap': { step: (i) => [1, 8000, 8193, 60_000, 65_537, 500_000, 524_289, 2 ** 33, 2 ** 40][i % 9], value: (i) => (i % 3) - 1 },
    'all exponents': { step: () => 1, value: (i) => (i % 2 ? -1 : 1) * 10 ** (i - 60) },
    special: { step: () => 1000, value: (i) => [0, -0, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY, Number.MIN_VALUE, Number.MAX_VALUE][i % 6] },
  }
  for (const [name, { step, value }] of Object.entries(cases)) {
    for (const [count, start] of [
      [1, 1_700_000_000_000],
      [2, -5_000_000_000],
      [120, 1_700_000_000_123],
    ]) {
      const values = Float64Array.from({ length: count }, (_, i) => value(i))
      const times = new Float64Array(count)
      for (let i = 0; i < count; i++) times[i] = i === 0 ? start : times[i - 1] + step(i)
      const chunk = floatChunk(times, values, () => false, 0, count)
      t.same(
        readFloatChunk(chunk),
        Array.from(times, (time, i) => ({ time, bits: bitsOf(values[i]) })),
        `${name}, ${count}`,
      )
    }
  }
})

t.test('a chunk is a part of its arrays; staleness markers and NaN have the bits that Prometheus knows', async (t) => {
  const times = Float64Array.of(1, 2, 3, 4, 5)
  const values = Float64Array.of(9, 1, Number.NaN, Number.NaN, 9)
  const chunk = floatChunk(times, values, (at) => at === 3, 1, 4)
  t.same(readFloatChunk(chunk), [
    { time: 2, bits: bitsOf(1) },
    { time: 3, bits: 0x7ff8000000000001n },
    { time: 4, bits: 0x7ff0000000000002n },
  ])
})

function histogram(fields: Partial<NativeHistogram> = {}): NativeHistogram {
  return {
    schema: 1,
    counterReset: 'unknown',
    count: 12,
    sum: 18.4,
    zeroThreshold: 0.001,
    zeroCount: 2,
    positiveSpans: [
      { offset: 0, length: 2 },
      { offset: 1, length: 2 },
    ],
    positiveCounts: Float64Array.of(1, 2, 1, 1),
    negativeSpans: [{ offset: -3, length: 1 }],
    negativeCounts: Float64Array.of(5),
    customBounds: new Float64Array(0),
    integer: true,
    ...fields,
  }
}

t.test('histograms of integers and of floats come back', async (t) => {
  for (const integer of [true, false]) {
    const list = Array.from({ length: 120 }, (_, i) => {
      const size = integer ? Math.floor(random() * 10 ** (i % 13)) : random() * 10 ** (i % 13)
      const positiveCounts = Float64Array.from([1, 2, 3, 4], (x) => x * i + size)
      return histogram({ integer, positiveCounts, count: size * 9 + i, zeroCount: i, sum: random() * i, negativeCounts: Float64Array.of(i * i) })
    })
    const times = list.map((_, i) => 1_700_000_000_000 + i * 15_000 + (i % 7))
    const read = readHistogramChunk(histogramChunk(times, list, false), integer)
    t.match(read, { flags: 0, zeroThreshold: 0.001, schema: 1, positiveSpans: list[0].positiveSpans, negativeSpans: list[0].negativeSpans, customBounds: [] })
    t.same(
      read.samples,
      list.map((h, i) => ({
        time: times[i],
        count: h.count,
        zeroCount: h.zeroCount,
        sum: h.sum,
        positive: [...h.positiveCounts],
        negative: [...h.negativeCounts],
      })),
    )
  }
})

t.test('thresholds, custom boundaries and flags', async (t) => {
  for (const zeroThreshold of [0, 2 ** -128, 2 ** -243, 2 ** 10, 2 ** -244, 2 ** 11, 0.3, 5e-324])
    t.equal(readHistogramChunk(histogramChunk([1], [histogram({ zeroThreshold })], false), true).zeroThreshold, zeroThreshold)
  const customBounds = Float64Array.of(-1, 0, 0.005, 0.1, 0.12345, 1, 33554.43, 33554.431, 1e9)
  const custom = histogram({ schema: -53, customBounds, negativeSpans: [], negativeCounts: new Float64Array(0), zeroThreshold: 0, zeroCount: 0 })
  t.same(readHistogramChunk(histogramChunk([1], [custom], false), true).customBounds, [...customBounds])
  for (const [counterReset, reset, flags] of [
    ['unknown', false, 0],
    ['unknown', true, 0x80],
    ['reset', false, 0x80],
    ['not_reset', false, 0x40],
    ['gauge', true, 0xc0],
  ] as const)
    t.equal(readHistogramChunk(histogramChunk([1], [histogram({ counterReset })], reset), true).flags, flags, `${counterReset} ${reset}`)
})

t.test('what ends a chunk', async (t) => {
  const before = histogram()
  t.equal(succession(before, histogram({ count: 13 })), 'same')
  t.equal(succession(before, histogram({ count: 11 })), 'reset')
  t.equal(succession(before, histogram({ zeroCount: 1 })), 'reset')
  t.equal(succession(before, histogram({ positiveCounts: Float64Array.of(1, 2, 0, 9) })), 'reset')
  t.equal(succession(before, histogram({ counterReset: 'reset' })), 'reset')
  t.equal(succession(before, histogram({ schema: 0 })), 'other')
  t.equal(succession(before, histogram({ integer: false })), 'other')
  t.equal(succession(before, histogram({ positiveSpans: [{ offset: 0, length: 4 }] })), 'other')
  t.equal(succession(before, histogram({ counterReset: 'gauge' })), 'other')
  const gauge = histogram({ counterReset: 'gauge' })
  t.equal(succession(gauge, histogram({ counterReset: 'gauge', count: 1 })), 'same', 'gauges fall')
})
