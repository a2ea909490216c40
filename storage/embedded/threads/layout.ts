/**
 * What the main thread and the engine threads share: the memory layout of the memtable and the series index, the segment manifest
 * entry, and the messages between threads.
 *
 * Invariants
 * - The main thread alone writes; engine threads only read. A chunk's rows below its published count never change.
 * - `Shared.SEQ` is a sequence lock: odd while a batch is being applied. A reader takes the row counts it needs, and if SEQ was odd
 *   or has moved, takes them again. `Shared.EVENTS` counts the state events told so far: a reader that has applied fewer lacks chunks
 *   of batches that are visible already, and lets the messages under way come in first. Then it sees whole batches only.
 * - A row is addressed by chunk << ROW_BITS | offset. `prev` and the memtable's heads link the rows of a series, newest first; heads hold the
 *   complement of the address, 0 for none. A reader may meet links to rows it does not see yet: it follows them down to the rows it does, as long as
 *   those in between are published.
 * - What a reader takes while the writer may change it (SEQ, EVENTS, row counts, flags, the summary) is read and written by Atomics; everything else
 *   was written before a count that the reader has loaded. Nothing relies on the order that a processor happens to keep (docs/decisions/024).
 */
import type { FieldInfo, FieldType } from 'svcdb'
import type { KeyMaterial } from '../encryption/keys.ts'

export const ROW_BITS = 16
/** Chunks of a table of a memtable: rows are ordered by their addresses, as signed numbers. */
export const MAX_CHUNKS = 1 << (31 - ROW_BITS)
export const CHUNK_ROWS = 1 << ROW_BITS
export const NO_ROW = -1

/** Int32 slots of the process-wide shared header. The halves of the key of hashes are there before an engine thread starts. */
export const Shared = { SEQ: 0, SERIES: 1, SYMBOLS: 2, EVENTS: 3, HASH_KEY_LOW: 4, HASH_KEY_HIGH: 5, SLOTS: 16 } as const

/** A field of a table. `id` is its place in the measurement's field list; `column` its name in SQL and in segments. */
export interface FieldDef {
  id: number
  name: string
  type: FieldType
  scale: number
  column: string
}

/** A field as interfaces show it. */
export function fieldInfo({ name, type, scale }: FieldDef): FieldInfo {
  return type === 'decimal' ? { name, type, scale } : { name, type }
}

/**
 * A measurement. `shared`: it has (so far) one field and keeps its rows in the table shared by all such measurements; `tables` are all
 * tables that may hold rows of it, oldest first (a shared one and its own, once it has grown a second field).
 */
export interface MeasurementDef {
  id: number
  namespace: string
  name: string
  fields: FieldDef[]
  tables: number[]
}

/** A table of rows: one measurement's own, or (measurement -1) the one shared by measurements whose only field is `fields[0]`. */
export interface TableDef {
  id: number
  measurement: number
  fields: FieldDef[]
}

/** A column of a memtable chunk; offsets in bytes from the chunk's start. Validity is a bit a row, least significant first, valid only when the header's flag says so. */
export interface ChunkColumn {
  field: number
  type: FieldType
  offset: number
  validityOffset: number
}

/**
 * One chunk: header (Int32: published rows, then the flags of each column, CHUNK_HAS_*), series Int32, time Int64, prev Int32, columns.
 * float64, int64, uint64: 8 bytes; bool 1; decimal 16 (little endian 128 bit, at the field's scale); string and histogram:
 * two Uint32 (position in the memtable's heap: heap buffer index << HEAP_BITS | offset; length).
 */
export interface ChunkDef {
  buffer: SharedArrayBuffer
  capacity: number
  seriesOffset: number
  timeOffset: number
  prevOffset: number
  columns: ChunkColumn[]
}
export const CHUNK_HEADER_ROWS = 0
export const CHUNK_HEADER_FLAGS = 1
/** Flags of a column: rows without a value, NaN or infinities among its values. Set before the rows they are true of are published. */
export const CHUNK_HAS_NULLS = 1
export const CHUNK_HAS_NON_FINITE = 2

export const HEAP_BITS = 20
export const HEAP_BUFFER = 1 << HEAP_BITS
/** Buffers that an address of 32 bits can tell apart. */
export const HEAP_BUFFERS = 2 ** (32 - HEAP_BITS)

/**
 * BigInt64 slots of a memtable table's summary. DIRTY_*: times of rows that may repeat a row of an older memtable or of a segment; REPEAT_*: of
 * rows that may repeat a row of this memtable; a least above the greatest = none. LATENESS (unsigned): no row is older than its series' newest row
 * before it by more than this many nanoseconds.
 */
export const Summary = { MIN_TIME: 0, MAX_TIME: 1, DIRTY_MIN: 2, DIRTY_MAX: 3, REPEAT_MIN: 4, REPEAT_MAX: 5, LATENESS: 6, SLOTS: 7 } as const

/** How a float64 column lies in a segment: as it is, or as integers of value * 10^scale, exactly reversible by one division. INTEGER; BIGINT when `wide`. `negativeZero`: the column holds -0, which a dictionary would lose. `nonFinite`: it may hold NaN and infinities. `nonFiniteIn`: those lie in the column of that name, and it has NULL there. */
export type SegmentEncoding =
  | { kind: 'plain'; negativeZero?: true; nonFinite?: true; nonFiniteIn?: string }
  | { kind: 'scaled'; scale: number; wide?: true; nonFiniteIn?: string }
  | EncryptedEncoding

/** Not in the Parquet file but in the segment's sidecar, under the key of this id (docs/formats/encrypted-columns.md). Of every field type. */
export interface EncryptedEncoding {
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
  /** When it was written, milliseconds since the Unix epoch; absent in segments without a sidecar. */
  created?: number
  rows: number
  bytes: number
  /** CRC-32 of the file; absent in segments of format version 1 that have not been read through since. */
  crc?: number
  /** Its file was found damaged by an earlier process. */
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

/**
 * What a delete hides: rows of a measurement in sources of a lower sequence, of these series (ascending) or, when null, of all, from `start` to `end`
 * inclusive. Rows written later lie in sources of the same or a higher sequence, so that a time can be written again.
 */
export interface Tombstone {
  id: number
  measurement: number
  sequence: number
  series: Int32Array | null
  start: bigint
  end: bigint
}

/**
 * Retention: rows before `cutoff`, nanoseconds, in segments and memtables of a lower sequence are masked, unless the segment has it applied. `id` is
 * of the same numbers as a tombstone's, for `SegmentMeta.cleared`.
 */
export interface Cutoff {
  id: number
  cutoff: bigint
  sequence: number
}

/** Of all measurements but these. */
export interface GeneralCutoff extends Cutoff {
  except: ReadonlySet<number>
}

/** Retention cutoffs on disk; each masks by itself. Ascending by sequence: a later one lies before those that are left of earlier configurations. */
export interface RetentionCutoffs {
  general: readonly GeneralCutoff[]
  own: ReadonlyMap<number, readonly Cutoff[]>
}

/** The growable shared arrays of the series index. Entries below Shared.SERIES / Shared.SYMBOLS are valid and never change. */
export interface SeriesArrays {
  /** Series number → measurement id. */
  measurement: Int32Array
  /** Series number → start of its tags in `tags`; the end is the next one's start. */
  offsets: Int32Array
  /** Pairs (key symbol, value symbol), ordered by key text. */
  tags: Int32Array
  /** Symbol → start of its UTF-8 bytes in `symbolBytes`; the end is the next one's start. */
  symbolOffsets: Int32Array
  symbolBytes: Uint8Array
}

/** What the main thread tells every engine thread, in order; the state a thread has is the sum of these. */
export type StateEvent =
  | { kind: 'series'; arrays: SeriesArrays }
  | { kind: 'measurement'; def: MeasurementDef }
  | { kind: 'measurement-gone'; id: number }
  | { kind: 'table'; def: TableDef }
  /** Its measurement was dropped: rows of it in memtables are not flushed. */
  | { kind: 'table-gone'; id: number }
  | { kind: 'series-released'; series: Int32Array }
  | { kind: 'tombstones'; added: Tombstone[]; removed: number[] }
  | { kind: 'cutoffs'; cutoffs: RetentionCutoffs }
  | { kind: 'memtable'; id: number; sequence: number; heads: Int32Array }
  | { kind: 'heads'; memtable: number; heads: Int32Array }
  | { kind: 'memtable-table'; memtable: number; table: number; summary: BigInt64Array }
  | { kind: 'chunk'; memtable: number; table: number; chunk: ChunkDef }
  /** The last chunk of the table was outgrown: replaced by a larger copy (row numbers stay). */
  | { kind: 'chunk-grown'; memtable: number; table: number; chunk: ChunkDef }
  | { kind: 'heap'; memtable: number; buffer: SharedArrayBuffer }
  /** One visible step: a flush drops its memtable and adds segments; a compaction replaces segments. */
  | { kind: 'segments'; added: SegmentMeta[]; removed: number[]; droppedMemtable: number }

export interface WorkerData {
  role: 'query' | 'maintenance'
  dataDir: string
  shared: Int32Array
  config: WorkerConfig
  state: StateEvent[]
  /** `Shared.EVENTS` when `state` was taken. */
  eventsPublished: number
  /** What is known of each segment's file (damage/trust.ts). */
  trust: Int32Array
}

export interface WorkerConfig {
  /** How far the thread steps back behind the main one, 0 to 19; Linux only. */
  niceness: number
  duckdbThreads: number
  memoryLimitBytes: number
  /** Bytes of samples kept decoded. */
  sampleCacheBytes: number
  tempDir: string
  rowGroupRows: number
  compression: 'zstd' | 'lz4' | 'none'
  zstdLevel: number
  /** Of encrypted columns; none when absent. */
  encryption?: KeyMaterial & { cacheBytes: number }
  /** Nothing of a statement is written to the scratch space: it could be what is encrypted elsewhere. */
  noSpill?: true
  /** Where archived segments are read, by key. */
  archiveDirectory?: string
  /** Bytes of scratch space on disk for all its statements; as much as there is when absent. */
  maxScratchBytes?: number
  /** How large a statement may be; DEFAULT_LIMITS of the SQL layer when absent. */
  sqlLimits?: { textBytes: number; depth: number; nodes: number }
  /** Engine processes it may have at once; without any, every statement runs on the thread. */
  engineProcesses?: number
  /** What a regular expression of a condition may take; REGEX_TIMEOUT_MS when absent. */
  regexTimeoutMs?: number
  /** Bytes of a job's output under way before `emit` waits; 4 MiB when absent. */
  emitWindowBytes?: number
}

export type ToWorker =
  | { kind: 'state'; events: StateEvent[] }
  | { kind: 'job'; id: number; module: string; args: unknown }
  | { kind: 'cancel'; id: number }
  /** The consumer has taken `bytes` of the job's output. */
  | { kind: 'taken'; id: number; bytes: number }
  /** Write the frozen memtable out. `firstSegment`: ids from here on are free to use. */
  | { kind: 'flush'; id: number; memtable: number; firstSegment: number }
  | {
      kind: 'compact'
      id: number
      table: number
      segments: number[]
      segment: number
      sequence: number
      level: number
      deduplicate: boolean
      dirty: [string, string] | null
      /** Tombstones up to this id are to be applied. */
      cleared: number
      /** Rows before this time are left out: they are archived. */
      from?: string
    }
  /** List the UTC days before a time that have rows. */
  | { kind: 'archive-days'; id: number; table: number; segments: number[]; before: string }
  | ({ kind: 'archive'; id: number } & ArchiveTask)
  /** The archived segments that a job asked for can be read, or not. */
  | { kind: 'fetched'; id: number; request: number; error?: WireError }
  | { kind: 'close' }

/** Write the rows of a UTC day to a self-contained file. */
export interface ArchiveTask {
  table: number
  segments: number[]
  segment: number
  sequence: number
  deduplicate: boolean
  dirty: [string, string] | null
  cleared: number
  /** Inclusive. */
  time: [string, string]
  /** The file to write. */
  path: string
}

/** An object that a job wants to read. */
export type ArchivedObject = Pick<SegmentMeta, 'file' | 'bytes' | 'crc'>

export interface WireError {
  code: string
  message: string
  detail?: Record<string, unknown>
  cause?: string
}

export type FromWorker =
  | { kind: 'ready' }
  | { kind: 'output'; id: number; bytes: Uint8Array }
  /** `last` is the end of the output. */
  | { kind: 'done'; id: number; result: unknown; last?: Uint8Array }
  | { kind: 'failed'; id: number; error: WireError }
  | { kind: 'flushed'; id: number; segments: SegmentMeta[] }
  | { kind: 'compacted'; id: number; segment: SegmentMeta | null }
  | { kind: 'archive-days'; id: number; days: string[] }
  /** `file` is empty: whoever stores the object names it. */
  | { kind: 'archived'; id: number; segment: SegmentMeta | null }
  /** A job needs archived segments; `id` is the job's. */
  | { kind: 'fetch'; id: number; request: number; objects: ArchivedObject[] }
  /** A segment's file is not what was written. */
  | { kind: 'damaged'; segment: number; cause: string }
  /** A segment's file was read whole ahead of a query; 0 bytes when it could not be. */
  | { kind: 'prefetched'; bytes: number }
  /** A statement of SQL whose plan would have read what is not its own. */
  | { kind: 'refused-plan'; namespace: string; reason: string }
  /** What the thread keeps of samples, when it has changed. */
  | { kind: 'samples-kept'; bytes: number }

/** A segment's path below the data directory; every name on disk comes from here or from `paths.ts`. */
export function segmentFile(shard: number, id: number): string {
  return `segments/shard_${shard}/${String(id).padStart(10, '0')}.parquet`
}

/** The path of a segment's encrypted columns: beside it. */
export function sidecarFile(file: string): string {
  return file.replace(/\.parquet$/, '.enc')
}

/** As `segmentFiles`, each with the bytes it must have. */
export function segmentFilesWithSizes({ file, bytes, sidecar, sidecarBytes = 0, archived }: SegmentMeta): { file: string; bytes: number }[] {
  if (archived) return []
  return [{ file, bytes }, ...(sidecar === undefined ? [] : [{ file: sidecar, bytes: sidecarBytes }])]
}

/** All files of a segment, relative to the data directory; none of an archived one. */
export function segmentFiles({ file, sidecar, archived }: Pick<SegmentMeta, 'file' | 'sidecar' | 'archived'>): string[] {
  if (archived) return []
  return sidecar === undefined ? [file] : [file, sidecar]
}
