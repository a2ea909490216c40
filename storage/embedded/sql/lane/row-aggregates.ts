/** Aggregates that take the same rows of each block: all rows of a statement, or those that satisfy some conditions besides. */
import type { Turn } from 'svcdb/lib/event-loop'
import { IntList } from '../../memtable/int-list.ts'
import { copyRuns } from '../../memtable/runs.ts'
import { addEnds, addRuns, addTimes, type Cells, countRows } from './accumulate.ts'
import { areSettled, isComputed } from './computed-fields.ts'
import { addDeviations } from './deviations.ts'
import { boundsOf, IntegersRead } from './exact-integers.ts'
import { countRuns } from './filter.ts'
import type { Grouping } from './groups.ts'
import type { LaneBlock } from './host.ts'
import type { Conditions, GroupsPlan } from './plan.ts'
import { Quantiles } from './quantiles.ts'
import { isInteger, RowFilters } from './row-filters.ts'
import { cellRuns } from './runs.ts'
import type { BlockZones } from './zones.ts'

interface Context {
  plan: GroupsPlan
  fields: readonly string[]
  room: number
  zones: BlockZones
}

export class RowAggregates {
  /** How its series are grouped; undefined: its rows are among those of all aggregates. */
  readonly grouping: Pick<Grouping, 'groupOf' | 'buckets'> | undefined
  private readonly integers = new IntegersRead()
  private readonly context: Context
  private readonly cells: readonly Cells[]
  private readonly filters: RowFilters
  private readonly ofRows: readonly Float64Array[]
  private readonly ofTimes: readonly Cells[]
  private readonly ofField: readonly (readonly Cells[])[]
  private readonly quantiles: readonly (Quantiles | undefined)[]
  private readonly integerFields: readonly boolean[]
  /** All that is asked of the rows is how many there are. */
  private readonly counted: readonly Float64Array[] | undefined
  private readonly matched: Float64Array | undefined
  private exact = true
  private runs = new IntList(1024)

  /** @param conditions which rows it takes; their tags are those of the grouping. @param before what they have satisfied by then. */
  constructor(
    cells: readonly Cells[],
    conditions: Conditions,
    before: Conditions,
    grouping: Pick<Grouping, 'groupOf' | 'buckets'> | undefined,
    context: Context,
  ) {
    const { plan, fields, room } = context
    this.cells = cells
    this.grouping = grouping
    this.context = context
    this.filters = new RowFilters(conditions, plan, fields)
    this.matched = cells.some(({ zeros }) => zeros) ? new Float64Array(cells[0].values.length) : undefined
    const rows = cells.flatMap(({ field, ofTimes, values, counts = values }) => (field === undefined && !ofTimes ? [values, counts] : []))
    this.ofRows = [...new Set(this.matched === undefined ? rows : [...rows, this.matched])]
    this.ofTimes = cells.filter((each) => each.ofTimes)
    this.ofField = fields.map((field) => cells.filter((each) => each.field === field))
    this.quantiles = this.ofField.map((each) => {
      const asked = each.filter(({ fraction }) => fraction !== undefined)
      return asked.length === 0 ? undefined : new Quantiles(asked, room)
    })
    this.integerFields = fields.map((field) => isInteger(plan, field))
    const filtered = new Set([...before.filters, ...conditions.filters].map(({ field }) => field))
    // A value that satisfies a filter is one.
    const counts = this.ofField.flatMap((each, field) => each.filter(({ kind }) => kind === 'count' && filtered.has(fields[field])))
    const isCounted = this.ofTimes.length === 0 && this.ofField.reduce((sum, { length }) => sum + length, 0) === counts.length
    this.counted = isCounted ? [...this.ofRows, ...counts.map(({ values }) => values)] : undefined
  }

  /**
   * @param among the runs that its own are parts of, where it has no grouping.
   * @param needed whether the caller asks for its own.
   * @returns these, until the next block; undefined where no more rows are of use.
   */
  add(block: LaneBlock, among: IntList | undefined, needed: boolean): IntList | undefined {
    const counts = this.counted !== undefined && !needed
    if (this.grouping !== undefined) cellRuns(block, this.grouping, counts, this.runs)
    else copyRuns(among as IntList, this.runs)
    const { exact, runs, last } = this.filters.apply(block, this.runs, counts)
    this.runs = runs
    if (!exact) this.exact = false
    if (last !== undefined) countRuns(runs, last.values, this.context.zones, last.filter, this.counted as Float64Array[])
    else if (runs.length > 0) this.aggregate(block, runs)
    return this.exact ? runs : undefined
  }

  /** Doubles hold all integers so far, and their sums, and there was room for all values that are collected. */
  isExact(): boolean {
    return this.exact && this.cells.every((each) => this.integers.holds(each))
  }

  /** @param presence how many rows there are of each cell. */
  async finish(turn: Turn, presence: Float64Array): Promise<void> {
    for (const quantiles of this.quantiles) await quantiles?.finish(turn)
    const { matched } = this
    if (matched === undefined) return
    for (const { zeros, counts } of this.cells) {
      if (!zeros || counts === undefined) continue
      for (let cell = 0; cell < counts.length; cell++) counts[cell] += presence[cell] - matched[cell]
    }
  }

  /** Safe twice. */
  release(): void {
    for (const quantiles of this.quantiles) quantiles?.release()
  }

  private aggregate(block: LaneBlock, runs: IntList): void {
    for (const counts of this.counted ?? this.ofRows) countRows(runs, counts)
    if (this.counted !== undefined) return
    for (const each of this.ofTimes) addTimes(each, runs, block.times)
    for (const [field, cells] of this.ofField.entries()) {
      if (cells.length === 0) continue
      const values = block.values(field)
      if (isComputed(this.context.fields[field]) && !areSettled(runs, values)) this.exact = false
      let bounds = block.bounds(field)
      if (this.integerFields[field]) {
        bounds ??= boundsOf(runs, values)
        if (!this.integers.add(this.context.fields[field], bounds)) this.exact = false
      }
      if (this.quantiles[field]?.add(runs, values) === false) this.exact = false
      for (const each of cells)
        if (each.fraction !== undefined) continue
        else if (each.squares !== undefined) addDeviations(each, runs, values)
        else if (each.times === undefined) addRuns(each, runs, values, this.context.zones, bounds)
        else addEnds(each, runs, values, block.times)
    }
  }
}
