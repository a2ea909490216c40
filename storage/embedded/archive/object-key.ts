/**
 * Keys of archived objects: Hive partitions, so that other tools find tables and days by themselves (docs/formats/archive.md). The name ends in the
 * segment's number and the file's checksum: two databases that write to one place by mistake never replace each other's objects.
 */
import { createHash } from 'node:crypto'

export const DAY_NS = 86_400_000_000_000n
/** File systems take names of 255 bytes. */
const MAX_VALUE = 200
const KEPT = 160

/** A measurement's own table, or the one shared by measurements whose only field has this name. */
export type Partition = { namespace: string; measurement: string } | { shared: string }

/** @param day its first nanosecond. */
export function objectKey(partition: Partition, day: bigint, segment: number, crc: number): string {
  const date = new Date(Number(day / 1_000_000n)).toISOString().slice(0, 10)
  const folders =
    'shared' in partition
      ? `shared=${partitionValue(partition.shared)}`
      : `namespace=${partitionValue(partition.namespace)}/measurement=${partitionValue(partition.measurement)}`
  return `${folders}/date=${date}/${String(segment).padStart(10, '0')}-${crc.toString(16).padStart(8, '0')}.parquet`
}

/** Percent-encoded, as readers of Hive partitions expect it; nothing in it is special to a file system, a pattern or a URL. */
export function partitionValue(text: string): string {
  const encoded = encode(text)
  if (encoded.length <= MAX_VALUE) return encoded
  let kept = ''
  for (const character of text) {
    if (kept.length + encode(character).length > KEPT) break
    kept += encode(character)
  }
  return `${kept}~${createHash('sha256').update(text).digest('hex').slice(0, 16)}`
}

function encode(text: string): string {
  return encodeURIComponent(text).replace(/[!'()*~]/g, (character) => `%${character.charCodeAt(0).toString(16).toUpperCase()}`)
}
