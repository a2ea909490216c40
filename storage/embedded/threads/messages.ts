/** The messages between the main thread and the engine threads. */

import type { PartialResult } from 'svcdb'
import type { SpanRecord } from 'svcdb/lib/trace'
import type { KeyMaterial } from '../encryption/keys.ts'
import type { TrustTable } from '../integrity/trust.ts'
import type { Interval } from '../read/sources.ts'
import type { FieldDef, MeasurementDef, TableDef } from './definitions.ts'
import type { FunctionSpec } from './function-spec.ts'
import type { ChunkDef } from './memtable-layout.ts'
import type { RetentionCutoffs, Tombstone } from './removals.ts'
import type { SegmentMeta } from './segment-entry.ts'
import type { SeriesArrays } from './series-layout.ts'
import type { ThreadUsage } from './usage.ts'

/** What the main thread publishes to every engine thread, in order; the state a thread has is the sum of these. */
export type StateEvent =
  | { kind: 'series'; arrays: SeriesArrays }
  | { kind: 'measurement'; def: MeasurementDef }
  /** New fields of a measurement, and of its own table where it has one. */
  | { kind: 'fields'; measurement: number; fields: FieldDef[] }
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
  | { kind: 'heap'; memtable: number; bytes: Uint8Array }
  /** Buffers that were announced are not used again: they go when all threads have collected them. `resting`: others will not be needed soon. */
  | { kind: 'buffers-left'; resting: boolean }
  /** One visible step: a flush drops its memtable and adds segments; a compaction replaces segments. */
  | { kind: 'segments'; added: SegmentMeta[]; removed: number[]; droppedMemtable: number }

/** What a thread is there for: questions, flushes and merges, or jobs that nobody waits for. */
export type ThreadRole = 'query' | 'maintenance' | 'background'

export interface WorkerData {
  role: ThreadRole
  dataDir: string
  shared: Int32Array
  config: WorkerConfig
  state: StateEvent[]
  /** `Shared.EVENTS` when `state` was taken, less the events of the state that follow by messages. */
  eventsPublished: number
  /** What is known of each segment's file (integrity/trust.ts). */
  trust: TrustTable
  /** Which snapshots jobs have (snapshot-pins.ts). */
  pins: Int32Array
  /** What it says of itself (thread-life.ts). */
  life: Int32Array
}

export interface WorkerConfig {
  /** How far the thread steps back behind the main one; Linux only. */
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
  /** It has freed memory given back, for the whole process; only a thread that runs no statements of clients, since its instance lets a setting be set for that. */
  givesBack?: true
  /** Where archived segments are read, by key. */
  archiveDirectory?: string
  /** Bytes of scratch space on disk for all its statements; as much as there is when absent. */
  maxScratchBytes?: number
  /** How large a statement may be; DEFAULT_LIMITS of the SQL layer when absent. */
  sqlLimits?: { textBytes: number; depth: number; nodes: number }
  /** SQL functions of plugins. */
  sqlFunctions?: readonly FunctionSpec[]
  /** Engine processes that it keeps for the next statements; without any, every statement runs on the thread. */
  engineProcesses?: number
  /** Statements at work in DuckDB at once, of which one namespace has a quarter at most, and one at least; as many as there are when absent. */
  statementsAtOnce?: number
  /** What a regular expression of a condition may take; REGEX_TIMEOUT_MS when absent. */
  regexTimeoutMs?: number
  /** Bytes of a job's output under way before `emit` waits; 4 MiB when absent. */
  emitWindowBytes?: number
}

export type ToWorker =
  | { kind: 'state'; events: StateEvent[] }
  /** `namespace`: whose turns of the thread it takes. `slot`: where it notes its snapshots. `traced`: its spans are wanted. `read`: the times that it reads are. */
  | {
      kind: 'job'
      id: number
      namespace: string
      module: string
      args: unknown
      slot: number
      traced?: boolean
      read?: boolean
      /** What it may go on from, and keep something for others that do. */
      partial?: Omit<PartialResult, 'keep'>
    }
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
  | ({ kind: 'newest-rows'; id: number } & NewestRowsTask)
  /** The archived segments that a job asked for can be read, or not. */
  | { kind: 'fetched'; id: number; request: number; error?: WireError }
  /** A statement that waits may have an engine process. */
  | { kind: 'process-granted'; turn: number }
  /** Run these jobs over made-up rows, as far as a slice goes; the answer is `warmed-up`. */
  | { kind: 'warm-up'; id: number; jobs: readonly WarmUpJob[]; ms: number; trim: boolean }
  /** Let go of the made-up rows. */
  | { kind: 'warm-up-end' }
  /** Say what the thread's memory is. */
  | { kind: 'usage'; id: number }
  /** Nothing else: whether it takes messages. */
  | { kind: 'are-you-there' }
  | { kind: 'close' }

export interface WarmUpJob {
  module: string
  args: unknown
}

/** Raise the time of each series that has rows in the segment to that of its newest one, or to a later one. */
export interface NewestRowsTask {
  table: number
  segment: number
  /** Number of the first series. */
  from: number
  /** Of each series from there on, nanoseconds, in shared memory. */
  times: BigInt64Array
}

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
  | { kind: 'there' }
  | { kind: 'output'; id: number; bytes: Uint8Array }
  /** `last` is the end of the output, `read` the times of the rows that it has read, `kept` what other jobs may go on from, in shared memory. */
  | { kind: 'done'; id: number; result: unknown; last?: Uint8Array; spans?: SpanRecord[]; read?: Interval; kept?: Uint8Array }
  /** Of a job, as `done`. */
  | { kind: 'failed'; id: number; error: WireError; spans?: SpanRecord[] }
  /** Of anything else that was asked for: its numbers are not those of jobs. */
  | { kind: 'task-failed'; id: number; error: WireError }
  | { kind: 'flushed'; id: number; segments: SegmentMeta[] }
  | { kind: 'compacted'; id: number; segment: SegmentMeta | null }
  | { kind: 'archive-days'; id: number; days: string[] }
  /** `file` is empty: whoever stores the object names it. */
  | { kind: 'archived'; id: number; segment: SegmentMeta | null }
  | { kind: 'newest-rows'; id: number }
  /** A job needs archived segments; `id` is the job's. */
  | { kind: 'fetch'; id: number; request: number; objects: ArchivedObject[] }
  /** A statement waits for an engine process; `turn` is the thread's number for it. */
  | { kind: 'process-wanted'; turn: number; namespace: string }
  /** It has its process no more, or wants none. */
  | { kind: 'process-left'; turn: number }
  /** A segment's file is not what was written. */
  | { kind: 'corrupt'; segment: number; cause: string }
  /** A segment's file was read whole ahead of a query; 0 bytes when it could not be. */
  | { kind: 'prefetched'; bytes: number }
  /** A statement of SQL whose plan would have read what is not its own. */
  | { kind: 'refused-plan'; namespace: string; reason: string }
  | { kind: 'usage'; id: number; usage: ThreadUsage }
  /** A slice of the warm-up, as of thread-warm-up.ts. */
  | { kind: 'warmed-up'; id: number; outcome: { jobs: number; ms: number; cause?: string; over?: true } }
  /** What the thread keeps of samples, when it has changed. */
  | { kind: 'samples-kept'; bytes: number; fileBytes: number }
  /** Segments whose pages were not understood, since the message before. */
  | { kind: 'unread-pages'; segments: number }
