/** Native histograms as buckets, counts and sums. */
import t from 'tap'
import { TOO_MANY_SAMPLES } from '../errors.ts'
import { Pacer } from '../eval/context.ts'
import { SAMPLE_FLOAT, SAMPLE_HISTOGRAM, SAMPLE_STALE, type SampleBlock } from '../eval/value.ts'
import { FloatHistogram } from '../histogram/float-histogram.ts'
import { LabelList, Labels } from '../labels.ts'
import { Restless } from '../testing/restless.ts'
import { buckets, totals } from './classic-view.ts'

/** Buckets up to 1, 5 and +Inf. */
function histogram(...counts: number[]): FloatHistogram {
  const h = new FloatHistogram()
  h.schema = -53
  h.customBounds = Float64Array.of(1, 5)
  h.positive = { index: Int32Array.from(counts.keys()), counts: Float64Array.from(counts) }
  h.count = counts.reduce((sum, count) => sum + count, 0)
  h.sum = h.count * 10
  return h
}

/** Series a: two histograms and a marker; series b: nothing; series c: one histogram of the first bucket alone. */
const block: SampleBlock = {
  first: 0,
  starts: Int32Array.of(0, 3, 3, 4),
  times: Float64Array.of(10, 20, 30, 10),
  values: new Float64Array(4),
  kinds: Uint8Array.of(SAMPLE_HISTOGRAM, SAMPLE_HISTOGRAM, SAMPLE_STALE, SAMPLE_HISTOGRAM),
  histograms: [histogram(1, 2, 3), histogram(2, 2, 4), undefined, histogram(7)],
}
const labels = new LabelList(['a', 'b', 'c'].map((id) => Labels.of({ id })))

async function* once(): AsyncGenerator<SampleBlock> {
  yield block
}

t.test('counts and sums are floats; markers stay', async (t) => {
  const counts = totals(block, 'count')
  t.same([...counts.values], [6, 8, 0, 7])
  t.same([...(counts.kinds ?? [])], [SAMPLE_FLOAT, SAMPLE_FLOAT, SAMPLE_STALE, SAMPLE_FLOAT])
  t.equal(counts.histograms, undefined)
  t.same([...totals(block, 'sum').values], [60, 80, 0, 70])
})

const pacer = () => new Pacer(new AbortController().signal)

async function bucketsOf(passes: (boundary: string) => boolean, blocks = once(), sets = labels): Promise<string[]> {
  const view = await buckets(sets, blocks, passes, 1e6, pacer())
  const lines: string[] = []
  for await (const { first, starts, times, values, kinds } of view.blocks()) {
    for (let s = 0; s + 1 < starts.length; s++) {
      const samples = Array.from({ length: starts[s + 1] - starts[s] }, (_, i) => {
        const at = starts[s] + i
        return `${times[at]}:${kinds?.[at] === SAMPLE_STALE ? 'stale' : values[at]}`
      })
      lines.push(`${view.labels.at(first + s).pairs.join('=')} ${samples.join(' ')}`)
    }
  }
  t.equal(lines.length, view.labels.length)
  return lines
}

t.test('buckets are cumulative, one series for each boundary met', async (t) => {
  t.same(await bucketsOf(() => true), [
    'id=a=le=1.0 10:1 20:2 30:stale',
    'id=a=le=5.0 10:3 20:4 30:stale',
    'id=a=le=+Inf 10:6 20:8 30:stale',
    'id=c=le=1.0 10:7',
    'id=c=le=+Inf 10:7',
  ])
})

t.test('only boundaries that are wanted', async (t) => {
  t.same(await bucketsOf((boundary) => boundary === '+Inf'), ['id=a=le=+Inf 10:6 20:8 30:stale', 'id=c=le=+Inf 10:7'])
  t.same(await bucketsOf(() => false), [])
})

/** As many series, each of so many samples of two buckets. */
async function* many(series: number, samples: number): AsyncGenerator<SampleBlock> {
  const total = series * samples
  yield {
    first: 0,
    starts: Int32Array.from({ length: series + 1 }, (_, s) => s * samples),
    times: Float64Array.from({ length: total }, (_, i) => i % samples),
    values: new Float64Array(total),
    kinds: new Uint8Array(total).fill(SAMPLE_HISTOGRAM),
    histograms: Array.from({ length: total }, (_, i) => histogram(i, 1)),
  }
}
const ids = (series: number) => new LabelList(Array.from({ length: series }, (_, s) => Labels.of({ id: String(s).padStart(4, '0') })))

t.test('of many samples, series follow each other in several blocks', async (t) => {
  const lines = await bucketsOf(() => true, many(30, 1000), ids(30))
  const expected = Array.from({ length: 30 }, (_, s) =>
    ['1.0', '5.0', '+Inf'].map(
      (le, b) => `id=${String(s).padStart(4, '0')}=le=${le} ${Array.from({ length: 1000 }, (_, i) => `${i}:${s * 1000 + i + Math.min(1, b)}`).join(' ')}`,
    ),
  )
  t.same(lines, expected.flat())
})

t.test('what is held is bounded, and who cancels is heard', async (t) => {
  const error = { name: 'ExecutionError', message: TOO_MANY_SAMPLES }
  await t.rejects(
    buckets(ids(100), many(100, 100), () => true, 19_000, pacer()),
    error,
  )
  await t.rejects(
    buckets(ids(9000), many(9000, 1), () => true, 30_000, pacer()),
    error,
    'label sets count, too',
  )
  await t.resolves(buckets(ids(100), many(100, 100), (le) => le === '+Inf', 19_000, pacer()))
  await t.rejects(
    buckets(ids(1), many(1, 10), () => true, 1e6, new Restless(AbortSignal.abort())),
    { name: 'QueryStoppedError' },
  )
})

t.test('a bucket whose end is no number moves no other boundary', async (t) => {
  const odd = histogram(1, 2, 3)
  odd.schema = 0
  odd.customBounds = new Float64Array(0)
  odd.zeroThreshold = Number.NaN
  odd.zeroCount = 4
  odd.count = 10
  const plain = odd.copy()
  plain.zeroThreshold = 0.25
  const series: SampleBlock = { first: 0, starts: Int32Array.of(0, 2), times: Float64Array.of(10, 20), values: new Float64Array(2), histograms: [odd, plain] }
  async function* blocks(): AsyncGenerator<SampleBlock> {
    yield series
  }
  t.same(await bucketsOf(() => true, blocks(), new LabelList([Labels.of({ id: 'a' })])), [
    'id=a=le=0.25 10:4 20:4',
    'id=a=le=1.0 10:5 20:5',
    'id=a=le=2.0 10:7 20:7',
    'id=a=le=4.0 10:10 20:10',
    'id=a=le=+Inf 10:10 20:10',
  ])
})
