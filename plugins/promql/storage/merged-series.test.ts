/** Selections put together: series of several parts that have the same labels. */
import t from 'tap'
import { TOO_MANY_SAMPLES } from '../errors.ts'
import { Pacer } from '../eval/context.ts'
import type { Selection } from '../eval/source.ts'
import { SAMPLE_FLOAT, SAMPLE_HISTOGRAM, SAMPLE_STALE, type SampleBlock } from '../eval/value.ts'
import type { FloatHistogram } from '../histogram/float-histogram.ts'
import { histogram } from '../histogram/testing.ts'
import { LabelList, Labels } from '../labels.ts'
import { Restless } from '../testing/restless.ts'
import { mergedSelection } from './merged-series.ts'
import { JoinedLabels } from './metric-labels.ts'

type Series = [labels: Record<string, string>, samples: [time: number, value: number | FloatHistogram | 'stale'][]]

/** One block a series, so that places within blocks count. */
function selection(...series: Series[]): Selection {
  return {
    labels: new LabelList(series.map(([labels]) => Labels.of(labels))),
    async *blocks() {
      for (const [first, [, samples]] of series.entries()) {
        const block: SampleBlock = {
          first,
          starts: Int32Array.of(0, samples.length),
          times: Float64Array.from(samples, ([time]) => time),
          values: Float64Array.from(samples, ([, value]) => (typeof value === 'number' ? value : 0)),
        }
        if (samples.some(([, value]) => typeof value !== 'number')) {
          block.kinds = Uint8Array.from(samples, ([, value]) =>
            value === 'stale' ? SAMPLE_STALE : typeof value === 'number' ? SAMPLE_FLOAT : SAMPLE_HISTOGRAM,
          )
          block.histograms = samples.map(([, value]) => (typeof value === 'object' ? value : undefined))
        }
        yield block
      }
    },
  }
}

const merge = (parts: readonly Selection[], maxSamples = 1e6, pacer = new Pacer(new AbortController().signal)) => mergedSelection(parts, maxSamples, pacer)

async function read({ labels, blocks }: Selection): Promise<string[]> {
  const out: string[] = []
  for await (const { first, starts, times, values, kinds, histograms } of blocks())
    for (let s = 0; s + 1 < starts.length; s++)
      for (let i = starts[s]; i < starts[s + 1]; i++) {
        const kind = kinds?.[i] ?? SAMPLE_FLOAT
        const text = kind === SAMPLE_STALE ? 'stale' : kind === SAMPLE_HISTOGRAM ? `h${histograms?.[i]?.count}` : values[i]
        out.push(`${labels.at(first + s).pairs.join('')} ${times[i]} ${text}`)
      }
  return out
}

t.test('parts without a label set in common stay apart', async (t) => {
  t.equal(merge([selection([{ a: '1' }, [[1, 1]]]), selection([{ a: '2' }, [[1, 2]]])]), undefined)
})

t.test('samples come in ascending time; of equal times the later part wins', async (t) => {
  const merged = merge([
    selection(
      [{ a: '0' }, []],
      [
        { a: '1' },
        [
          [1, 1],
          [3, 3],
          [5, 5],
        ],
      ],
    ),
    selection(
      [
        { a: '1' },
        [
          [2, histogram({ count: 9, sum: 1 })],
          [3, 'stale'],
          [6, 6],
        ],
      ],
      [{ a: '2' }, [[4, 4]]],
    ),
  ])
  t.same(await read(merged as Selection), ['a1 1 1', 'a1 2 h9', 'a1 3 stale', 'a1 5 5', 'a1 6 6', 'a2 4 4'])
  t.equal(merged?.labels.length, 3)
})

t.test('the first part is read as it is where the others have no samples', async (t) => {
  const first = selection([{ a: '1' }, [[1, 1]]], [{ a: '2' }, [[2, 2]]])
  const merged = merge([first, selection([{ a: '2' }, []], [{ a: '3' }, []])])
  t.equal(merged?.labels.length, 3)
  t.same(await read(merged as Selection), ['a1 1 1', 'a2 2 2'])
  let blocks = 0
  for await (const { starts } of (merged as Selection).blocks()) blocks += starts.length - 1
  t.equal(blocks, 2)
})

t.test('series of the first part that others have nothing of are read as they are', async (t) => {
  const block: SampleBlock = { first: 1, starts: Int32Array.of(0, 1, 2), times: Float64Array.of(1, 1), values: Float64Array.of(1, 2) }
  const labels = new LabelList(['0', '1', '2', '3'].map((a) => Labels.of({ a })))
  const first: Selection = {
    labels,
    async *blocks() {
      yield block
      yield { ...block, first: 3, starts: Int32Array.of(0, 1) }
    },
  }
  const merged = merge([first, selection([{ a: '4' }, [[9, 9]]], [{ a: '3' }, [[2, 4]]], [{ a: '0' }, [[5, 5]]])])
  const blocks: SampleBlock[] = []
  for await (const each of (merged as Selection).blocks()) blocks.push(each)
  t.same(
    blocks.map(({ first, values }) => [first, ...values]),
    [
      [0, 5],
      [1, 1, 2],
      [3, 1, 4],
      [4, 9],
    ],
    'in the order of their places',
  )
  t.equal(blocks[1], block)
})

t.test('series of one part that have the same labels', async (t) => {
  const merged = merge([selection([{ a: '1' }, [[1, 1]]], [{ a: '2' }, [[2, 2]]], [{ a: '1' }, [[3, 3]]])])
  t.same(await read(merged as Selection), ['a1 1 1', 'a1 3 3', 'a2 2 2'])
})

t.test('what is held of the parts beside the first is bounded, and who cancels is heard', async (t) => {
  const floats = (count: number): Series => [{ a: '1' }, Array.from({ length: count }, (_, i) => [i, i])]
  const native: Series = [{ a: '1' }, [[1, histogram({ count: 1, sum: 1, positive: { 1: 1 } })]]]
  const error = { name: 'ExecutionError', message: TOO_MANY_SAMPLES }
  t.equal((await read(merge([selection(floats(100)), selection(floats(9))], 10) as Selection)).length, 100)
  await t.rejects(read(merge([selection(floats(9)), selection(floats(100))], 10) as Selection), error)
  await t.rejects(read(merge([selection(floats(9)), selection(native)], 10) as Selection), error, 'histograms count with their buckets')
  await t.rejects(read(merge([selection(floats(9)), selection(floats(9))], 10, new Restless(AbortSignal.abort())) as Selection), { name: 'QueryStoppedError' })
})

t.test('labels of parts as one list', async (t) => {
  const parts = [[{ a: '1' }, { b: '2' }], [], [{ a: '2' }, { a: '1', b: '3' }], []]
  const joined = new JoinedLabels(parts.map((list) => new LabelList(list.map((labels) => Labels.of(labels as Record<string, string>)))))
  t.equal(joined.length, 4)
  t.same(
    Array.from({ length: 4 }, (_, i) => joined.at(i).pairs.join('')),
    ['a1', 'b2', 'a2', 'a1b3'],
  )
  const texts = (name: string) => {
    const { codes, texts } = joined.column(name)
    return Array.from(codes, (code) => (code < 0 ? '-' : texts[code]))
  }
  t.same(texts('a'), ['1', '-', '2', '1'])
  t.same(texts('b'), ['-', '2', '-', '3'])
  t.same(texts('c'), ['-', '-', '-', '-'])
  t.equal(joined.column('a').codes[0], joined.column('a').codes[3], 'equal texts have equal codes')
})
