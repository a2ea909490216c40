/** Tombstones, cuts and drops as the catalog stores them: JSON, times as decimal text, series as base64 of little endian 32-bit numbers, or, when they are many, their count. */
import { sharedInt32 } from '../grow.ts'
import type { Cut, Cuts, Tombstone } from '../layout.ts'

/** More series than this do not lie in the tombstone's entry. */
const INLINE_SERIES = 1024

export interface StoredTombstone extends Omit<Tombstone, 'series' | 'start' | 'end'> {
  /** A count: they lie in blocks of their own. */
  series: string | number | null
  start: string
  end: string
}

export interface StoredCuts {
  all: StoredCut | null
  own: [measurement: number, cut: StoredCut][]
}

interface StoredCut {
  cutoff: string
  sequence: number
}

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
  const numbers = sharedInt32(count)
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

const storeCut = ({ cutoff, sequence }: Cut): StoredCut => ({ cutoff: String(cutoff), sequence })
const loadCut = ({ cutoff, sequence }: StoredCut): Cut => ({ cutoff: BigInt(cutoff), sequence })

export function storeCuts({ all, own }: Cuts): StoredCuts {
  return { all: all === null ? null : storeCut(all), own: [...own].map(([measurement, cut]) => [measurement, storeCut(cut)]) }
}

export function loadCuts(stored: StoredCuts | undefined): Cuts {
  if (stored === undefined) return { all: null, own: new Map() }
  return { all: stored.all === null ? null : loadCut(stored.all), own: new Map(stored.own.map(([measurement, cut]) => [measurement, loadCut(cut)])) }
}
