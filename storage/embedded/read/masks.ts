/**
 * What deletes and retention mask of a source (a segment, a memtable): tombstones and retention cutoffs of a higher sequence that the source's file
 * does not have applied yet. They are taken away source by source, before sources are merged: an older row that is masked must not lend its fields to
 * a newer one, nor take on its sequence.
 */
import { earlier, later } from '../../common/time.ts'
import { ANY_OTHER, cutoffFor, namedMeasurements } from '../retention/cutoffs.ts'
import type { MeasurementDef } from '../threads/definitions.ts'
import type { RetentionCutoffs, Tombstone } from '../threads/removals.ts'

/** Rows of these series (all when undefined) with `lo` <= time <= `hi`; of some measurements when the source holds rows of others too. */
export interface Mask {
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

/** As much of a source as decides what is masked of it. */
export interface Maskable {
  sequence: number
  cleared: number
  minTime: bigint
  maxTime: bigint
}

const FIRST_TIME = -(2n ** 63n)
const LAST_TIME = 2n ** 63n - 1n
/** What the series index has for a released series. */
const RELEASED = -1

export interface Removals {
  tombstones: ReadonlyMap<number, readonly Tombstone[]>
  cutoffs: RetentionCutoffs
  /** Those there are, but for pending drops. */
  measurements?: ReadonlyMap<number, Pick<MeasurementDef, 'tables'>>
}

/** What is masked of a measurement's rows in a source; `series` are those wanted. */
export function masksOf({ tombstones, cutoffs }: Removals, measurement: number, source: Maskable, series: Int32Array | undefined): readonly Mask[] {
  const out: Mask[] = []
  const cutoff = cutoffFor(cutoffs, measurement, source)
  if (cutoff > source.minTime) out.push({ measurements: undefined, series: undefined, lo: FIRST_TIME, hi: cutoff - 1n })
  for (const tombstone of tombstones.get(measurement) ?? []) {
    if (!applies(tombstone, source)) continue
    const hit = tombstone.series === null ? undefined : series === undefined ? tombstone.series : common(tombstone.series, series)
    if (hit === undefined || hit.length > 0) out.push({ measurements: undefined, series: hit, lo: tombstone.start, hi: tombstone.end })
  }
  return joined(out, source)
}

/** One condition for all tombstones that mask the same part of the source's time: whole series, mostly, deleted one by one. */
function joined(masks: readonly Mask[], source: Maskable): readonly Mask[] {
  if (masks.length < 2) return masks
  const groups = new Map<string, Mask[]>()
  for (const one of masks) {
    const lo = later(one.lo, source.minTime)
    const hi = earlier(one.hi, source.maxTime)
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
export function mergeMasks(
  { tombstones, cutoffs, measurements }: Removals,
  measurement: number | undefined,
  source: Maskable & { table: number; minSeries: number; maxSeries: number },
  cleared: number,
): readonly Mask[] {
  const out: Mask[] = []
  if (measurement === undefined) out.push(...expiredInShared(cutoffs, source, (id) => measurements?.get(id)?.tables.includes(source.table) !== false))
  else {
    const cutoff = cutoffFor(cutoffs, measurement, source)
    if (cutoff > source.minTime) out.push({ measurements: undefined, series: undefined, lo: FIRST_TIME, hi: cutoff - 1n })
  }
  const lists = measurement === undefined ? tombstones.values() : [tombstones.get(measurement) ?? []]
  for (const list of lists) {
    for (const tombstone of list) {
      if (tombstone.id > cleared || !applies(tombstone, source)) continue
      const { series } = tombstone
      if (series !== null && (series[series.length - 1] < source.minSeries || series[0] > source.maxSeries)) continue
      // Series say by themselves which measurement they are of.
      const whole = measurement === undefined && series === null
      out.push({ measurements: whole ? { ids: [tombstone.measurement] } : undefined, series: series ?? undefined, lo: tombstone.start, hi: tombstone.end })
    }
  }
  // Rows of series that were released before they were flushed.
  if (measurement === undefined) out.push({ measurements: { ids: [RELEASED] }, series: undefined, lo: FIRST_TIME, hi: LAST_TIME })
  return joined(out, source)
}

/**
 * What retention masks of a shared table's source: most measurements up to one time, those that have one of their own together with their like.
 * @param has whether a measurement may have rows in the table.
 */
function expiredInShared(cutoffs: RetentionCutoffs, source: Maskable, has: (measurement: number) => boolean): Mask[] {
  const out: Mask[] = []
  const all = cutoffFor(cutoffs, ANY_OTHER, source)
  const apart = new Map<bigint, number[]>()
  for (const id of namedMeasurements(cutoffs)) {
    const own = cutoffFor(cutoffs, id, source)
    if (own === all || !has(id)) continue
    const group = apart.get(own)
    if (group === undefined) apart.set(own, [id])
    else group.push(id)
  }
  const before = (cutoff: bigint, measurements: Owners | undefined): void => {
    if (cutoff > source.minTime) out.push({ measurements, series: undefined, lo: FIRST_TIME, hi: cutoff - 1n })
  }
  const longer = [...apart].flatMap(([cutoff, ids]) => (cutoff < all ? ids : []))
  before(all, longer.length === 0 ? undefined : { ids: longer, but: true })
  for (const [cutoff, ids] of apart) before(cutoff, { ids })
  return out
}

/** Whether nothing of the source is left. */
export function masksAll(masks: readonly Mask[], source: Maskable): boolean {
  return masks.some(({ measurements, series, lo, hi }) => measurements === undefined && series === undefined && lo <= source.minTime && hi >= source.maxTime)
}

function applies(tombstone: Tombstone, source: Maskable): boolean {
  return tombstone.sequence > source.sequence && tombstone.id > source.cleared && tombstone.start <= source.maxTime && tombstone.end >= source.minTime
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
