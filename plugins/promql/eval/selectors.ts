/**
 * Instant vector selectors: for each step the newest sample in (time - lookback, time], none when that is a staleness marker.
 * Blocks are reduced as they come, each with one cursor that only moves forward.
 */
import type { StoredRows } from 'svcdb/lib/columns'
import type { VectorSelector } from '../ast.ts'
import type { LabelSets } from '../labels.ts'
import type { Evaluation } from './context.ts'
import { withStatsOnly } from './histogram-stats.ts'
import { type Reference, referenceOf, referenceSpan } from './modifiers.ts'
import type { RowSink } from './row-sink.ts'
import { markDistinct } from './series-sets.ts'
import { FLOAT, SAMPLE_HISTOGRAM, SAMPLE_STALE, type SampleBlock, type Steps, shaped, type VectorValue } from './value.ts'
import { VectorRows } from './vector-rows.ts'

interface Instants {
  value: VectorValue
  /** The time of the sample in each cell, when asked for. */
  times?: Float64Array
}

export async function instantVector(selector: VectorSelector, steps: Steps, evaluation: Evaluation, wantTimes = false): Promise<Instants> {
  const times: TimesOfRows | undefined = wantTimes ? { list: [] } : undefined
  const { labels, sink } = await readInstants(
    selector,
    steps,
    evaluation,
    (selected) => new VectorRows(steps.count, selected.length, evaluation.context.budget),
    times,
  )
  const value = sink.finish(labels)
  return times === undefined ? { value } : { value, times: Float64Array.from(times.list) }
}

/** What an instant selector reads, and the times it looks at. */
interface OpenInstants {
  labels: LabelSets
  reference: Reference
  /** Can be read once. */
  blocks(): AsyncIterable<SampleBlock>
  /** Instead of `blocks`: as Selection.stored. */
  stored?(): AsyncIterable<SampleBlock | StoredRows>
}

export async function openInstants(selector: VectorSelector, steps: Steps, evaluation: Evaluation): Promise<OpenInstants> {
  const { context } = evaluation
  const reference = referenceOf(selector, context)
  const { first, last } = referenceSpan(reference, steps)
  const stats = evaluation.statsOnly.has(selector)
  const after = first - context.lookbackMs
  const { labels, blocks, stored } = await context.source.select({
    matchers: selector.matchers,
    after,
    upTo: last,
    ...(first === last && !stats ? { newestOnly: true } : {}),
  })
  if (stats) return { labels: markDistinct(labels), reference, blocks: () => statsOnly(blocks()) }
  return { labels: markDistinct(labels), reference, blocks, ...(stored === undefined ? {} : { stored }) }
}

async function* statsOnly(blocks: AsyncIterable<SampleBlock>): AsyncGenerator<SampleBlock> {
  for await (const block of blocks) yield withStatsOnly(block)
}

/** Hands each series' row to what `open` gives. */
export async function readInstants<Sink extends RowSink>(
  selector: VectorSelector,
  steps: Steps,
  evaluation: Evaluation,
  open: (labels: LabelSets) => Sink,
  times?: TimesOfRows,
): Promise<{ labels: LabelSets; sink: Sink }> {
  const { context, pacer } = evaluation
  const { labels, reference, blocks } = await openInstants(selector, steps, evaluation)
  const sink = open(labels)
  for await (const read of blocks()) {
    pacer.check()
    const block = shaped(read)
    const series = block.starts.length - 1
    for (let i = 0; i < series; i++) {
      const from = block.starts[i]
      const to = block.starts[i + 1]
      if (from === to) continue
      if (fillRow(block, from, to, steps, reference, context.lookbackMs, sink, times)) sink.keep(block.first + i)
      if (pacer.due(steps.count)) await pacer.pause()
    }
  }
  return { labels, sink }
}

/** Fills one series' row. @returns whether any step has a sample. */
export function fillRow(
  block: SampleBlock,
  from: number,
  to: number,
  steps: Steps,
  reference: Reference,
  lookback: number,
  row: RowSink,
  times?: TimesOfRows,
): boolean {
  if (block.kinds === undefined && times === undefined) return floatsAt(block, from, to, steps, reference, lookback, row)
  return lookAt(block, from, to, steps, reference, lookback, row, times)
}

interface TimesOfRows {
  list: number[]
}

/** Fills one series' row where there are only floats. @returns whether any step has a sample. */
function floatsAt({ times, values }: SampleBlock, from: number, to: number, steps: Steps, { at, offset }: Reference, lookback: number, row: RowSink): boolean {
  const { values: out, kinds, base } = row
  const { start, interval, count } = steps
  let next = from
  let any = false
  for (let step = 0; step < count; step++) {
    const time = (at ?? start + step * interval) - offset
    while (next < to && times[next] <= time) next++
    if (next === from || times[next - 1] <= time - lookback) continue
    out[base + step] = values[next - 1]
    kinds[base + step] = FLOAT
    any = true
  }
  return any
}

/** Numbers of a run (StoredRows). */
const RUN = 3

/** As `fillRow`, of a series whose samples are where they are stored. For references without `@`. */
export function fillStoredRow(
  { starts, runs, stored }: StoredRows,
  series: number,
  steps: Steps,
  { offset }: Reference,
  lookback: number,
  { values: out, kinds, base }: RowSink,
): boolean {
  const { start, interval, count } = steps
  const end = starts[series + 1]
  let any = false
  /** The last sample of the runs before. */
  let lastTime = Number.NEGATIVE_INFINITY
  let lastValue = 0
  for (let run = starts[series], step = 0; run < end; run++) {
    const { times, values, divisor } = stored[runs[run * RUN]]
    const from = runs[run * RUN + 1]
    const to = runs[run * RUN + 2]
    const isLast = run + 1 === end
    for (let next = from; step < count; step++) {
      const time = start + step * interval - offset
      while (next < to && times[next] <= time) next++
      // The newest may be in the next run.
      if (next === to && !isLast) break
      if ((next === from ? lastTime : times[next - 1]) <= time - lookback) continue
      out[base + step] = next === from ? lastValue : divisor === undefined ? values[next - 1] : values[next - 1] / divisor
      kinds[base + step] = FLOAT
      any = true
    }
    lastTime = times[to - 1]
    lastValue = divisor === undefined ? values[to - 1] : values[to - 1] / divisor
  }
  return any
}

/** Fills one series' row. @returns whether any step has a sample. */
function lookAt(
  block: SampleBlock,
  from: number,
  to: number,
  steps: Steps,
  reference: Reference,
  lookback: number,
  rows: RowSink,
  sampleTimes: TimesOfRows | undefined,
): boolean {
  const { times, values, kinds } = block
  const { at, offset } = reference
  const before = sampleTimes?.list.length ?? 0
  let next = from
  let any = false
  for (let step = 0; step < steps.count; step++) {
    const time = (at ?? steps.start + step * steps.interval) - offset
    while (next < to && times[next] <= time) next++
    const newest = next - 1
    let sampleTime = NaN
    if (newest >= from && times[newest] > time - lookback) {
      const kind = kinds === undefined ? 0 : kinds[newest]
      if (kind !== SAMPLE_STALE) {
        if (kind === SAMPLE_HISTOGRAM) {
          const histogram = block.histograms?.[newest]
          if (histogram !== undefined) rows.histogram(step, histogram)
        } else rows.float(step, values[newest])
        sampleTime = times[newest]
        any = true
      }
    }
    sampleTimes?.list.push(sampleTime)
  }
  if (!any && sampleTimes !== undefined) sampleTimes.list.length = before
  return any
}
