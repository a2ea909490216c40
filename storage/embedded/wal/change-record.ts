/**
 * A change of what lives, as a WAL record: deletes, drops, their undoing, and series given back. Layout: docs/formats/wal.md.
 * Each is safe to replay on a catalog that has it already.
 */

import type { ByteReader, ByteWriter } from '../../common/log/bytes.ts'
import { decodeInts, encodeInts } from '../../common/log/column-codec.ts'
import type { RetentionMove } from '../retention/cutoffs.ts'

export const RECORD_CHANGE = 2

/** Namespace and name of the measurement, for readers of changes; absent in what is not told to them, as the end of a drop whose time has passed. */
type Owner = [namespace: string, name: string]

export type ChangeRecord =
  /** Hides rows written before it: of these series, ascending, or, when null, of all; `start` to `end` inclusive. `encoded`: the series as `encodeInts` makes them, when that has been done. */
  | { kind: 'delete'; tombstone: number; measurement: number; start: bigint; end: bigint; series: Int32Array | null; encoded?: Uint8Array; owner?: Owner }
  /** The measurement goes. `deadline`: until then it can be restored, in nanoseconds; null = for good, also for one that was pending. */
  | { kind: 'drop'; tombstone: number; measurement: number; deadline: bigint | null; owner?: Owner }
  | { kind: 'restore'; measurement: number; owner?: Owner }
  /** Series without rows: their numbers are never used again. `names`, for readers of changes: measurement and tags (key, value ...) of each. */
  | { kind: 'release'; series: Int32Array; names?: [measurement: number, tags: string[]][] }
  /** Retention masks rows written before it. */
  | ({ kind: 'retention' } & RetentionMove)

/** Kind, varint sequence, JSON text of the members that are no series, varint count of series + 1 (0 = none listed), the series. */
export function encodeChange(out: ByteWriter, sequence: number, change: ChangeRecord): void {
  out.u8(RECORD_CHANGE)
  out.varint(sequence)
  out.text(JSON.stringify(change, (key, value) => (key === 'series' || key === 'encoded' ? undefined : typeof value === 'bigint' ? String(value) : value)))
  const series = 'series' in change ? change.series : null
  out.varint(series === null ? 0 : series.length + 1)
  if ('encoded' in change && change.encoded !== undefined) out.put(change.encoded)
  else if (series !== null) encodeInts(out, series, series.length)
}

/** What follows the sequence. @throws RangeError, SyntaxError or TypeError for bytes that are no change. */
export function decodeChange(reader: ByteReader): ChangeRecord {
  const members = JSON.parse(reader.text()) as Record<string, string | number | null> & { kind: ChangeRecord['kind'] }
  const count = reader.varint()
  if (count > (reader.end - reader.position + 16) * 4096) throw new RangeError(`the record cannot hold ${count} series`)
  let series: Int32Array | null = null
  if (count > 0) {
    series = new Int32Array(count - 1)
    decodeInts(reader, series, count - 1)
  }
  const measurement = Number(members.measurement)
  const tombstone = Number(members.tombstone)
  const owner = members.owner === undefined ? {} : { owner: members.owner as unknown as Owner }
  switch (members.kind) {
    case 'delete':
      return { kind: 'delete', tombstone, measurement, start: BigInt(members.start as string), end: BigInt(members.end as string), series, ...owner }
    case 'drop':
      return { kind: 'drop', tombstone, measurement, deadline: members.deadline === null ? null : BigInt(members.deadline), ...owner }
    case 'restore':
      return { kind: 'restore', measurement, ...owner }
    case 'release':
      return {
        kind: 'release',
        series: series ?? new Int32Array(0),
        ...(members.names === undefined ? {} : { names: members.names as unknown as [number, string[]][] }),
      }
    case 'retention': {
      const { id, general, except, own } = members as unknown as { id: number; general: string | null; except: number[]; own: [number, string][] }
      return { kind: 'retention', id, general: general === null ? null : BigInt(general), except, own: own.map(([id, cutoff]) => [id, BigInt(cutoff)]) }
    }
    default:
      throw new RangeError(`unknown change "${String(members.kind)}"`)
  }
}
