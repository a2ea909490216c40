/** Tombstones, retention cutoffs and drops as the catalog stores them: JSON, times as decimal text, series as base64 of little endian 32-bit numbers. */
import { INT64_MIN } from '../../common/time.ts'
import type { Cutoff, GeneralCutoff, RetentionCutoffs, Tombstone } from '../layout.ts'

export interface StoredTombstone extends Omit<Tombstone, 'series' | 'start' | 'end'> {
  series: string | null
  start: string
  end: string
}

export interface StoredCutoffs {
  general: (StoredCutoff & { except: number[] })[]
  own: [measurement: number, cutoffs: StoredCutoff[]][]
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
  const bytes = series === null ? null : Buffer.from(series.buffer, series.byteOffset, series.byteLength).toString('base64')
  return { ...rest, series: bytes, start: String(start), end: String(end) }
}

export function loadTombstone({ series, start, end, ...rest }: StoredTombstone): Tombstone {
  return { ...rest, series: series === null ? null : numbers(Buffer.from(series, 'base64')), start: BigInt(start), end: BigInt(end) }
}

function numbers(bytes: Buffer): Int32Array {
  return Int32Array.from({ length: bytes.length / 4 }, (_, i) => bytes.readInt32LE(i * 4))
}

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

/** @param id above those of all tombstones: no file has these applied. */
export function loadCuts({ all, own }: StoredCuts, id: number): RetentionCutoffs {
  const load = (cut: StoredCut): Cutoff => loadCutoff({ ...cut, id })
  const some = own.filter(([, { cutoff }]) => BigInt(cutoff) !== INT64_MIN)
  return {
    general: all === null ? [] : [{ ...load(all), except: new Set(own.map(([measurement]) => measurement)) }],
    own: new Map(some.map(([measurement, cut]) => [measurement, [load(cut)]])),
  }
}
