/** Native histograms as buckets, counts and sums. */
import t from 'tap'
import { SAMPLE_FLOAT, SAMPLE_HISTOGRAM, SAMPLE_STALE, type SampleBlock } from '../eval/value.ts'
import { FloatHistogram } from '../histogram/float-histogram.ts'
import { LabelList, Labels } from '../labels.ts'
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

async function bucketsOf(passes: (boundary: string) => boolean): Promise<string[]> {
  const view = await buckets(labels, once(), passes)
  const { starts, times, values, kinds } = view.block
  return Array.from({ length: view.labels.length }, (_, s) => {
    const samples = Array.from({ length: starts[s + 1] - starts[s] }, (_, i) => {
      const at = starts[s] + i
      return `${times[at]}:${kinds?.[at] === SAMPLE_STALE ? 'stale' : values[at]}`
    })
    return `${view.labels.at(s).pairs.join('=')} ${samples.join(' ')}`
  })
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
