/**
 * Evaluates a plan over blocks of rows: runs of rows of a cell are found once for all fields, filters leave parts of them, and then each field is added up where it lies.
 * A field is not read where no row of a block is left, nor a filter's where its bounds settle it.
 */
import { Turn } from 'svcdb/lib/event-loop'
import { IntList } from '../../memtable/int-list.ts'
import { addEnds, addRuns, addTimes, areFinite, type Cells, cellsOf, countRows } from './accumulate.ts'
import { addDeviations } from './deviations.ts'
import { expressionValues } from './expressions.ts'
import { countRuns } from './filter.ts'
import { type Grouping, groupingOf } from './groups.ts'
import type { LaneBlock, LaneRows } from './host.ts'
import { boundsOf, IntegersRead } from './integers.ts'
import type { GroupsPlan } from './plan.ts'
import { Quantiles } from './quantiles.ts'
import { isInteger, RowFilters } from './row-filters.ts'
import { cellRuns } from './runs.ts'
import { BlockZones } from './zones.ts'

export interface Evaluated {
  grouping: Grouping
  cells: readonly Cells[]
  /** Rows of each cell: cells without any are no groups. */
  presence: Float64Array
  /** Of each expression its value by cell; NaN = null. */
  expressions: readonly Float64Array[]
}

const NO_SPAN: readonly [number, number] = [0, 0]

/** Undefined where samples do not tell all that the statement asks for: it is DuckDB's then. @param room bytes of values that all statements of this thread may collect. */
export async function evaluate(plan: GroupsPlan, rows: LaneRows, room: number, signal: AbortSignal | undefined): Promise<Evaluated | undefined> {
  const grouping = groupingOf(plan, rows, rows.span() ?? NO_SPAN)
  if (grouping === undefined) return undefined
  const cellCount = grouping.groups * grouping.buckets.count
  const presence: Cells = cellsOf({ kind: 'rows', field: undefined, type: undefined }, cellCount)
  const cells = plan.aggregates.map((aggregate) => (aggregate.kind === 'rows' ? presence : cellsOf(aggregate, cellCount)))
  const fields = fieldsOf(plan)
  if (fields.length === 0) {
    const any = rows.anyField()
    if (any === undefined) return undefined
    fields.push(any)
  }
  if (rows.span() === undefined) return withExpressions(plan, grouping, cells, presence.values)
  if (fields.some((field) => rows.lacks(field))) return undefined
  const work = new Work(plan, fields, grouping, cells, presence, room)
  try {
    const whole = await rows.scan(fields, plan.filters.length > 0 && fields.length === 1, (block) => work.add(block))
    if (!whole || !work.exact || !cells.every((each) => areFinite(each) && work.integers.holds(each))) return undefined
    await work.finish(new Turn(signal))
  } finally {
    work.release()
  }
  return withExpressions(plan, grouping, cells, presence.values)
}

function withExpressions({ expressions }: GroupsPlan, grouping: Grouping, cells: readonly Cells[], presence: Float64Array): Evaluated | undefined {
  const values = expressions.map((expression) => expressionValues(expression, cells, presence.length))
  return values.includes(undefined) ? undefined : { grouping, cells, presence, expressions: values as Float64Array[] }
}

function fieldsOf({ filters, aggregates }: GroupsPlan): string[] {
  return [...new Set([...filters, ...aggregates].flatMap(({ field }) => field ?? []))]
}

class Work {
  readonly integers = new IntegersRead()
  /** Doubles hold all integers so far, and there was room for all values that are collected. */
  exact = true
  private readonly filters: RowFilters
  private readonly fields: readonly string[]
  private readonly grouping: Grouping
  private readonly presence: Cells
  private readonly ofTimes: readonly Cells[]
  private readonly ofField: readonly (readonly Cells[])[]
  private readonly quantiles: readonly (Quantiles | undefined)[]
  /** All that is asked of the rows is how many there are. */
  private readonly counted: readonly Float64Array[] | undefined
  private readonly integerFields: readonly boolean[]
  private readonly zones = new BlockZones()
  private runs = new IntList(1024)

  constructor(plan: GroupsPlan, fields: readonly string[], grouping: Grouping, cells: readonly Cells[], presence: Cells, room: number) {
    const others = cells.filter((each) => each !== presence)
    this.filters = new RowFilters(plan, fields)
    this.fields = fields
    this.grouping = grouping
    this.presence = presence
    this.ofTimes = others.filter((each) => each.ofTimes)
    this.ofField = fields.map((field) => others.filter((each) => each.field === field))
    this.quantiles = this.ofField.map((each) => {
      const asked = each.filter(({ fraction }) => fraction !== undefined)
      return asked.length === 0 ? undefined : new Quantiles(asked, room)
    })
    const filtered = new Set(plan.filters.map(({ field }) => field))
    // A value that satisfies a filter is one.
    const counts = others.every(({ kind, field }) => kind === 'count' && field !== undefined && filtered.has(field))
    this.counted = counts ? [presence.values, ...others.map(({ values }) => values)] : undefined
    this.integerFields = fields.map((field) => isInteger(plan, field))
  }

  /** @returns whether more rows are of use. */
  add(block: LaneBlock): boolean {
    cellRuns(block, this.grouping, this.counted !== undefined, this.runs)
    const { exact, runs, last } = this.filters.apply(block, this.runs, this.counted !== undefined)
    this.runs = runs
    if (!exact) this.exact = false
    if (last !== undefined) countRuns(runs, last.values, this.zones, last.filter, this.counted as Float64Array[])
    else if (runs.length > 0) this.aggregate(block, runs)
    return this.exact
  }

  async finish(turn: Turn): Promise<void> {
    for (const quantiles of this.quantiles) await quantiles?.finish(turn)
  }

  release(): void {
    for (const quantiles of this.quantiles) quantiles?.release()
  }

  private aggregate(block: LaneBlock, runs: IntList): void {
    if (this.counted !== undefined) {
      for (const counts of this.counted) countRows(runs, counts)
      return
    }
    countRows(runs, this.presence.values)
    for (const each of this.ofTimes) addTimes(each, runs, block.times)
    for (const [field, cells] of this.ofField.entries()) {
      if (cells.length === 0) continue
      const values = block.values(field)
      let bounds = block.bounds(field)
      if (this.integerFields[field]) {
        bounds ??= boundsOf(runs, values)
        if (!this.integers.add(this.fields[field], bounds)) this.exact = false
      }
      if (this.quantiles[field]?.add(runs, values) === false) this.exact = false
      for (const each of cells)
        if (each.fraction !== undefined) continue
        else if (each.squares !== undefined) addDeviations(each, runs, values)
        else if (each.times === undefined) addRuns(each, runs, values, this.zones, bounds)
        else addEnds(each, runs, values, block.times)
    }
  }
}
