/** The filters of a statement over blocks of rows: what bounds settle is not read, and the rest leaves parts of the runs. Of alternatives each leaves its own parts, which are joined. */
import { IntList } from '../../memtable/int-list.ts'
import { copyRuns, joinRuns } from '../../memtable/runs.ts'
import { areSettled, isComputed, isWhole } from './computed-fields.ts'
import { areExact, boundsOf } from './exact-integers.ts'
import { refine, settled } from './filter.ts'
import type { LaneBlock, LaneValues } from './host.ts'
import type { Conditions, FilterPlan, ScanPlan } from './plan.ts'

interface Filtered {
  runs: IntList
  /** Doubles hold all integers that were compared. */
  exact: boolean
  /** The last filter, where it is to be counted what satisfies it. */
  last?: { filter: FilterPlan; values: LaneValues }
}

interface Filter {
  filter: FilterPlan
  field: number
  integer: boolean
}

export class RowFilters {
  private readonly filters: readonly Filter[]
  private readonly anyOf: readonly (readonly (readonly Filter[])[])[]
  private spare = new IntList(1024)
  private part = new IntList(1024)
  private found = new IntList(1024)

  /** @param fields those that are asked for. */
  constructor({ filters, anyOf }: Pick<Conditions, 'filters' | 'anyOf'>, plan: Pick<ScanPlan, 'measurement'>, fields: readonly string[]) {
    const known = (filter: FilterPlan): Filter => ({ filter, field: fields.indexOf(filter.field), integer: isInteger(plan, filter.field) })
    this.filters = filters.map(known)
    this.anyOf = anyOf.map((alternatives) => alternatives.map((each) => each.map(known)))
  }

  /** @param runs used again by the next call, as what comes out. @param counts whether the last filter is left to the caller. */
  apply(block: LaneBlock, runs: IntList, counts: boolean): Filtered {
    const open = unsettled(this.filters, block)
    if (open === 'unknown') return { runs, exact: false }
    if (open === 'none') runs.length = 0
    let left = runs
    if (open !== 'none')
      for (const [i, each] of open.entries()) {
        if (left.length === 0) break
        const values = valuesOf(each, block, left)
        if (values === undefined) return { runs: left, exact: false }
        if (counts && i === open.length - 1 && this.anyOf.length === 0) return { runs: left, exact: true, last: { filter: each.filter, values } }
        left = this.refined(left, values, each.filter)
      }
    for (const alternatives of this.anyOf) {
      if (left.length === 0) break
      const joined = this.joined(block, left, alternatives)
      if (joined === undefined) return { runs: left, exact: false }
      left = joined
    }
    return { runs: left, exact: true }
  }

  private refined(runs: IntList, values: LaneValues, filter: FilterPlan): IntList {
    const out = this.spare
    refine(runs, values, filter, out)
    this.spare = runs
    return out
  }

  /** The parts of runs that satisfy one of the alternatives. Undefined where doubles do not hold what is compared. */
  private joined(block: LaneBlock, runs: IntList, alternatives: readonly (readonly Filter[])[]): IntList | undefined {
    const open = alternatives.map((each) => unsettled(each, block))
    if (open.includes('unknown')) return undefined
    if (open.some((each) => each.length === 0)) return runs
    this.found.length = 0
    for (const filters of open) {
      if (typeof filters === 'string') continue
      copyRuns(runs, this.part)
      for (const each of filters) {
        const values = valuesOf(each, block, this.part)
        if (values === undefined) return undefined
        this.part = this.refined(this.part, values, each.filter)
      }
      joinRuns(runs, this.found, this.part, this.spare)
      const { found } = this
      this.found = this.spare
      this.spare = found
    }
    const { found } = this
    this.found = runs
    return found
  }
}

/** The filters that bounds do not settle; `none`: no row satisfies them. `unknown`: doubles do not hold all that is compared. */
function unsettled(filters: readonly Filter[], block: LaneBlock): Filter[] | 'none' | 'unknown' {
  const open: Filter[] = []
  let isNone = false
  for (const each of filters) {
    const bounds = block.bounds(each.field)
    if (each.integer && bounds !== undefined && !areExact(bounds)) return 'unknown'
    const known = bounds === undefined ? undefined : settled(bounds, each.filter)
    if (known === undefined) open.push(each)
    if (known === false) isNone = true
  }
  return isNone ? 'none' : open
}

/** Undefined where doubles do not hold them, and where some are none. */
function valuesOf({ filter, field, integer }: Filter, block: LaneBlock, runs: IntList): LaneValues | undefined {
  const values = block.values(field)
  if (isComputed(filter.field) && !areSettled(runs, values)) return undefined
  return integer && block.bounds(field) === undefined && !areExact(boundsOf(runs, values)) ? undefined : values
}

export function isInteger({ measurement }: Pick<ScanPlan, 'measurement'>, field: string): boolean {
  if (isComputed(field)) return isWhole(field)
  const type = measurement.columns.find(({ name }) => name === field)?.type
  return type === 'int64' || type === 'uint64'
}
