/** Values of a tag by cell: how many rows each has is added up in finer groups, and in the end those that have some are counted. */
import type { Cells } from './accumulate.ts'
import type { FinerGroups } from './groups.ts'

/** @param rows by the cell of the finer groups. @param buckets of each group. */
export function countDistinct({ values: out }: Cells, { parents }: FinerGroups, rows: Float64Array, buckets: number): void {
  for (let group = 0, cell = 0; group < parents.length; group++)
    for (let bucket = 0; bucket < buckets; bucket++, cell++) if (rows[cell] > 0) out[parents[group] * buckets + bucket]++
}
