/**
 * Remote read: requests that are damaged at random are read or refused, never more; chunks of random samples are read back as they were.
 * node plugins/promql/remote-read/remote-read.fuzz.ts [seconds] [seed]
 */
import { deepStrictEqual } from 'node:assert'
import { SvcError } from 'svcdb/lib/errors'
import type { CounterResetHint, NativeHistogram } from 'svcdb/lib/histogram'
import { type Random, seeded } from 'svcdb/lib/random'
import { floatChunk } from './float-chunk.ts'
import { histogramChunk } from './histogram-chunk.ts'
import { readRequest } from './request.ts'
import { readFloatChunk, readHistogramChunk } from './testing-chunks.ts'
import { readRequestBytes } from './testing-messages.ts'

const seconds = Number(process.argv[2] ?? 5)
const seed = Number(process.argv[3] ?? Date.now() % 1e9)
const random = seeded(seed)
const pick = <T>(list: readonly T[]): T => list[Math.floor(random() * list.length)]
const below = (n: number): number => Math.floor(random() * n)

/** Any float: of its bits, of few digits, or special. */
function float(from: Random): number {
  const shape = from()
  if (shape < 0.3) return new Float64Array(Uint32Array.of(from() * 2 ** 32, from() * 2 ** 32).buffer)[0]
  if (shape < 0.9) return Math.round(from() * 1000) / pick([1, 10, 1000])
  return pick([0, -0, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY, Number.MAX_VALUE, Number.MIN_VALUE])
}

function times(count: number): Float64Array {
  const out = new Float64Array(count)
  out[0] = below(2 ** 41) - 2 ** 39
  const step = 2 ** below(24)
  for (let i = 1; i < count; i++) out[i] = out[i - 1] + 1 + below(pick([1, step, step, 2 ** 34]))
  return out
}

function request(): void {
  const queries = Array.from({ length: below(3) }, () => ({
    start: below(2 ** 42),
    end: below(2 ** 42),
    matchers: Array.from({ length: below(4) }, (): [string, '=' | '!~', string] => [pick(['__name__', 'é', '']), pick(['=', '!~']), pick(['up', '.*', '💧'])]),
  }))
  const bytes = readRequestBytes(queries, pick([[], [0], [1], [1, 0]]), random() < 0.5)
  const whole = readRequest(bytes)
  deepStrictEqual(
    whole.queries,
    queries.map(({ start, end, matchers }) => ({ start, end, matchers: matchers.map(([name, op, value]) => ({ name, op, value })) })),
  )
  if (bytes.length === 0) return
  for (let n = below(4); n >= 0; n--) bytes[below(bytes.length)] = below(256)
  try {
    readRequest(bytes.subarray(0, random() < 0.5 ? bytes.length : below(bytes.length)))
  } catch (error) {
    if (!(error instanceof SvcError)) throw error
  }
}

function floats(): void {
  const count = 1 + below(130)
  const at = times(count)
  const values = Float64Array.from({ length: count }, () => float(random))
  const stale = Uint8Array.from({ length: count }, () => (random() < 0.05 ? 1 : 0))
  const bits = new BigUint64Array(values.buffer)
  deepStrictEqual(
    readFloatChunk(floatChunk(at, values, (i) => stale[i] === 1, 0, count)),
    Array.from(at, (time, i) => ({ time, bits: stale[i] === 1 ? 0x7ff0000000000002n : Number.isNaN(values[i]) ? 0x7ff8000000000001n : bits[i] })),
  )
}

function histograms(): void {
  const integer = random() < 0.5
  const number = (): number => (integer ? below(2 ** pick([3, 10, 31, 45])) : Math.abs(float(random)) || 0)
  const spans = Array.from({ length: below(4) }, (_, i) => ({ offset: i === 0 ? below(200) - 100 : below(20), length: 1 + below(3) }))
  const size = spans.reduce((sum, { length }) => sum + length, 0)
  const schema = pick([-4, 0, 3, 8, -53])
  const shared = {
    schema,
    counterReset: pick<CounterResetHint>(['unknown', 'gauge']),
    zeroThreshold: pick([0, 2 ** -128, 0.001, Math.abs(float(random)) || 0]),
    positiveSpans: spans,
    negativeSpans: schema === -53 ? [] : spans.slice(0, 1),
    customBounds:
      schema === -53 ? Float64Array.from({ length: below(5) }, () => float(random) || 0).filter((bound) => !Number.isNaN(bound)) : new Float64Array(0),
    integer,
  }
  if (Number.isNaN(shared.zeroThreshold)) return
  const list: NativeHistogram[] = Array.from({ length: 1 + below(20) }, () => ({
    ...shared,
    count: number(),
    sum: number(),
    zeroCount: number(),
    positiveCounts: Float64Array.from({ length: size }, number),
    negativeCounts: Float64Array.from({ length: shared.negativeSpans[0]?.length ?? 0 }, number),
  }))
  const at = [...times(list.length)]
  const read = readHistogramChunk(histogramChunk(at, list, false), integer)
  deepStrictEqual(read.positiveSpans, spans)
  deepStrictEqual([read.schema, read.zeroThreshold, read.customBounds], [schema, shared.zeroThreshold, [...shared.customBounds]])
  deepStrictEqual(
    read.samples,
    list.map((h, i) => ({ time: at[i], count: h.count, zeroCount: h.zeroCount, sum: h.sum, positive: [...h.positiveCounts], negative: [...h.negativeCounts] })),
  )
}

let runs = 0
try {
  for (const end = performance.now() + seconds * 1000; performance.now() < end; runs++) pick([request, floats, histograms])()
} catch (error) {
  console.error(`seed ${seed}, run ${runs}`)
  throw error
}
console.log(`${runs} runs, seed ${seed}`)
if (runs < 100) process.exitCode = 1
