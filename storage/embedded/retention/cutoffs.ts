/**
 * Retention cutoffs (../threads/removals.ts) as a pure value: what they mask of a source, how one more joins them, when one goes. Used on both sides of the engine.
 *
 * Invariants
 * - What a cutoff masks stays masked until the cutoff is forgotten, and that is when no source can hold a row that it masks.
 * - A cutoff is never raised to newer sources: what was acknowledged after it, under whatever configuration, it does not touch.
 */
import { INT64_MIN, later } from '../../common/time.ts'
import type { Cutoff, GeneralCutoff, RetentionCutoffs } from '../threads/removals.ts'

export const NO_CUTOFFS: RetentionCutoffs = { general: [], own: new Map() }
/** A measurement that no cutoff names. */
export const ANY_OTHER = -1

/** As much of a segment or a memtable as decides whether a cutoff applies to it. */
export interface Source {
  sequence: number
  /** As in SegmentMeta. */
  cleared: number
}

/** Retention moves on: rows written so far are masked before `general` for all measurements but `except`, and before its own time for each of `own`. */
export interface RetentionMove {
  id: number
  /** null = nothing moves for measurements in general. */
  general: bigint | null
  except: readonly number[]
  own: readonly (readonly [measurement: number, cutoff: bigint])[]
}

/** First time of a measurement that is not masked in a source; INT64_MIN when nothing is. */
export function cutoffFor({ general, own }: RetentionCutoffs, measurement: number, { sequence, cleared }: Source): bigint {
  let first = INT64_MIN
  for (const one of general) if (one.sequence > sequence && one.id > cleared && !one.except.has(measurement)) first = later(first, one.cutoff)
  for (const one of own.get(measurement) ?? []) if (one.sequence > sequence && one.id > cleared) first = later(first, one.cutoff)
  return first
}

/** Measurements that the cutoffs treat differently from the rest. */
export function namedMeasurements({ general, own }: RetentionCutoffs): Set<number> {
  const named = new Set(own.keys())
  for (const { except } of general) for (const measurement of except) named.add(measurement)
  return named
}

/** First time of a shared table's source that is not masked for every measurement. @param has whether a measurement has rows in the table. */
export function sharedCutoffFor(cutoffs: RetentionCutoffs, source: Source, has: (measurement: number) => boolean): bigint {
  let first = cutoffFor(cutoffs, ANY_OTHER, source)
  if (first === INT64_MIN) return first
  for (const { except } of cutoffs.general) {
    for (const measurement of except) {
      if (first === INT64_MIN) return first
      if (!has(measurement)) continue
      const kept = cutoffFor(cutoffs, measurement, source)
      if (kept < first) first = kept
    }
  }
  return first
}

/** Sources below this sequence hold no row of the measurement before `cutoff` that is not masked; 0 = none is known to. */
export function settledBelow({ general, own }: RetentionCutoffs, measurement: number, cutoff: bigint): number {
  let sequence = 0
  for (const one of general) if (one.cutoff >= cutoff && !one.except.has(measurement)) sequence = Math.max(sequence, one.sequence)
  for (const one of own.get(measurement) ?? []) if (one.cutoff >= cutoff) sequence = Math.max(sequence, one.sequence)
  return sequence
}

/** The newest of those that concern a measurement. */
export function newestOf({ general, own }: RetentionCutoffs, measurement: number): Cutoff | undefined {
  const all = [...general.filter(({ except }) => !except.has(measurement)), ...(own.get(measurement) ?? [])]
  return all.reduce<Cutoff | undefined>((newest, one) => (newest === undefined || one.id > newest.id ? one : newest), undefined)
}

/**
 * The cutoffs with one move more. Those that it covers go; those of an earlier configuration that kept less stay beside it.
 * @param sequence above that of every source with rows that the move masks.
 */
export function withMove(now: RetentionCutoffs, { id, general: cutoff, except, own: moved }: RetentionMove, sequence: number): RetentionCutoffs {
  const own = new Map(now.own)
  const add = (measurement: number, one: Cutoff): void =>
    void own.set(measurement, [
      ...(own.get(measurement) ?? []).filter((other) => !covers(one, other)),
      { id: one.id, cutoff: one.cutoff, sequence: one.sequence },
    ])
  let general = now.general
  if (cutoff !== null) {
    const added: GeneralCutoff = { id, cutoff, sequence, except: new Set(except) }
    const kept: GeneralCutoff[] = []
    for (const one of now.general) {
      if (!covers(added, one)) kept.push(one)
      // What the new one leaves out the old one goes on masking.
      else for (const measurement of except) if (!one.except.has(measurement)) add(measurement, one)
    }
    general = [...kept, added]
    for (const [measurement, list] of own)
      if (!added.except.has(measurement))
        set(
          own,
          measurement,
          list.filter((one) => !covers(added, one)),
        )
  }
  for (const [measurement, time] of moved) add(measurement, { id, cutoff: time, sequence })
  return { general, own }
}

/**
 * The cutoffs without those that mask nothing any more; the same object when all stay.
 * @param needed whether a source may hold rows that it masks, of a measurement or, when undefined, of any.
 */
export function withoutSpent(now: RetentionCutoffs, needed: (one: Cutoff, measurement: number | undefined) => boolean): RetentionCutoffs {
  const general = now.general.filter((one) => needed(one, undefined))
  const own = new Map<number, readonly Cutoff[]>()
  let changed = general.length < now.general.length
  for (const [measurement, list] of now.own) {
    const kept = list.filter((one) => needed(one, measurement))
    if (kept.length < list.length) changed = true
    set(own, measurement, kept)
  }
  return changed ? { general, own } : now
}

export function newestId({ general, own }: RetentionCutoffs): number {
  return [...general, ...[...own.values()].flat()].reduce((newest, { id }) => Math.max(newest, id), 0)
}

/** Whether the first masks all that the second does. */
function covers(one: Cutoff, other: Cutoff): boolean {
  return one.cutoff >= other.cutoff && one.sequence >= other.sequence
}

function set(own: Map<number, readonly Cutoff[]>, measurement: number, list: readonly Cutoff[]): void {
  if (list.length > 0) own.set(measurement, list)
  else own.delete(measurement)
}
