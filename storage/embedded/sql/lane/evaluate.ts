/**
 * Evaluates a plan over blocks of rows: runs of rows of a cell are found once for all fields, filters leave parts of them, conditions of aggregates parts of these, and then each field is added up where it lies.
 * A field is not read where no row of a block is left, nor a filter's where its bounds settle it.
 */
import { Turn } from 'svcdb/lib/event-loop'
import { areFinite, type Cells, cellsOf } from './accumulate.ts'
import { areSooner, ComputingBlocks, fieldsNamed, stepsFor } from './computed-fields.ts'
import { comparedFields, joined } from './conditions.ts'
import { countDistinct } from './distinct.ts'
import { expressionValues } from './expressions.ts'
import { type Grouping, groupingOf } from './groups.ts'
import type { LaneBlock, LaneRows } from './host.ts'
import type { AggregatePlan, Conditions, GroupsPlan } from './plan.ts'
import { RowAggregates } from './row-aggregates.ts'
import { isInteger } from './row-filters.ts'
import { BlockZones } from './zones.ts'

export interface Evaluated {
  grouping: Grouping
  cells: readonly Cells[]
  /** Rows of each cell: cells without any are no groups. */
  presence: Float64Array
  /** Of each expression its value by cell; NaN = null. */
  expressions: readonly Float64Array[]
}

const ROWS: AggregatePlan = { kind: 'rows', field: undefined, type: undefined }
const NO_SPAN: readonly [number, number] = [0, 0]

/** Undefined where samples do not tell all that the statement asks for: it is DuckDB's then. @param room bytes of values that all statements of this thread may collect. */
export async function evaluate(plan: GroupsPlan, rows: LaneRows, room: number, signal: AbortSignal | undefined): Promise<Evaluated | undefined> {
  const grouping = await groupingOf(plan, rows, rows.span() ?? NO_SPAN, new Turn(signal))
  if (grouping === undefined) return undefined
  const cellCount = grouping.groups * grouping.buckets.count
  const presence: Cells = cellsOf(ROWS, cellCount)
  const cells = plan.aggregates.map((plan) => (plan.kind === 'rows' && plan.where === undefined ? presence : cellsOf(plan, cellCount)))
  const { stored, computed } = fieldsOf(plan)
  if (stored.length === 0) {
    const any = rows.anyField()
    if (any === undefined) return undefined
    stored.push(any)
  }
  if (rows.span() === undefined) return withExpressions(plan, grouping, cells, presence.values)
  if (stored.some((field) => rows.lacks(field)) || !areSooner(computed, rows, stored.length)) return undefined
  const fields = [...stored, ...computed.map(({ name }) => name)]
  const work = new Work(plan, fields, grouping, cells, presence, room)
  const computing = new ComputingBlocks(computed, stored, (field) => isInteger(plan, field))
  try {
    const how = { sparse: comparedFields(plan).length > 0 && stored.length === 1, passes: passesOf(plan) }
    const whole = await rows.scan(stored, how, (block) => work.add(computing.of(block)) && computing.isExact)
    if (!whole || !computing.isExact || !work.isExact() || !cells.every(areFinite)) return undefined
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

function fieldsOf(plan: GroupsPlan): ReturnType<typeof fieldsNamed> {
  const compared = [plan, ...plan.conditions].flatMap(comparedFields)
  return fieldsNamed([...compared, ...plan.aggregates.flatMap(({ field }) => field ?? [])], plan.computed)
}

/** How often each row is looked at, about: for the runs of each list of conditions, for each comparison, for each aggregate, and for each step of what is computed. */
function passesOf({ aggregates, conditions, computed, ...all }: GroupsPlan): number {
  return [all, ...conditions].reduce((sum, each) => sum + 1 + comparedFields(each).length, aggregates.length + stepsFor(computed))
}

/** The aggregates of all rows, and those of the rows that satisfy conditions. */
class Work {
  private readonly all: RowAggregates
  private readonly some: readonly RowAggregates[]
  private readonly presence: Cells
  /** Of values of tags: rows by finer groups, and what becomes of them. */
  private readonly distinct: readonly { rows: RowAggregates; count(): void }[]

  constructor(plan: GroupsPlan, fields: readonly string[], grouping: Grouping, cells: readonly Cells[], presence: Cells, room: number) {
    const { aggregates } = plan
    const every: Conditions = { ...plan, tagFilters: [] }
    const none: Conditions = { tagFilters: [], filters: [], anyOf: [] }
    const of = (where: number | undefined): Cells[] => cells.filter((each, i) => aggregates[i].where === where && each !== presence && each.kind !== 'distinct')
    const context = { plan, fields, room, zones: new BlockZones() }
    const { groupOf, buckets, conditioned } = grouping
    this.presence = presence
    this.some = plan.conditions.flatMap((each, where) => {
      const own = of(where)
      if (own.length === 0) return []
      const series = conditioned[where]
      // Runs of cells do not tell of which series they are.
      if (series !== undefined) return new RowAggregates(own, joined(every, each), every, { groupOf: series, buckets }, context)
      return new RowAggregates(own, each, every, undefined, context)
    })
    this.distinct = grouping.finer.flatMap((finer, i) => {
      const { where } = aggregates[i]
      if (finer === undefined) return []
      const rows = cellsOf(ROWS, finer.parents.length * buckets.count)
      const all = where === undefined ? every : joined(every, plan.conditions[where])
      return {
        rows: new RowAggregates([rows], all, none, { groupOf: finer.groupOf, buckets }, context),
        count: () => countDistinct(cells[i], finer, rows.values, buckets.count),
      }
    })
    this.all = new RowAggregates([presence, ...of(undefined)], every, none, { groupOf, buckets }, context)
  }

  /** @returns whether more rows are of use. */
  add(block: LaneBlock): boolean {
    const needed = this.some.some(({ grouping }) => grouping === undefined)
    const runs = this.all.add(block, undefined, needed)
    if (runs === undefined || !this.some.every((each) => each.add(block, runs, false) !== undefined)) return false
    return this.distinct.every(({ rows }) => rows.add(block, undefined, false) !== undefined)
  }

  /** Doubles hold all integers, and there was room for all values that are collected. */
  isExact(): boolean {
    return [this.all, ...this.some, ...this.distinct.map(({ rows }) => rows)].every((each) => each.isExact())
  }

  async finish(turn: Turn): Promise<void> {
    for (const each of [this.all, ...this.some]) await each.finish(turn, this.presence.values)
    for (const { count } of this.distinct) count()
  }

  release(): void {
    for (const each of [this.all, ...this.some]) each.release()
  }
}
