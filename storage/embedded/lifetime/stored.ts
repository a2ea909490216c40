/** Tombstones, cuts and drops as the catalog stores them: JSON, times as decimal text, series as base64 of little endian 32-bit numbers. */
import type { Cut, Cuts, Tombstone } from '../layout.ts'

export interface StoredTombstone extends Omit<Tombstone, 'series' | 'start' | 'end'> {
  series: string | null
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
  const bytes = series === null ? null : Buffer.from(series.buffer, series.byteOffset, series.byteLength).toString('base64')
  return { ...rest, series: bytes, start: String(start), end: String(end) }
}

export function loadTombstone({ series, start, end, ...rest }: StoredTombstone): Tombstone {
  return { ...rest, series: series === null ? null : numbers(Buffer.from(series, 'base64')), start: BigInt(start), end: BigInt(end) }
}

function numbers(bytes: Buffer): Int32Array {
  return Int32Array.from({ length: bytes.length / 4 }, (_, i) => bytes.readInt32LE(i * 4))
}

const storeCut = ({ cutoff, sequence }: Cut): StoredCut => ({ cutoff: String(cutoff), sequence })
const loadCut = ({ cutoff, sequence }: StoredCut): Cut => ({ cutoff: BigInt(cutoff), sequence })

export function storeCuts({ all, own }: Cuts): StoredCuts {
  return { all: all === null ? null : storeCut(all), own: [...own].map(([measurement, cut]) => [measurement, storeCut(cut)]) }
}

export function loadCuts(stored: StoredCuts | undefined): Cuts {
  if (stored === undefined) return { all: null, own: new Map() }
  return { all: stored.all === null ? null : loadCut(stored.all), own: new Map(stored.own.map(([measurement, cut]) => [measurement, loadCut(cut)])) }
}
