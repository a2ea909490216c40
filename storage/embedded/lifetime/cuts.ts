/** Which cut holds for a measurement or a table; used by both sides of the engine. */
import { earlier } from '../../common/time.ts'
import type { Cut, Cuts } from '../layout.ts'

export function cutOf(cuts: Cuts, measurement: number): Cut | null {
  return cuts.own.get(measurement) ?? cuts.all
}

/** What all measurements of a shared table have in common. */
export function sharedCut(cuts: Cuts): Cut | null {
  let least = cuts.all
  if (least === null) return null
  for (const own of cuts.own.values()) least = { cutoff: earlier(own.cutoff, least.cutoff), sequence: Math.min(own.sequence, least.sequence) }
  return least
}

/** The cut of a whole table. @param measurement undefined = shared. */
export function tableCut(cuts: Cuts, measurement: number | undefined): Cut | null {
  return measurement === undefined ? sharedCut(cuts) : cutOf(cuts, measurement)
}
