/** Moves the cuts of retention forward. Pure: what to cut follows from the clock, the configuration and the holds. */
import { INT64_MIN } from '../../common/time.ts'
import type { Cut, Cuts } from '../layout.ts'

export interface Kept {
  id: number
  /** First time it keeps by the rules; see measurementCutoff. */
  cutoff: bigint
  /** It has a retention of its own and never was under the general cut. */
  ownPeriod: boolean
  /** A pending drop keeps all that it has. */
  pending: boolean
}

const NONE: Cut = { cutoff: INT64_MIN, sequence: 0 }

/**
 * The next cuts, or undefined when nothing changes. A cut never goes back: what it has hidden may be gone.
 * @param general cutoff of measurements without a retention of their own.
 * @param sequence that of the memtable rows go to now: a cut hides what lies in older pieces.
 * @param stale measurements (-1: those of the general cut) with rows below their cut that came after it.
 */
export function nextCuts(cuts: Cuts, general: bigint, measurements: readonly Kept[], sequence: number, stale: ReadonlySet<number>): Cuts | undefined {
  let changed = false
  const moved = (now: Cut | null, cutoff: bigint, renewed: boolean): Cut | null => {
    if (now !== null && now.cutoff >= cutoff && !renewed) return now
    if (now === null && cutoff === INT64_MIN) return null
    changed = true
    return { cutoff: now !== null && now.cutoff > cutoff ? now.cutoff : cutoff, sequence }
  }
  const all = moved(cuts.all, general, stale.has(-1))
  const own = new Map<number, Cut>()
  for (const { id, cutoff, ownPeriod, pending } of measurements) {
    const now = cuts.own.get(id) ?? (ownPeriod ? null : cuts.all)
    const wanted = pending ? (now ?? NONE) : (moved(now, cutoff, stale.has(id)) ?? NONE)
    // The general cut does as well when it hides the same, in the same pieces.
    if (all !== null ? wanted.cutoff === all.cutoff && wanted.sequence <= all.sequence : wanted.cutoff === INT64_MIN) continue
    own.set(id, wanted)
    if (!same(cuts.own.get(id), wanted)) changed = true
  }
  for (const id of cuts.own.keys()) if (!own.has(id)) changed = true
  return changed ? { all, own } : undefined
}

function same(a: Cut | undefined, b: Cut): boolean {
  return a?.cutoff === b.cutoff && a.sequence === b.sequence
}
