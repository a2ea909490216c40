/**
 * What retention has taken so far, under whatever configuration, as a pure value: cutoffs (cutoffs.ts) go once nothing is left to mask, and do not say it then.
 *
 * Invariant: a time only rises. So a move that is replayed, and is in the catalog already, changes nothing.
 */
import { INT64_MIN, later } from '../../common/time.ts'
import type { RetentionMove } from './cutoffs.ts'

/** Times before which points may be gone; INT64_MIN = none are. */
export interface TakenTimes {
  /** Of measurements in general: also of one that had no points then, or came later. */
  general: bigint
  /** Of those with a time of their own. */
  own: ReadonlyMap<number, bigint>
}

export const NOTHING_TAKEN: TakenTimes = { general: INT64_MIN, own: new Map() }

export const takenOf = ({ general, own }: TakenTimes, measurement: number): bigint => own.get(measurement) ?? general

/** @param known whether there is a measurement of a number, which none gets again. */
export function withTaken(now: TakenTimes, { general: cutoff, except, own: moved }: RetentionMove, known: (measurement: number) => boolean): TakenTimes {
  const own = new Map([...now.own].filter(([measurement]) => known(measurement)))
  let { general } = now
  if (cutoff !== null) {
    const apart = new Set(except)
    for (const measurement of except) own.set(measurement, takenOf(now, measurement))
    for (const [measurement, time] of own) {
      if (apart.has(measurement)) continue
      if (time <= cutoff && general <= cutoff) own.delete(measurement)
      else own.set(measurement, later(time, cutoff))
    }
    general = later(general, cutoff)
  }
  for (const [measurement, time] of moved) own.set(measurement, later(own.get(measurement) ?? general, time))
  return { general, own }
}
