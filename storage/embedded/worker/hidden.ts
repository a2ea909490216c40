/**
 * What deletes and retention hide of a piece: tombstones and cuts of a higher sequence that the piece's file does not have applied yet. They are
 * taken away piece by piece, before pieces are merged: an older row that is hidden must not lend its fields to a newer one.
 */
import { earlier, later } from '../../common/time.ts'
import type { Cuts, Tombstone } from '../layout.ts'
import { cutOf, tableCut } from '../lifetime/cuts.ts'

/** Rows of these series (all when undefined) with `lo` <= time <= `hi`; of one measurement when the piece holds rows of several. */
export interface Hidden {
  measurement: number | undefined
  series: Int32Array | undefined
  lo: bigint
  hi: bigint
}

/** As much of a piece as decides what is hidden of it. */
export interface Extent {
  sequence: number
  cleared: number
  minTime: bigint
  maxTime: bigint
}

const FIRST_TIME = -(2n ** 63n)
const LAST_TIME = 2n ** 63n - 1n
/** What the series index has for a released series. */
const RELEASED = -1

export interface Lifetimes {
  tombstones: ReadonlyMap<number, readonly Tombstone[]>
  cuts: Cuts
}

/** What is hidden of a measurement's rows in a piece; `series` are those wanted. */
export function hiddenOf({ tombstones, cuts }: Lifetimes, measurement: number, piece: Extent, series: Int32Array | undefined): readonly Hidden[] {
  const out: Hidden[] = []
  const cut = cutOf(cuts, measurement)
  if (cut !== null && cut.sequence > piece.sequence && cut.cutoff > piece.minTime)
    out.push({ measurement: undefined, series: undefined, lo: FIRST_TIME, hi: cut.cutoff - 1n })
  for (const tombstone of tombstones.get(measurement) ?? []) {
    if (!applies(tombstone, piece)) continue
    const hit = tombstone.series === null ? undefined : series === undefined ? tombstone.series : common(tombstone.series, series)
    if (hit === undefined || hit.length > 0) out.push({ measurement: undefined, series: hit, lo: tombstone.start, hi: tombstone.end })
  }
  return joined(out, piece)
}

/** One condition for all tombstones that hide the same part of the piece's time: whole series, mostly, deleted one by one. */
function joined(hidden: readonly Hidden[], piece: Extent): readonly Hidden[] {
  if (hidden.length < 2) return hidden
  const groups = new Map<string, Hidden[]>()
  for (const one of hidden) {
    const lo = later(one.lo, piece.minTime)
    const hi = earlier(one.hi, piece.maxTime)
    const key = `${lo} ${hi} ${one.measurement}`
    const group = groups.get(key)
    if (group === undefined) groups.set(key, [{ ...one, lo, hi }])
    else group.push(one)
  }
  return [...groups.values()].map((group) => {
    if (group.length === 1 || group[0].series === undefined) return group[0]
    const lists = group.map(({ series }) => series)
    return { ...group[0], series: lists.includes(undefined) ? undefined : unionOf(lists as Int32Array[]) }
  })
}

/** All numbers of the lists, ascending, each once. */
function unionOf(lists: readonly Int32Array[]): Int32Array {
  const all = new Int32Array(lists.reduce((sum, list) => sum + list.length, 0))
  let n = 0
  for (const list of lists) {
    all.set(list, n)
    n += list.length
  }
  all.sort()
  let kept = 0
  for (let i = 0; i < all.length; i++) if (i === 0 || all[i] !== all[i - 1]) all[kept++] = all[i]
  return all.subarray(0, kept)
}

/** What a merge takes out of a table's file for good: tombstones up to `cleared`, and what no measurement of the table keeps any more. */
export function hiddenInTable(
  { tombstones, cuts }: Lifetimes,
  measurement: number | undefined,
  piece: Extent & { minSeries: number; maxSeries: number },
  cleared: number,
): readonly Hidden[] {
  const out: Hidden[] = []
  const cut = tableCut(cuts, measurement)
  if (cut !== null && cut.sequence > piece.sequence && cut.cutoff > piece.minTime)
    out.push({ measurement: undefined, series: undefined, lo: FIRST_TIME, hi: cut.cutoff - 1n })
  const lists = measurement === undefined ? tombstones.values() : [tombstones.get(measurement) ?? []]
  for (const list of lists) {
    for (const tombstone of list) {
      if (tombstone.id > cleared || !applies(tombstone, piece)) continue
      const { series } = tombstone
      if (series !== null && (series[series.length - 1] < piece.minSeries || series[0] > piece.maxSeries)) continue
      // Series say by themselves which measurement they are of.
      const whole = measurement === undefined && series === null
      out.push({ measurement: whole ? tombstone.measurement : undefined, series: series ?? undefined, lo: tombstone.start, hi: tombstone.end })
    }
  }
  // Rows of series that were released before they were flushed.
  if (measurement === undefined) out.push({ measurement: RELEASED, series: undefined, lo: FIRST_TIME, hi: LAST_TIME })
  return joined(out, piece)
}

/** Whether nothing of the piece is left. */
export function hidesAll(hidden: readonly Hidden[], piece: Extent): boolean {
  return hidden.some(({ measurement, series, lo, hi }) => measurement === undefined && series === undefined && lo <= piece.minTime && hi >= piece.maxTime)
}

function applies(tombstone: Tombstone, piece: Extent): boolean {
  return tombstone.sequence > piece.sequence && tombstone.id > piece.cleared && tombstone.start <= piece.maxTime && tombstone.end >= piece.minTime
}

/** Numbers in both ascending lists. */
export function common(a: Int32Array, b: Int32Array): Int32Array {
  const [short, long] = a.length <= b.length ? [a, b] : [b, a]
  const out = new Int32Array(short.length)
  let n = 0
  for (const value of short) if (contains(long, value)) out[n++] = value
  return out.subarray(0, n)
}

export function contains(sorted: Int32Array, value: number): boolean {
  let low = 0
  let high = sorted.length - 1
  while (low <= high) {
    const middle = (low + high) >> 1
    if (sorted[middle] === value) return true
    if (sorted[middle] < value) low = middle + 1
    else high = middle - 1
  }
  return false
}
