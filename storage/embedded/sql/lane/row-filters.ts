/** The filters of a statement over blocks of rows: what bounds settle is not read, and the rest leaves parts of the runs. */
import { IntList } from '../../memtable/int-list.ts'
import { refine, settled } from './filter.ts'
import type { LaneBlock, LaneValues } from './host.ts'
import { areExact, boundsOf } from './integers.ts'
import type { FilterPlan, ScanPlan } from './plan.ts'

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
  private spare = new IntList(1024)

  /** @param fields those that are asked for. */
  constructor(filters: readonly FilterPlan[], plan: Pick<ScanPlan, 'measurement'>, fields: readonly string[]) {
    this.filters = filters.map((filter) => ({ filter, field: fields.indexOf(filter.field), integer: isInteger(plan, filter.field) }))
  }

  /** @param runs used again by the next call, as what comes out. @param counts whether the last filter is left to the caller. */
  apply(block: LaneBlock, runs: IntList, counts: boolean): Filtered {
    const open: Filter[] = []
    for (const each of this.filters) {
      const bounds = block.bounds(each.field)
      if (each.integer && bounds !== undefined && !areExact(bounds)) return { runs, exact: false }
      const known = bounds === undefined ? undefined : settled(bounds, each.filter)
      if (known === undefined) open.push(each)
      if (known === false) runs.length = 0
    }
    let left = runs
    for (const [i, { filter, field, integer }] of open.entries()) {
      if (left.length === 0) break
      const values = block.values(field)
      if (integer && block.bounds(field) === undefined && !areExact(boundsOf(left, values))) return { runs: left, exact: false }
      if (counts && i === open.length - 1) return { runs: left, exact: true, last: { filter, values } }
      const out = this.spare
      refine(left, values, filter, out)
      this.spare = left
      left = out
    }
    return { runs: left, exact: true }
  }
}

export function isInteger({ measurement }: Pick<ScanPlan, 'measurement'>, field: string): boolean {
  const type = measurement.columns.find(({ name }) => name === field)?.type
  return type === 'int64' || type === 'uint64'
}
