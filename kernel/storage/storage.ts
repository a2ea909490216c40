/**
 * The storage interface: the only way to data. Nothing in here may assume that the data is on this machine.
 *
 * Points go in as columns (`batch.ts`), come out as columns (`SeriesChunk`, `SqlChunk`). Code that reads a lot runs beside the
 * data: `run` loads a plugin's module next to the engine and hands it a `Reader`, so that a heavy read never holds up ingest.
 * Times are nanoseconds since the Unix epoch, as bigint. Ranges are half open: [start, end).
 */
import type {
  AggregateRequest,
  AggregateSet,
  FieldInfo,
  Matcher,
  SampleRequest,
  SampleSet,
  SeriesChunk,
  SeriesResolver,
  SeriesSet,
  WriteBatch,
} from '../lib/columns/index.ts'
import type { SvcError } from '../lib/errors/index.ts'
import type { SqlChunk, SqlColumn } from '../lib/sql-result/index.ts'
import type { WarmUp } from '../lib/warm-up/index.ts'
import type { Connector } from '../services/connectors.ts'
import type { ChangeCursor, ChangeRequest } from './changes.ts'
import type { JobOptions, RunningJob } from './jobs.ts'
import type { Scan, ScanPlan, ScanRequest } from './scan.ts'
import type { DeclaredSqlFunction } from './sql-functions.ts'
import type { StateStore } from './state.ts'
import type { StorageTopology } from './topology.ts'

export type { ColumnChunk, FieldInfo, FieldType, Matcher, MatcherOp, MeasurementRef, SeriesChunk, SeriesResolver } from '../lib/columns/index.ts'
export type { SqlChunk, SqlColumn, SqlVector } from '../lib/sql-result/index.ts'

/** A measurement with its tags and fields. */
export interface MeasurementInfo {
  name: string
  /** Tag keys in use, sorted. */
  tags: string[]
  /** Fields in the order of their creation. */
  fields: FieldInfo[]
}

/** What an engine can do. A plugin names what it cannot do without; an engine that lacks it is refused at start. What an engine lacks and is asked for all the same throws METHOD_NOT_ALLOWED. `shared_state`: other processes see the same state. */
export type Capability =
  | 'points'
  | 'sql'
  | 'sql_functions'
  | 'state'
  | 'shared_state'
  | 'jobs'
  | 'delete'
  | 'backup'
  | 'export'
  | 'archive'
  | 'changes'
  | (string & {})

/** What admission takes besides what every write may have. */
export interface WriteOptions {
  /** Admit points older than the live window. */
  backfill?: boolean
  /**
   * Admit NaN and infinities in float64 fields, whose bits are kept (Column.setPair); without it rows that have one are refused. Readers see them
   * only where they ask for samples: to others the field has no value there.
   */
  nonFinite?: boolean
}

/** A row that admission refused. */
export interface Rejection {
  code: string
  message: string
  /** The position its decoder gave it (line number, array index). */
  position: number
}

/** Rows of one write, counted. `written` are durable and visible. */
export interface WriteResult {
  written: number
  rejected: number
  /** The first refusals in order of arrival, at most 16. */
  rejections: Rejection[]
}

/** Which part of the listing of measurements is wanted. */
export interface MeasurementsPageRequest {
  namespace: string
  /** Measurements before it. Default 0. */
  offset?: number
  /** Measurements at most. */
  limit: number
}

/** A part of the listing of measurements. */
export interface MeasurementsPage {
  /** By name. */
  items: MeasurementInfo[]
  /** How many there are. */
  total: number
}

/** Which points of a measurement are deleted: of all series that match, or of all. */
export interface DeleteRequest {
  namespace: string
  measurement: string
  matchers?: Matcher[]
  start?: bigint
  end?: bigint
}

/** What a delete met. It counts series, not points. */
export interface DeleteResult {
  /** Series that matched. */
  series: number
  /** Segments (see `ScanPlan`) with rows of the range that are out of service: the delete has to be sent again once they are repaired. */
  segmentsSkipped: number
}

/** How a measurement is dropped. */
export interface DropOptions {
  /** Not to be undone, whatever `soft_delete_ttl_secs` says. */
  final?: boolean
}

/**
 * Oldest time of a measurement, in nanoseconds, whose raw data somebody still needs: retention keeps what is at or after it. Absent = none.
 * @param cutoff nanoseconds: retention is about to take what is before it, where nobody holds it. Absent where nothing is to go for good.
 */
export type RetentionHold = (namespace: string, measurement: string, cutoff?: bigint) => bigint | undefined

/** What a backup is. */
export interface BackupManifest {
  version: number
  /** Milliseconds since the Unix epoch. */
  createdAt: number
  /** Files of the backup, one that lists them excepted. */
  files: number
  /** Of these files. */
  bytes: number
  /** The engine's own figures, by the names under which callers get them. */
  statistics: Record<string, number>
}

/** Backups as directories of a file system that the engine reaches. Paths are absolute. */
export interface BackupDirectories {
  /** The path without links. @throws Error for a link to nothing, which could come to lead anywhere. */
  resolve(path: string): Promise<string>
  /**
   * Directories right below one; none when it is not there. Those that are not `finished` are no backups, or what a crash has left of one; with a `problem`,
   * what they are could not be found out.
   */
  list(directory: string): Promise<{ name: string; finished: boolean; problem?: Error }[]>
  /** What a finished one says of itself; its files are not looked at. @throws INVALID_REQUEST where that cannot be read. */
  manifest?(directory: string): Promise<BackupManifest>
  /** Removes one with all that is in it; cut short, it is not finished. @throws CONFLICT for one in use. */
  remove(directory: string): Promise<void>
}

/** Copies of the whole database. Paths are absolute and have been checked by the caller; an engine elsewhere takes them for names where it keeps backups. */
export interface BackupService {
  /** Where backups go when the node's configuration names no other place; absolute. */
  readonly root: string
  /** What messages call the place that backups are kept in, where that is not this node's file system. */
  readonly name?: string
  /** Absent where backups can be neither listed nor removed: nobody but whoever keeps them clears old ones away. */
  readonly directories?: BackupDirectories
  /**
   * A consistent copy, made while writes go on; one in the directory is replaced. @throws INVALID_REQUEST for a directory that overlaps the database, CONFLICT
   * while another is made, and for one in the directory that the engine cannot replace.
   */
  create(directory: string): Promise<BackupManifest>
  /** @throws INVALID_REQUEST naming what is missing or wrong. Changes nothing. */
  verify(directory: string): Promise<BackupManifest>
  /** Makes a data directory out of a backup, or what the engine has instead. @throws INVALID_REQUEST when the target exists or the backup is not whole. */
  restore(directory: string, target: string): Promise<BackupManifest>
}

/**
 * Where an archive keeps its data: whole objects under keys of parts joined by "/". A folder, a bucket; a plugin brings it (`ArchiveService.attach`).
 * What cannot be reached throws OVERLOADED with the cause.
 */
export interface ObjectStore {
  /** What messages call it. */
  readonly name: string
  /** The objects are files below this directory, named by their keys, and are read in place. */
  readonly directory?: string
  /** Stores a file's contents under a key, in place of what is there; durable when it resolves. */
  put(key: string, path: string): Promise<void>
  /** As `put`, where there is no object of this key. @returns whether it was stored. Absent where the store cannot tell. */
  create?(key: string, path: string): Promise<boolean>
  /**
   * Writes an object's bytes to a new file.
   * @param maxBytes those it can have: of one that goes on no more is taken, since the caller counts on the space that it has set aside. @throws NOT_FOUND,
   * DATABASE_ERROR for an object of more bytes.
   */
  get(key: string, path: string, maxBytes?: number): Promise<void>
  /** Bytes of an object; undefined when there is none. */
  size(key: string): Promise<number | undefined>
  /** Nothing happens when there is none. */
  remove(key: string): Promise<void>
}

/** What one run of the archive may move. */
export interface ArchiveOptions {
  /** Age from which on data is moved, by whole UTC days. */
  coldAfterSecs: number
  /** Objects that one run writes at most. */
  maxObjects: number
}

/** What one run of the archive has moved, and what it left. */
export interface ArchiveResult {
  objects: number
  rows: number
  /** Groups (tables with days that are due) left alone because a `RetentionHold` still needs them, or because newer data reaches into their days. */
  awaitingRollup: number
  incomplete: number
  /** What went wrong first. What is counted was done. */
  failure?: Error
}

/** Moves old data out of the database into an object store, where queries still find it. */
export interface ArchiveService {
  /**
   * Call once, in the start phase: queries that need archived data fail until then. A store belongs to the database that archived to it first; another
   * one reads it only.
   * @param takeOverFrom id of the database whose store it is, if this one goes on in its place.
   */
  attach(store: ObjectStore, takeOverFrom?: string): void
  /** Moves what is due, oldest first; what fails is tried again by the next run. */
  run(options: ArchiveOptions): Promise<ArchiveResult>
}

/** Which rows are exported, and where to. Times in nanoseconds since the Unix epoch, start included, end not; absent = unbounded. */
export interface ExportRequest {
  namespace: string
  measurement: string
  start?: bigint
  end?: bigint
  /** The file to write; a relative one lies in the engine's own place for exports. */
  path: string
  /** Size after which no row group is added; 0 = none. */
  maxBytes: number
}

/** The file that was written. `bytes` is its size. */
export interface ExportResult {
  /** Absolute. */
  path: string
  rows: number
  bytes: number
  /** `maxBytes` has cut it. */
  truncated: boolean
}

/** A value for a parameter. Times are nanoseconds since the Unix epoch, decimals unscaled. */
export type SqlParameter = null | boolean | number | bigint | string | Uint8Array | { timestamp: bigint } | { decimal: bigint; scale: number }

/** One statement of one namespace, with the values of its parameters. */
export interface SqlRequest {
  namespace: string
  query: string
  /**
   * Values of the query's parameters: in order (`?`, `$1`), or by name (`$name`), where one that the query does not have is passed over. A query that has some
   * can be opened without them, to learn its columns, and not be run.
   */
  parameters?: readonly SqlParameter[] | ReadonlyMap<string, SqlParameter>
  /** Text comes as bytes or as numbers in a dictionary (`SqlVector`), without a string for each value. */
  textBytes?: boolean
  /** Rows that are read at most: an engine that has to work out an answer before it hands rows out makes no more. Without it all may be. */
  limit?: number
}

/** Nothing runs before the first row is asked for. */
export interface SqlCursor extends AsyncIterable<SqlChunk> {
  columns: SqlColumn[]
  /** Types of the query's parameters by name, as `SqlColumn.type`; `Null` = any. */
  parameters: readonly string[]
}

/** A measurement and its fields, without looking at its series. */
export interface MeasurementFields {
  readonly name: string
  readonly fields: readonly FieldInfo[]
}

/** Read access beside the data, over one consistent snapshot. */
export interface Reader {
  /** What questions of one thread may hold of the rows that they were handed, together, in bytes: a share of what the engine may take. Absent: it has none. */
  readonly memoryLimit?: number
  /** @throws NOT_FOUND for an unknown measurement. Series come ordered by number, with `earliest` in each time through them. */
  scan(request: ScanRequest): Scan
  /** The measurements of a namespace by name: the same array until one of them changes, so that what is derived from it can be kept. */
  schema(namespace: string): Promise<readonly MeasurementFields[]>
  /** One field's samples, for evaluators that go through series in columns. @throws NOT_FOUND for an unknown measurement or field. */
  samples(request: SampleRequest): Promise<SampleSet>
  /**
   * Values of windows by groups of series, as an evaluator would compute them from `samples`; floats may differ from that in their last digits. Undefined = declined,
   * for whatever reason: ask for the samples. An engine that never does better than that lacks it. @throws NOT_FOUND as `samples`.
   */
  aggregate?(request: AggregateRequest): Promise<AggregateSet | undefined>
  /** The series that match and have a value of the field in the range, ascending. */
  activeSeries(request: SampleRequest): Promise<SeriesSet>
  /** Read-only SQL, gated; @throws SQL_ERROR with a reason the caller can act on. */
  sql(request: SqlRequest): Promise<SqlCursor>
  /** @param only that one, if there is one: of many, all take their time. */
  measurements(namespace: string, only?: string): Promise<MeasurementInfo[]>
}

/** What admission takes at a moment, in nanoseconds. */
export interface AdmissionBounds {
  /** Live points of the namespace before it are refused; undefined = none is, as while the namespace is empty. */
  liveFrom?: bigint
  /** Points of the measurement before it are refused, backfill or not, for retention would not keep them; undefined = none is. */
  keptFrom?: bigint
  /**
   * Retention has taken points of the measurement up to a time before it, or may have, under this configuration or an earlier one, also before a restart; undefined =
   * none. An engine without the capability `changes` may lack it.
   */
  takenBefore?: bigint
  /** The newest time that a point may have. */
  newest: bigint
}

/** Whether writes are taken. */
export interface StorageStatus {
  accepting: boolean
  /** Why writes are refused, when they are. */
  reason?: string
}

/** What a namespace holds. */
export interface NamespaceUsage {
  /** Those of writes under way, and of drops that can be undone, included. */
  series: number
  /** Those of writes under way included. */
  measurements: number
  /**
   * What its points take where they are stored, once: a measurement's own files exactly, of files that hold several measurements by the share of rows; and
   * what rows in memory are likely to take there. Neither logs nor what is archived count, nor what is dropped.
   */
  bytes: number
}

/** Bounds of one namespace; 0 = none. */
export interface NamespaceBounds {
  maxSeries: number
  maxMeasurements: number
}

/**
 * Says which namespaces are written to, and how much they may hold. Asked in the middle of a write: nothing in it may wait. An engine elsewhere asks before it
 * sends a write, and sends the bounds along; a listing that begins after a refusal shows what was let through before.
 */
export interface NamespaceGuard {
  /** Asked for each write, declaration and restore, at the last moment before it takes effect: why there is to be none. */
  refusal(namespace: string): SvcError | undefined
  /** Asked when a series or a measurement would come into being; undefined = no bounds. */
  bounds(namespace: string): NamespaceBounds | undefined
  /** What a row is refused with that would exceed them. */
  exceeded(namespace: string, kind: 'series' | 'measurements'): SvcError
}

/** The storage as plugins use it (`Svc.storage`). What the engine lacks (`capabilities`) throws METHOD_NOT_ALLOWED. */
export interface Storage {
  readonly capabilities: ReadonlySet<Capability>
  readonly resolver: SeriesResolver

  /** An empty batch from the pool. Hand it to `write`, or give it back with `recycle`. */
  batch(namespace: string): WriteBatch
  recycle(batch: WriteBatch): void
  /**
   * Admits, makes durable, applies. The batch belongs to the storage from the call on and may not be touched again.
   * Resolves when what was admitted is durable and visible; rows that admission refused are counted, not thrown. Writes, deletes, drops and restores take
   * effect in the order of the calls.
   * @throws SvcError BACKPRESSURE, STORAGE_FULL, OVERLOADED, DATABASE_CLOSED: nothing of the batch was or will be stored.
   */
  write(batch: WriteBatch, options?: WriteOptions): Promise<WriteResult>

  /** Declares a field; the same type again changes nothing. @throws SCHEMA_ERROR for another type, INVALID_POINT for a bad name. */
  declareField(namespace: string, measurement: string, field: FieldInfo): Promise<MeasurementInfo>
  /** By name. What was admitted before the call is seen, whoever wrote it. @param only that one, if there is one: of many, all take their time. */
  measurements(namespace: string, only?: string): Promise<MeasurementInfo[]>
  /** So many of what `measurements` tells, for listings: what it costs follows from the page. */
  measurementsPage(request: MeasurementsPageRequest): Promise<MeasurementsPage>

  /**
   * Deletes what was written before the call; resolves when that is durable. Writing the same times again afterwards works.
   * @throws NOT_FOUND for an unknown measurement, STORAGE_FULL, OVERLOADED, DATABASE_CLOSED: nothing was deleted.
   */
  delete(request: DeleteRequest): Promise<DeleteResult>
  /**
   * Takes a measurement away with all its points; within `soft_delete_ttl_secs` it can be had back. A write to its name starts a new one.
   * @throws NOT_FOUND for an unknown measurement.
   */
  drop(namespace: string, measurement: string, options?: DropOptions): Promise<void>
  /** Undoes a drop. @throws NOT_FOUND saying why there is nothing to undo, CONFLICT when the name is in use again. */
  restore(namespace: string, measurement: string): Promise<void>
  /** The times that a write may carry, writes on their way included. What is before both bounds can change by backfills and deletes only. */
  admission(namespace: string, measurement: string): Promise<AdmissionBounds>
  /** Keeps retention away from data that is still needed, until the returned function is called. */
  holdRetention(hold: RetentionHold): () => void
  /** With the capability `backup`. */
  readonly backup?: BackupService
  /** With the capability `archive`. */
  readonly archive?: ArchiveService
  /** Writes a measurement to a self-contained Parquet file; with the capability `export`. @throws NOT_FOUND, INVALID_REQUEST, CONFLICT for a file that exists, STORAGE_FULL. */
  export?(request: ExportRequest, options?: JobOptions): Promise<ExportResult>

  scan(request: ScanRequest, options?: JobOptions): AsyncIterable<SeriesChunk>
  explain(request: ScanRequest): Promise<ScanPlan>
  /** Loads `module` beside the engine and runs its default export (see `Job`). */
  run<R>(module: URL, args: unknown, options?: JobOptions): RunningJob<R>
  /** A namespace is gone: its jobs fail with NOT_FOUND, those that wait and those that run, since another may have the name next. An engine without the capability `jobs` lacks it. */
  endJobs?(namespace: string): void
  /**
   * Has jobs run in the background over made-up rows (`WARM_UP_ROWS`), beside the engine, when it has little else to do. What they emit and return goes nowhere, and
   * nothing of them is counted or seen. An engine that has nothing to warm up lacks it.
   */
  warmUp?(jobs: WarmUp): void

  /** Namespaces with measurements, sorted. */
  namespaces(): Promise<string[]>
  usage(namespace: string): Promise<NamespaceUsage>
  /** One guard for all namespaces, in place of the one before. */
  guard(guard: NamespaceGuard): void

  /** Reads changes as they take effect, or from a place on. Costs next to nothing while there is no cursor. @throws INVALID_REQUEST for a place that is none. */
  changes(request?: ChangeRequest): ChangeCursor
  /**
   * A namespace is gone, its measurements have been dropped for good: what was written and deleted in it is not told any more, not after a restart either, since another may have
   * the name next. An engine without the capability `changes` lacks it.
   */
  forgetChanges?(namespace: string): void
  state(owner: string): StateStore
  /** Owners that have something in the engine's own state store, in order. Absent where nothing outlives the process. */
  stateOwners?(): Promise<string[]>
  status(): StorageStatus
  /** Links that the engine has itself, such as to the nodes it sends points to, as connectors are shown; an engine without any lacks it. */
  connectors?(): readonly Connector[]
  /** Shards and replicas; an engine that has none lacks it. @throws OVERLOADED when they cannot be asked. */
  topology?(): Promise<StorageTopology>
  /** Brings what was written before the call to where it stays, so that a restart has nothing to do for it; nothing happens in an engine that has no such step. */
  flush(): Promise<void>
}

/** What an engine's constructor is given. */
export interface StorageContext {
  /** The resolved [database] section. */
  config: Record<string, unknown>
  log: { debug(o: object, m?: string): void; info(o: object, m?: string): void; warn(o: object, m?: string): void; error(o: object, m?: string): void }
  metrics: import('../metrics.ts').Metrics
  /** SQL functions of the selected plugins; none for an engine without the capability `sql_functions`. */
  sqlFunctions?: readonly DeclaredSqlFunction[]
  /** Wall clock, milliseconds since the Unix epoch. */
  now(): number
  /** For work of the engine's own, such as a flush; what it does for a caller is below the current span (`svcdb/lib/trace`). */
  tracing?: Pick<import('../tracing.ts').Tracing, 'operation'>
}

/** An engine as the lifecycle sees it. `close` is safe twice and after a failed `open`. */
export interface StorageEngine extends Storage {
  open(): Promise<void>
  close(): Promise<void>
}
