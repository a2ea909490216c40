/** Evaluates a plan over samples: field by field where each field's rows stand alone, side by side where rows are filtered. */
import type { SampleRows } from 'svcdb/lib/columns'
import { add, addKept, addTimes, addZoned, areFinite, type Cells, cellsOf } from './accumulate.ts'
import { countOf, countZoned, keepOnly } from './filter.ts'
import { type Buckets, type Grouping, groupingOf } from './groups.ts'
import type { LaneBlock, LaneRows, SampleTraits } from './host.ts'
import { IntegersRead } from './integers.ts'
import type { GroupsPlan } from './plan.ts'
import { BlockZones, ZONE } from './zones.ts'

export interface Evaluated {
  grouping: Grouping
  cells: readonly Cells[]
  /** Rows of each cell: cells without any are no groups. */
  presence: Float64Array
}

/** Samples of a run for which zones are worth looking up. */
const MIN_ZONED = 2 * ZONE
const NO_SPAN: readonly [number, number] = [0, 0]

/** Undefined where samples do not tell all that the statement asks for: it is DuckDB's then. */
export async function evaluate(plan: GroupsPlan, rows: LaneRows): Promise<Evaluated | undefined> {
  const grouping = groupingOf(plan, rows, rows.span() ?? NO_SPAN)
  if (grouping === undefined) return undefined
  const cellCount = grouping.groups * grouping.buckets.count
  const presence: Cells = cellsOf({ kind: 'rows', field: undefined, type: undefined }, cellCount)
  const cells = plan.aggregates.map((aggregate) => (aggregate.kind === 'rows' ? presence : cellsOf(aggregate, cellCount)))
  const out = { grouping, cells, presence: presence.values }
  const fields = fieldsOf(plan)
  const first = fields[0] ?? rows.anyField()
  if (first === undefined) return undefined
  if (rows.span() === undefined) return out
  if ([first, ...fields].some((field) => rows.lacks(field))) return undefined
  // The times of blocks that are not kept would be decoded again for each field; DuckDB reads all columns of a row group at once, on several processors.
  if (fields.length > 1 && !rows.fits(fields.length)) return undefined
  const work: Work = { rows, grouping, cells, presence, integers: new IntegersRead() }
  const whole =
    plan.filters.length === 0 ? await plain(first, fields, work) : fields.length === 1 ? await alone(plan, first, work) : await filtered(plan, fields, work)
  return whole && cells.every((each) => areFinite(each) && work.integers.holds(each)) ? out : undefined
}

interface Work {
  rows: LaneRows
  grouping: Grouping
  cells: readonly Cells[]
  presence: Cells
  integers: IntegersRead
}

function fieldsOf({ filters, aggregates }: GroupsPlan): string[] {
  return [...new Set([...filters, ...aggregates].flatMap(({ field }) => field ?? []))]
}

/** Field by field. @returns false where samples do not tell all. */
async function plain(first: string, fields: readonly string[], { rows, grouping, cells, presence, integers }: Work): Promise<boolean> {
  for (const field of fields.length === 0 ? [first] : fields) {
    const own = cells.filter((each) => each.field === field)
    const ofTimes = field === first ? cells.filter((each) => each.ofTimes) : []
    if (field === first) own.push(presence)
    const blockZones = new BlockZones()
    const accept = (traits: SampleTraits): boolean =>
      !traits.sparse && !traits.fine && ((own.length === 1 && own[0] === presence) || integers.add(field, traits))
    const read = await rows.visit(field, accept, (series, times, values, from, to) => {
      const zones = to - from < MIN_ZONED ? undefined : blockZones.of(values)
      eachCell(grouping, series, times, from, to, (cell, start, end) => {
        for (let i = 0; i < own.length; i++) {
          if (zones === undefined) add(own[i], cell, values, start, end)
          else addZoned(own[i], cell, values, zones, start, end)
        }
        for (let i = 0; i < ofTimes.length; i++) addTimes(ofTimes[i], cell, times, start, end)
      })
    })
    if (!read) return false
  }
  return true
}

/** Rows that one field filters, with aggregates of that field alone: a row without a value fails the filter. */
async function alone({ filters }: GroupsPlan, field: string, { rows, grouping, cells, presence, integers }: Work): Promise<boolean> {
  const values = cells.filter((each) => each !== presence)
  const counts = [presence, ...values.filter(({ kind }) => kind === 'count')]
  const others = values.filter(({ kind }) => kind !== 'count')
  const blockZones = new BlockZones()
  let kept = new Uint8Array(0)
  return await rows.visit(
    field,
    (traits) => !traits.fine && integers.add(field, traits),
    (series, times, numbers, from, to) => {
      const zones = to - from < MIN_ZONED ? undefined : blockZones.of(numbers)
      eachCell(grouping, series, times, from, to, (cell, start, end) => {
        if (others.length === 0 && filters.length === 1) {
          const count = zones === undefined ? countOf(numbers, start, end, filters[0]) : countZoned(numbers, zones, start, end, filters[0])
          for (let i = 0; i < counts.length; i++) counts[i].values[cell] += count
          return
        }
        if (kept.length < end - start) kept = new Uint8Array((end - start) * 2)
        kept.fill(1, 0, end - start)
        for (let i = 0; i < filters.length; i++) keepOnly(kept, numbers, start, end, filters[i])
        for (let i = 0; i < counts.length; i++) addKept(counts[i], cell, numbers, kept, start, end, start)
        for (let i = 0; i < others.length; i++) addKept(others[i], cell, others[i].ofTimes ? times : numbers, kept, start, end, start)
      })
    },
  )
}

async function filtered({ filters }: GroupsPlan, fields: readonly string[], { rows, grouping, cells, presence, integers }: Work): Promise<boolean> {
  const readers = fields.map((field) => rows.samples(field))
  const values = cells.filter((each) => each !== presence)
  const of = values.map(({ field }) => fields.indexOf(field as string))
  try {
    for (;;) {
      const blocks: LaneBlock[] = []
      for (const reader of readers) {
        const { value, done } = await reader.next()
        if (done !== true) blocks.push(value)
      }
      if (blocks.length === 0) return true
      if (blocks.length < fields.length || blocks.some((block, i) => block.fine || block.sparse || !integers.add(fields[i], block))) return false
      const [{ samples }] = blocks
      if (blocks.some((block) => !sameRows(block.samples, samples))) return false
      const kept = new Uint8Array(samples.times.length).fill(1)
      for (const filter of filters) keepOnly(kept, blocks[fields.indexOf(filter.field)].samples.values, 0, kept.length, filter)
      eachRun(samples, grouping, (cell, from, to) => {
        addKept(presence, cell, samples.values, kept, from, to, 0)
        for (let i = 0; i < values.length; i++) addKept(values[i], cell, values[i].ofTimes ? samples.times : blocks[of[i]].samples.values, kept, from, to, 0)
      })
    }
  } finally {
    for (const reader of readers) await reader.return(undefined)
  }
}

function sameRows(a: SampleRows, b: SampleRows): boolean {
  return a === b || (a.first === b.first && a.starts.length === b.starts.length && a.starts.every((start, i) => start === b.starts[i]))
}

/** Calls back with the runs of samples that fall into one cell. */
function eachRun({ first, starts, times }: SampleRows, grouping: Grouping, visit: VisitCell): void {
  for (let i = 0; i + 1 < starts.length; i++) if (starts[i] < starts[i + 1]) eachCell(grouping, first + i, times, starts[i], starts[i + 1], visit)
}

type VisitCell = (cell: number, from: number, to: number) => void

function eachCell({ groupOf, buckets }: Grouping, series: number, times: Float64Array, from: number, end: number, visit: VisitCell): void {
  const group = groupOf[series]
  if (group < 0) return
  if (buckets.count === 1) {
    visit(group, from, end)
    return
  }
  while (from < end) {
    const bucket = Math.floor((times[from] - buckets.first) / buckets.step)
    const to = bucketEnd(times, from, end, buckets, bucket)
    visit(group * buckets.count + bucket, from, to)
    from = to
  }
}

/** Where the samples of a bucket end: mostly a few steps on, or far. */
function bucketEnd(times: Float64Array, from: number, end: number, { first, step }: Buckets, bucket: number): number {
  const limit = first + (bucket + 1) * step
  let low = from + 1
  let jump = 1
  while (low + jump < end && times[low + jump - 1] < limit) {
    low += jump
    jump *= 2
  }
  let high = Math.min(end, low + jump)
  while (low < high) {
    const middle = (low + high) >>> 1
    if (times[middle] < limit) low = middle + 1
    else high = middle
  }
  return low
}
