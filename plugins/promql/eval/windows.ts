/** Where range functions get their windows from: matrix selectors and subqueries, series by series. */
import type { StoredRows } from 'svcdb/lib/columns'
import type { MatrixSelector, SubqueryExpr } from '../ast.ts'
import type { RangeFunction } from '../functions/contract.ts'
import type { LabelSets } from '../labels.ts'
import type { Evaluation } from './context.ts'
import { withStatsOnly } from './histogram-stats.ts'
import { milliseconds, type Reference, referenceOf, referenceSpan } from './modifiers.ts'
import { markDistinct } from './series-sets.ts'
import type { SampleSource, Selection, SelectRequest } from './source.ts'
import { streamedSubquery } from './streamed-subquery.ts'
import { blocksOf, evaluateSubquery } from './subquery.ts'
import { SAMPLE_STALE, type SampleBlock, type Steps } from './value.ts'

export interface RangeInput {
  labels: LabelSets
  /** Without stale samples; can be read once. */
  blocks(): AsyncIterable<SampleBlock>
  /** Instead of `blocks`: as Selection.stored. */
  stored?(): AsyncIterable<SampleBlock | StoredRows>
  reference: Reference
  /** Milliseconds. */
  range: number
  /** How much further than the range windows reach, back and ahead. */
  before: number
  ahead: number
  modifier?: 'anchored' | 'smoothed'
  /** Names of these series are to go already. */
  dropName?: Uint8Array
}

/** What matters of windows; all that has neither. */
type Needs = Pick<RangeFunction, 'edges' | 'newest'>

export async function rangeInput(expr: MatrixSelector | SubqueryExpr, steps: Steps, evaluation: Evaluation, needs: Needs): Promise<RangeInput> {
  return expr.kind === 'matrix' ? ofSelector(expr, steps, evaluation, needs) : ofSubquery(expr, steps, evaluation)
}

async function ofSelector(expr: MatrixSelector, steps: Steps, evaluation: Evaluation, { edges, newest }: Needs): Promise<RangeInput> {
  const { context, statsOnly } = evaluation
  const { vector } = expr
  const stats = statsOnly.has(vector)
  const reference = referenceOf(vector, context)
  const range = milliseconds(expr.range, context)
  const { first, last } = referenceSpan(reference, steps)
  const before = vector.modifier === undefined ? 0 : context.lookbackMs
  const ahead = vector.modifier === 'smoothed' ? context.lookbackMs : 0
  // Whether the counter was reset before a window's first sample shows in the sample at its open end.
  const after = first - range - before - (stats ? 1 : 0)
  const windows = { first, interval: steps.interval, count: reference.at === undefined ? steps.count : 1, range }
  const request = { matchers: vector.matchers, after, upTo: last + ahead }
  const whole = !stats && vector.modifier === undefined
  const selection =
    newest === true && first === last && whole
      ? await newestSamples(context.source, request)
      : await context.source.select({ ...request, ...(edges === true && whole ? { windows } : {}) })
  return {
    labels: markDistinct(selection.labels),
    blocks: async function* () {
      for await (const block of selection.blocks()) yield withoutStale(stats ? withStatsOnly(block) : block)
    },
    ...(stats || selection.stored === undefined ? {} : { stored: () => storedWithoutStale(selection.stored!()) }),
    reference,
    range,
    before,
    ahead,
    ...(vector.modifier === undefined ? {} : { modifier: vector.modifier }),
  }
}

async function ofSubquery(expr: SubqueryExpr, steps: Steps, evaluation: Evaluation): Promise<RangeInput> {
  const { context } = evaluation
  const windows = { reference: referenceOf(expr, context), range: milliseconds(expr.range, context), before: 0, ahead: 0 }
  const streamed = await streamedSubquery(expr, steps, evaluation)
  if (streamed !== undefined) return { ...streamed, ...windows }
  const child = await evaluateSubquery(expr, steps, evaluation)
  const { value } = child
  return {
    labels: value.labels,
    blocks: async function* () {
      yield* blocksOf(value, child.steps)
      evaluation.release([value])
    },
    ...windows,
    ...(value.dropName === undefined ? {} : { dropName: value.dropName }),
  }
}

/** The newest sample of each series that is no staleness marker; where one is, all samples of all series. */
async function newestSamples(source: SampleSource, request: SelectRequest): Promise<Selection> {
  const { labels, blocks } = await source.select({ ...request, newestOnly: true })
  const found: SampleBlock[] = []
  for await (const block of blocks()) {
    // With labels of its own: those of buckets come from the histograms that were read.
    if (block.kinds?.includes(SAMPLE_STALE) === true) return source.select(request)
    // Its arrays are used again.
    const { first, starts, times, values, kinds, histograms } = block
    found.push({ first, starts: starts.slice(), times: times.slice(), values: values.slice(), kinds: kinds?.slice(), histograms: histograms?.slice() })
  }
  return {
    labels,
    async *blocks() {
      yield* found
    },
  }
}

async function* storedWithoutStale(blocks: AsyncIterable<SampleBlock | StoredRows>): AsyncGenerator<SampleBlock | StoredRows> {
  for await (const block of blocks) yield 'runs' in block ? block : withoutStale(block)
}

/** The block itself when it has no staleness markers. */
export function withoutStale(block: SampleBlock): SampleBlock {
  const { kinds, starts } = block
  if (kinds === undefined || !kinds.includes(SAMPLE_STALE)) return block
  const out = {
    first: block.first,
    starts: new Int32Array(starts.length),
    times: new Float64Array(kinds.length),
    values: new Float64Array(kinds.length),
    kinds: new Uint8Array(kinds.length),
    ...(block.histograms === undefined ? {} : { histograms: [] as NonNullable<SampleBlock['histograms']> }),
  }
  let n = 0
  let samples = 0
  for (let s = 0; s + 1 < starts.length; s++) {
    for (let i = starts[s]; i < starts[s + 1]; i++) {
      if (kinds[i] === SAMPLE_STALE) continue
      out.times[n] = block.times[i]
      out.values[n] = block.values[i]
      out.kinds[n] = kinds[i]
      out.histograms?.push(block.histograms?.[i])
      samples |= kinds[i]
      n++
    }
    out.starts[s + 1] = n
  }
  // Functions take a shorter way when there are only floats.
  if (samples === 0) return { first: out.first, starts: out.starts, times: out.times, values: out.values }
  return out
}
