/** Where retention moves on. Pure: it follows from the clock, the configuration, the holds, and what rows there are. */
import { INT64_MIN } from '../../common/time.ts'
import type { RetentionCutoffs } from '../threads/removals.ts'
import { ANY_OTHER, namedMeasurements, type RetentionMove, settledBelow } from './cutoffs.ts'

export interface Kept {
  id: number
  /** Tables that may hold rows of it. */
  tables: readonly number[]
  /** First time it keeps by the configuration in force and the holds; INT64_MIN = everything, as while a drop is pending. */
  cutoff: bigint
}

/** The first time of the rows of a table in segments and memtables from a sequence on; INT64_MAX when there are none. */
type FirstTime = (table: number, sequence: number) => bigint

/**
 * The next move, or undefined when every row that the configuration in force does not keep is masked already.
 * @param general cutoff of measurements without a retention of their own.
 */
export function nextMove(cutoffs: RetentionCutoffs, general: bigint, kept: readonly Kept[], firstTime: FirstTime): Omit<RetentionMove, 'id'> | undefined {
  const named = namedMeasurements(cutoffs)
  const apart = (one: Kept): boolean => one.cutoff !== general || named.has(one.id)
  const moves = general > INT64_MIN && generalIsDue(cutoffs, general, kept, apart, firstTime)
  const own: [number, bigint][] = []
  for (const one of kept) {
    const { id, cutoff, tables } = one
    if (cutoff === INT64_MIN || !apart(one) || (moves && cutoff === general)) continue
    const since = settledBelow(cutoffs, id, cutoff)
    if (tables.some((table) => firstTime(table, since) < cutoff)) own.push([id, cutoff])
  }
  if (!moves) return own.length === 0 ? undefined : { general: null, except: [], own }
  return { general, except: kept.flatMap(({ id, cutoff }) => (cutoff < general ? [id] : [])), own }
}

function generalIsDue(cutoffs: RetentionCutoffs, general: bigint, kept: readonly Kept[], apart: (one: Kept) => boolean, firstTime: FirstTime): boolean {
  const since = settledBelow(cutoffs, ANY_OTHER, general)
  const seen = new Set<number>()
  for (const one of kept) {
    if (apart(one)) continue
    for (const table of one.tables) {
      // Most measurements may share one.
      if (seen.has(table)) continue
      seen.add(table)
      if (firstTime(table, since) < general) return true
    }
  }
  return false
}
