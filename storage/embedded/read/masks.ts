/**
 * What deletes and retention mask of a source (a segment, a memtable): tombstones and retention cutoffs of a higher sequence that the source's file
 * does not have applied yet. They are taken away source by source, before sources are merged: an older row that is masked must not lend its fields to
 * a newer one, nor take on its sequence.
 */
import { earlier, later } from '../../common/time.ts'
import { ANY_OTHER, cutoffFor, namedMeasurements } from '../retention/cutoffs.ts'
import type { MeasurementDef, RetentionCutoffs, Tombstone } from '../threads/layout.ts'

/** Rows of these series (all when undefined) with `lo` <= time <= `hi`; of some measurements when the source holds rows of others too. */
export interface Hidden {
  measurements: Owners | undefined
  series: Int32Array | undefined
  lo: bigint
  hi: bigint
}

/** These measurements, or with `but` all others. */
export interface Owners {
  ids: readonly number[]
  but?: true
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
  cutoffs: RetentionCutoffs
  /** Those there are, but for pending drops. */
  measurements?: ReadonlyMap<number, Pick<MeasurementDef, 'tables'>>
}

/** What is masked of a measurement's rows in a source; `series` are those wanted. */
export function hiddenOf({ tombstones, cutoffs }: Lifetimes, measurement: number, piece: Extent, series: Int32Array | undefined): readonly Hidden[] {
  const out: Hidden[] = []
  const cutoff = cutoffFor(cutoffs, measurement, piece)
  if (cutoff > piece.minTime) out.push({ measurements: undefined, series: undefined, lo: FIRST_TIME, hi: cutoff - 1n })
  for (const tombstone of tombstones.get(measurement) ?? []) {
    if (!applies(tombstone, piece)) continue
    const hit = tombstone.series === null ? undefined : series === undefined ? tombstone.series : common(tombstone.series, series)
    if (hit === undefined || hit.length > 0) out.push({ measurements: undefined, series: hit, lo: tombstone.start, hi: tombstone.end })
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
    const key = `${lo} ${hi} ${one.measurements?.but ?? ''} ${one.measurements?.ids ?? ''}`
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

/** What a merge takes out of a table's file for good: tombstones up to `cleared`, and all that retention masks, measurement by measurement. */
export function hiddenInTable(
  { tombstones, cutoffs, measurements }: Lifetimes,
  measurement: number | undefined,
  piece: Extent & { table: number; minSeries: number; maxSeries: number },
  cleared: number,
): readonly Hidden[] {
  const out: Hidden[] = []
  if (measurement === undefined) out.push(...expiredInShared(cutoffs, piece, (id) => measurements?.get(id)?.tables.includes(piece.table) !== false))
  else {
    const cutoff = cutoffFor(cutoffs, measurement, piece)
    if (cutoff > piece.minTime) out.push({ measurements: undefined, series: undefined, lo: FIRST_TIME, hi: cutoff - 1n })
  }
  const lists = measurement === undefined ? tombstones.values() : [tombstones.get(measurement) ?? []]
  for (const list of lists) {
    for (const tombstone of list) {
      if (tombstone.id > cleared || !applies(tombstone, piece)) continue
      const { series } = tombstone
      if (series !== null && (series[series.length - 1] < piece.minSeries || series[0] > piece.maxSeries)) continue
      // Series say by themselves which measurement they are of.
      const whole = measurement === undefined && series === null
      out.push({ measurements: whole ? { ids: [tombstone.measurement] } : undefined, series: series ?? undefined, lo: tombstone.start, hi: tombstone.end })
    }
  }
  // Rows of series that were released before they were flushed.
  if (measurement === undefined) out.push({ measurements: { ids: [RELEASED] }, series: undefined, lo: FIRST_TIME, hi: LAST_TIME })
  return joined(out, piece)
}

/**
 * What retention masks of a shared table's source: most measurements at one time, those that have one of their own together with their like.
 * @param has whether a measurement may have rows in the table.
 */
function expiredInShared(cutoffs: RetentionCutoffs, piece: Extent, has: (measurement: number) => boolean): Hidden[] {
  const out: Hidden[] = []
  const all = cutoffFor(cutoffs, ANY_OTHER, piece)
  const apart = new Map<bigint, number[]>()
  for (const id of namedMeasurements(cutoffs)) {
    const own = cutoffFor(cutoffs, id, piece)
    if (own === all || !has(id)) continue
    const group = apart.get(own)
    if (group === undefined) apart.set(own, [id])
    else group.push(id)
  }
  const before = (cutoff: bigint, measurements: Owners | undefined): void => {
    if (cutoff > piece.minTime) out.push({ measurements, series: undefined, lo: FIRST_TIME, hi: cutoff - 1n })
  }
  const longer = [...apart].flatMap(([cutoff, ids]) => (cutoff < all ? ids : []))
  before(all, longer.length === 0 ? undefined : { ids: longer, but: true })
  for (const [cutoff, ids] of apart) before(cutoff, { ids })
  return out
}

/** Whether nothing of the piece is left. */
export function hidesAll(hidden: readonly Hidden[], piece: Extent): boolean {
  return hidden.some(({ measurements, series, lo, hi }) => measurements === undefined && series === undefined && lo <= piece.minTime && hi >= piece.maxTime)
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
