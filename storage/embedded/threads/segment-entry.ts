/** A segment as the manifest, the catalog and the engine threads name it, and its files. Formats: docs/formats/segments.md. */
import type { FieldType } from 'svcdb'

/** How a float64 column lies in a segment: as it is, or as integers of value * 10^scale, exactly reversible by one division. INTEGER; BIGINT when `wide`. `negativeZero`: the column holds -0, which a dictionary would lose. `nonFinite`: it may hold NaN and infinities. `nonFiniteIn`: those lie in the column of that name, and it has NULL there. */
export type SegmentEncoding =
  | { kind: 'plain'; negativeZero?: true; nonFinite?: true; nonFiniteIn?: string }
  | { kind: 'scaled'; scale: number; wide?: true; nonFiniteIn?: string }
  | EncryptedEncoding

/** Not in the Parquet file but in the segment's sidecar, under the key of this id (docs/formats/encrypted-columns.md). Of every field type. */
interface EncryptedEncoding {
  kind: 'encrypted'
  key: string
  nonFinite?: true
}

export interface SegmentColumn {
  field: number
  /** The field's `column` when the segment was written: the column's name in the file. */
  name: string
  type: FieldType
  scale: number
  encoding: SegmentEncoding
}

/**
 * A segment: a Parquet file with columns `_series` INTEGER, `_time` TIMESTAMP_NS, in shared tables `_measurement` INTEGER before them, and one
 * column a field; sorted by (_measurement,) _series, _time; (series, time) unique within. Times are decimal text so that the entry is JSON.
 * `sequence` orders segments of a table: on equal (series, time) fields of the higher one win. `dirty` as in Summary, null = no row repeats one of an older segment.
 */
export interface SegmentMeta {
  id: number
  table: number
  sequence: number
  level: number
  /** Tombstones and retention cutoffs up to this id are applied for good; absent = none. */
  cleared?: number
  /** Relative to the data directory; of an archived one the key of its object. */
  file: string
  /** It lies in the archive's store: a self-contained file of decoded columns (docs/formats/archive.md) that is never merged. */
  archived?: true
  /** The file of encrypted columns that belongs to it, relative to the data directory, and its size; absent = none. */
  sidecar?: string
  sidecarBytes?: number
  /** CRC-32 of the sidecar; absent in segments of earlier servers that have not been read through since. */
  sidecarCrc?: number
  /** When it was written, milliseconds since the Unix epoch; absent in segments without a sidecar. */
  created?: number
  rows: number
  bytes: number
  /** CRC-32 of the file; absent in segments of format version 1 that have not been read through since. */
  crc?: number
  /** Its file was found corrupt by an earlier process. */
  damaged?: true
  minTime: string
  maxTime: string
  dirty: [string, string] | null
  minSeries: number
  maxSeries: number
  /**
   * Of a shared table's segment with rows of namespaces that have a name: rows of each, and the highest of their measurements' numbers, so that they
   * do not count for a namespace that was deleted and has come again. Absent = all are of the namespace without a name.
   */
  owners?: Record<string, [rows: number, newest: number]>
  columns: SegmentColumn[]
}

/** A segment's path below the data directory; every name on disk comes from here or from `paths.ts`. */
export function segmentFile(shard: number, id: number): string {
  return `segments/shard_${shard}/${String(id).padStart(10, '0')}.parquet`
}

/** The path of a segment's encrypted columns: beside it. */
export function sidecarFile(file: string): string {
  return file.replace(/\.parquet$/, '.enc')
}

/** A file of a segment as it must be; without a checksum nobody has noted one. */
export interface FileOfSegment {
  file: string
  bytes: number
  crc: number | undefined
}

/** As `segmentFiles`, each with what it must have. */
export function segmentFilesWithSums({ archived, ...segment }: SegmentMeta): FileOfSegment[] {
  return archived ? [] : filesWithSums(segment)
}

/** Wherever they lie. */
export function filesWithSums({ file, bytes, crc, sidecar, sidecarBytes = 0, sidecarCrc }: FilesOfSegment): FileOfSegment[] {
  return [{ file, bytes, crc }, ...(sidecar === undefined ? [] : [{ file: sidecar, bytes: sidecarBytes, crc: sidecarCrc }])]
}

export type FilesOfSegment = Pick<SegmentMeta, 'file' | 'bytes' | 'crc' | 'sidecar' | 'sidecarBytes' | 'sidecarCrc'>

/** All files of a segment, relative to the data directory; none of an archived one. */
export function segmentFiles({ file, sidecar, archived }: Pick<SegmentMeta, 'file' | 'sidecar' | 'archived'>): string[] {
  if (archived) return []
  return sidecar === undefined ? [file] : [file, sidecar]
}
