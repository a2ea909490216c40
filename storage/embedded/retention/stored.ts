/**
 * Tombstones, retention cutoffs and drops as the catalog stores them: JSON, times as decimal text, series as base64 of little endian 32-bit numbers, or,
 * when they are many, their count.
 */
import { INT64_MIN } from '../../common/time.ts'
import { newInt32 } from '../memtable/grow.ts'
import type { Cutoff, GeneralCutoff, RetentionCutoffs, Tombstone } from '../threads/removals.ts'
import type { TakenTimes } from './taken-times.ts'

/** More series than this do not lie in the tombstone's entry. */
const INLINE_SERIES = 1024

export interface StoredTombstone extends Omit<Tombstone, 'series' | 'start' | 'end'> {
  /** A count: they lie in blocks of their own. */
  series: string | number | null
  start: string
  end: string
}

export interface StoredCutoffs {
  general: (StoredCutoff & { except: number[] })[]
  own: [measurement: number, cutoffs: StoredCutoff[]][]
}

/** What retention has taken: times before which points may be gone. */
export interface StoredTaken {
  general: string
  own: [measurement: number, time: string][]
}

interface StoredCutoff {
  id: number
  cutoff: string
  sequence: number
}

/** Up to format version 3: `own` instead of `all` for the measurements it names. */
export interface StoredCuts {
  all: StoredCut | null
  own: [measurement: number, cut: StoredCut][]
}

type StoredCut = Omit<StoredCutoff, 'id'>

/** A pending drop. */
export interface StoredDrop {
  measurement: number
  /** The log's order of the drops of one name. */
  order: number
  /** Nanoseconds. */
  deadline: string
}

/** Names whose drops can no longer be undone, oldest first. */
export type EndedDrops = [namespace: string, name: string][]

export function storeTombstone({ series, start, end, ...rest }: Tombstone): StoredTombstone {
  const stored = series === null ? null : series.length > INLINE_SERIES ? series.length : Buffer.from(seriesBytes(series)).toString('base64')
  return { ...rest, series: stored, start: String(start), end: String(end) }
}

/** @param blocks the series of one that has many, block by block. */
export function loadTombstone({ series, start, end, ...rest }: StoredTombstone, blocks: () => Iterable<Uint8Array>): Tombstone {
  const times = { start: BigInt(start), end: BigInt(end) }
  if (series === null) return { ...rest, series, ...times }
  const [count, parts] = typeof series === 'number' ? [series, blocks()] : [Buffer.byteLength(series, 'base64') / 4, [Buffer.from(series, 'base64')]]
  // Shared, so that engine threads are not sent copies.
  const numbers = newInt32(count)
  let at = 0
  for (const bytes of parts) {
    seriesBytes(numbers).set(bytes, at)
    at += bytes.length
  }
  if (at !== count * 4) throw new RangeError(`tombstone ${rest.id} has ${at} bytes of series, and says ${count} series`)
  return { ...rest, series: numbers, ...times }
}

/** Whether a tombstone's series lie in blocks. */
export const hasBlocks = ({ series }: Pick<Tombstone, 'series'>): boolean => series !== null && series.length > INLINE_SERIES

export const seriesBytes = (series: Int32Array): Uint8Array => new Uint8Array(series.buffer, series.byteOffset, series.byteLength)

const storeCutoff = ({ id, cutoff, sequence }: Cutoff): StoredCutoff => ({ id, cutoff: String(cutoff), sequence })
const loadCutoff = ({ id, cutoff, sequence }: StoredCutoff): Cutoff => ({ id, cutoff: BigInt(cutoff), sequence })

export function storeCutoffs({ general, own }: RetentionCutoffs): StoredCutoffs {
  return {
    general: general.map((one) => ({ ...storeCutoff(one), except: [...one.except] })),
    own: [...own].map(([measurement, list]) => [measurement, list.map(storeCutoff)]),
  }
}

export function loadCutoffs({ general, own }: StoredCutoffs): RetentionCutoffs {
  return {
    general: general.map((one): GeneralCutoff => ({ ...loadCutoff(one), except: new Set(one.except) })),
    own: new Map(own.map(([measurement, list]) => [measurement, list.map(loadCutoff)])),
  }
}

export const storeTaken = ({ general, own }: TakenTimes): StoredTaken => ({ general: String(general), own: [...own].map(([id, time]) => [id, String(time)]) })
export const loadTaken = ({ general, own }: StoredTaken): TakenTimes => ({
  general: BigInt(general),
  own: new Map(own.map(([id, time]) => [id, BigInt(time)])),
})

/** @param id above those of all tombstones: no file has these applied. */
export function loadCuts({ all, own }: StoredCuts, id: number): RetentionCutoffs {
  const load = (cut: StoredCut): Cutoff => loadCutoff({ ...cut, id })
  const some = own.filter(([, { cutoff }]) => BigInt(cutoff) !== INT64_MIN)
  return {
    general: all === null ? [] : [{ ...load(all), except: new Set(own.map(([measurement]) => measurement)) }],
    own: new Map(some.map(([measurement, cut]) => [measurement, [load(cut)]])),
  }
}
