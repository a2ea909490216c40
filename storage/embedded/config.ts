/** The [database] section of the embedded engine. */

import { availableParallelism } from 'node:os'
import { FILE_PATH } from 'svcdb'
import { SvcError } from 'svcdb/lib/errors'
import { type Static, Type } from 'svcdb/lib/schema'
import { admissionKeys } from '../common/limits.ts'
import type { FsyncPolicy } from '../common/log/log.ts'
import { Places } from '../common/places.ts'
import { retentionKeys } from '../common/retention.ts'
import { checkBudget, divide, LEAST_DUCKDB, LEAST_MEMORY, LEAST_THRESHOLD, MOST_OF_PART, queryThreadsOf, USUAL } from './budget.ts'
import type { CompactionLimits } from './compaction/plan.ts'
import { encryptionSchema } from './encryption/config.ts'
import type { SlabOptions } from './memtable/slabs.ts'
import { DEFAULT_LIMITS } from './sql-limits.ts'
import type { ThreadRole } from './threads/messages.ts'
import type { PressureLimits } from './write/pressure.ts'

const MIB = 1 << 20
/** What a timer of Node.js can wait. */
const LONGEST_TIMER_SECS = 2_147_483

export const configSchema = Type.Object({
  data_dir: Type.String({
    ...FILE_PATH,
    minLength: 1,
    default: './svc-data',
    description: 'Where the data lies; one server at a time',
  }),
  preset: Type.Union([Type.Literal('default'), Type.Literal('small')], {
    default: 'default',
    description: 'Defaults for the keys below; small is for edge devices: little memory, fsync every 5 s, so that a crash can lose 5 s of writes',
  }),
  max_memory: Type.Integer({
    default: 0,
    minimum: 0,
    maximum: 2 ** 44,
    description:
      "Bytes that memtables, the sample cache, queries and merges may take together, at least 268,435,456; 0 = a quarter of the machine's memory or of its control group's. The keys that are parts of it have their defaults, or less where the budget is small; sample_cache_size and per_query_memory_limit have a quarter of one that is written. A node has some 200 MiB beside it: programs, heaps, buffers",
  }),
  ...admissionKeys,
  ...retentionKeys,
  deleted_rows_rewrite_secs: Type.Integer({
    default: 600,
    minimum: 0,
    maximum: 31_536_000,
    description: 'How long deleted rows may stay in files, where no query sees them, before these are written again for that reason alone',
  }),
  wal_fsync_policy: Type.String({
    default: 'per_batch',
    pattern: '^(per_write|per_batch|periodic_[1-9][0-9]{0,5})$',
    description:
      'When a write is on disk: per_batch (one fsync for all that wait, before the answer), per_write (one each), periodic_<ms> (after the answer; a crash can lose that long)',
  }),
  wal_max_file_size: Type.Integer({ default: 32 * MIB, minimum: 65_536, maximum: 1 << 30, description: 'Bytes after which a new log file begins' }),
  wal_max_unflushed: Type.Integer({ default: 4, minimum: 1, maximum: 1000, description: 'Log files after which the memtable is flushed' }),
  memtable_flush_threshold: Type.Integer({
    default: USUAL.memtable_flush_threshold,
    minimum: LEAST_THRESHOLD,
    maximum: 2 ** 36,
    description:
      'Bytes of rows, 8 for each number, after which the memtable is flushed; 2 GiB of text, 1,073,741,824 rows of a table, or three quarters of max_memtable_memory in use flush it earlier',
  }),
  max_memtable_memory: Type.Integer({
    default: USUAL.max_memtable_memory,
    minimum: 1 << 20,
    maximum: 2 ** 38,
    description:
      'Bytes of all memtables, and of flushed ones that queries still read, above which writes answer 503 BACKPRESSURE. Under server.multi_tenancy rows of one namespace have at most three times what is left, alone three quarters. Queries that hold half of it are ended with the same code, those that began first before others',
  }),
  cdc_capacity: Type.Integer({
    default: 65_536,
    minimum: 16,
    maximum: 100_000_000,
    description:
      'Points, and other changes, that are held in memory for readers of the change stream that keep up, of at most 1 KiB each on average; the others read the log. Nothing is held while there is no reader',
  }),
  cdc_log_size: Type.Integer({
    default: 512 * MIB,
    minimum: 0,
    maximum: 2 ** 44,
    description:
      'Bytes of log files kept beyond their use for readers of the change stream that fall behind or come back, only while there are such readers or were within cdc_log_secs; a full disk takes them',
  }),
  cdc_log_secs: Type.Integer({ default: 3600, minimum: 0, maximum: LONGEST_TIMER_SECS, description: 'For how long, see cdc_log_size' }),
  max_new_definitions_per_write: Type.Integer({
    default: 12_000,
    minimum: 16,
    maximum: 10_000_000,
    description:
      'Measurements, fields and tables (one for each measurement of several fields) that one write may begin; above: 400. 12,000 take some 50 ms, in which nothing else is done',
  }),
  max_new_series_per_write: Type.Integer({
    default: 100_000,
    minimum: 16,
    maximum: 100_000_000,
    description: 'Series that one write may begin; above: 400. 100,000 take some 40 ms, in which nothing else is done',
  }),
  max_new_series_bytes_per_write: Type.Integer({
    default: 33_554_432,
    minimum: 1_048_576,
    maximum: 1_073_741_824,
    description:
      'Bytes of the tags of the series that one write may begin, each text as often as a series has it, as the log has them; above: 400. The default takes some 100 ms, in which nothing else is done',
  }),
  maintenance_interval_secs: Type.Integer({
    default: 30,
    minimum: 1,
    maximum: 86_400,
    description: 'How often compaction looks for work beside after each flush',
  }),
  compaction_fan_in: Type.Integer({ default: 4, minimum: 2, maximum: 64, description: 'Segments of one size that are merged into one' }),
  compaction_max_segment_rows: Type.Integer({
    default: 32_000_000,
    minimum: 1000,
    maximum: 2_000_000_000,
    description: 'Rows above which a segment is left as it is',
  }),
  compaction_max_backlog: Type.Integer({
    default: 64,
    minimum: 4,
    maximum: 100_000,
    description:
      'Segments of a table that wait for a merge from which on writes of its namespace, or of all where they share the table, answer 503 BACKPRESSURE until merging has caught up',
  }),
  maintenance_max_deaths: Type.Integer({
    default: 3,
    minimum: 1,
    maximum: 1000,
    description:
      'How often the maintenance thread may die within maintenance_death_window_secs before it is not started again and writes answer 503 OVERLOADED',
  }),
  maintenance_death_window_secs: Type.Integer({ default: 300, minimum: 1, maximum: 86_400, description: 'See maintenance_max_deaths' }),
  compression: Type.Union([Type.Literal('zstd'), Type.Literal('lz4'), Type.Literal('none')], { default: 'zstd', description: 'Compression of segments' }),
  zstd_level: Type.Integer({ default: 6, minimum: 1, maximum: 22, description: 'Effort of zstd' }),
  row_group_rows: Type.Integer({
    default: 32_768,
    minimum: 2048,
    maximum: 1_048_576,
    description: 'Rows of a row group in segments, of rows with large texts fewer (merge_memory_limit)',
  }),
  per_query_memory_limit: Type.Integer({
    default: USUAL.per_query_memory_limit,
    minimum: LEAST_DUCKDB,
    maximum: MOST_OF_PART,
    description: 'Bytes an engine thread may use for its queries, and an engine process for the one statement it runs (engine_processes)',
  }),
  merge_memory_limit: Type.Integer({
    default: USUAL.merge_memory_limit,
    minimum: LEAST_DUCKDB,
    maximum: 2 ** 40,
    description:
      'Bytes that flushes and merges may use; a merge goes through segments of any size in slices of an eighth of it, at most 32 MiB, and a row group has an eighth of it decoded. Those of measurements with very many fields may use 160 KiB a field, and those of a row that has no room by itself five times what it takes',
  }),
  engine_processes: Type.Integer({
    default: 0,
    minimum: 0,
    maximum: 256,
    description:
      'SQL statements whose memory or time the rows they read do not bound run in processes of their own, which end at a limit: this many at once, the others wait; 0 = one for each query thread, at least 2. Under server.multi_tenancy a namespace leaves one to the others, so have 2 at least',
  }),
  max_scratch_size: Type.Integer({
    default: 4096 * MIB,
    minimum: MIB,
    maximum: 2 ** 44,
    description:
      'Bytes of scratch space on disk that the statements of one query thread may use, and each statement in an engine process; as much beside that is for samples that a query thread keeps packed, within half of what is free on the volume',
  }),
  sql_max_text_bytes: Type.Integer({
    default: DEFAULT_LIMITS.textBytes,
    minimum: 1024,
    maximum: MIB,
    description: 'Bytes of an SQL statement; the parser takes about a thousand times as much memory for the longest of them',
  }),
  sql_max_depth: Type.Integer({
    default: DEFAULT_LIMITS.depth,
    minimum: 16,
    maximum: 1000,
    description: 'Levels of expressions, subqueries and set operations within each other in an SQL statement',
  }),
  sql_max_nodes: Type.Integer({
    default: DEFAULT_LIMITS.nodes,
    minimum: 100,
    maximum: 1_000_000,
    description:
      'Parts of an SQL statement (expressions, tables, queries), its common table expressions and the aliases of its columns written out wherever they are used, what CASE compares for each WHEN, and a window for each OVER; keys of all its grouping sets are 25 times as many at most, and a GROUP BY has a quarter as many keys at most',
  }),
  sample_cache_size: Type.Integer({
    default: USUAL.sample_cache_size,
    minimum: MIB,
    maximum: MOST_OF_PART,
    description: 'Bytes of samples that the query threads keep decoded between them for PromQL; a query that needs more reads the rest from the segments again',
  }),
  result_cache_size: Type.Integer({
    default: 16 * MIB,
    minimum: 0,
    maximum: MOST_OF_PART,
    description:
      'Bytes of results of PromQL and SQL queries that are kept for equal ones, each up to a sixteenth of it, for as long as nothing changes in the times that they have read; 0 = none. Range queries of PromQL with the same step go on from what an earlier one came to, as panels that follow the clock ask. A query is kept when it is asked for the second time, and a namespace that has a quarter makes way for others',
  }),
  engine_niceness: Type.Integer({
    default: 10,
    minimum: 0,
    maximum: 19,
    description:
      'How far engine threads step back behind ingest when processors are short: added to the niceness of the server (nice(1)), 19 at most; Linux only',
  }),
  field_encryption: Type.Optional(encryptionSchema),
  segment_cache_size: Type.Integer({
    default: 512 * MIB,
    minimum: MIB,
    maximum: 2 ** 44,
    description: 'Bytes of local copies of archived segments that lie in an object store; one query cannot read more than this of them',
  }),
  warm_up_ms: Type.Integer({
    default: 1000,
    minimum: 0,
    maximum: 600_000,
    description:
      'Milliseconds of processor time, in each query thread, for queries over made-up rows after a start, or after the first write, so that the first ones asked do not wait for code to be loaded and compiled: in slices, while no query runs, once writes rest or have gone on for half a minute; 0 = none, which saves some 100 MiB until queries are asked',
  }),
  query_threads: Type.Integer({ default: 0, minimum: 0, maximum: 256, description: 'Engine threads for queries; 0 = one fewer than processors, 1 to 4' }),
  max_concurrent_queries: Type.Integer({
    default: 64,
    minimum: 1,
    maximum: 65_536,
    description:
      'Queries, exports and the like under way at once, those that wait for a slow client among them; further ones wait, within their time limit. Under multi_tenancy one namespace has at most three quarters',
  }),
  query_parallelism: Type.Integer({ default: 0, minimum: 0, maximum: 256, description: 'Processors one query may use; 0 = all' }),
  segment_verification: Type.Union([Type.Literal('first_use'), Type.Literal('background'), Type.Literal('off')], {
    default: 'first_use',
    description:
      "When a segment's checksum is compared after a start: first_use (before the first query that reads it, and in the background), background (queries do not wait) or off (never)",
  }),
  scrub_interval_secs: Type.Integer({
    default: 86_400,
    minimum: 0,
    maximum: LONGEST_TIMER_SECS,
    description: 'How often all segments are read and compared with their checksums; 0 = only once after each start',
  }),
  scrub_bytes_per_sec: Type.Integer({
    default: 64 * MIB,
    minimum: 65_536,
    maximum: 2 ** 36,
    description: 'How fast segments are read for that',
  }),
  damaged_segments: Type.Union([Type.Literal('refuse'), Type.Literal('set_aside')], {
    default: 'refuse',
    description:
      'What a start does about a segment that is missing or corrupt: refuse to start, or set_aside (move it to damaged/ in the data directory and go on without its points)',
  }),
})

export type DatabaseConfig = Static<typeof configSchema>

/** What `preset = "small"` gives keys that are not written. */
const SMALL: Partial<DatabaseConfig> = {
  wal_fsync_policy: 'periodic_5000',
  wal_max_file_size: 8 * MIB,
  cdc_log_size: 32 * MIB,
  memtable_flush_threshold: 8 * MIB,
  max_memtable_memory: 24 * MIB,
  per_query_memory_limit: LEAST_DUCKDB,
  merge_memory_limit: LEAST_DUCKDB,
  sample_cache_size: 16 * MIB,
  result_cache_size: MIB,
  query_threads: 1,
  engine_processes: 1,
  query_parallelism: 1,
  row_group_rows: 16_384,
}

/** Values of keys that are not written: the preset's, or the budget's where they are not the defaults; what is written stands, also where it equals these. */
export function presets(given: Readonly<Record<string, unknown>>): Record<string, unknown> {
  if (given.preset === 'small') return SMALL
  return Object.fromEntries(Object.entries(divide(given)).filter(([key, value]) => value !== USUAL[key as keyof typeof USUAL]))
}

/** @param given the [database] section: what is absent takes the preset's value, then the default. @throws CONFIG_ERROR for values that do not fit together. */
export function resolveConfig(given: Record<string, unknown>): DatabaseConfig {
  const properties = configSchema.properties as unknown as Record<string, { default?: unknown }>
  const config: Record<string, unknown> = {}
  const preset = presets(given)
  for (const [key, schema] of Object.entries(properties)) config[key] = given[key] ?? preset[key] ?? schema.default
  const resolved = config as DatabaseConfig
  if (resolved.max_memtable_memory < resolved.memtable_flush_threshold) {
    throw new SvcError(
      'CONFIG_ERROR',
      `cannot use [database] max_memtable_memory = ${resolved.max_memtable_memory}: it is below memtable_flush_threshold = ${resolved.memtable_flush_threshold}; raise the first or lower the second`,
    )
  }
  if (resolved.max_memory > 0 && resolved.max_memory < LEAST_MEMORY) {
    throw new SvcError('CONFIG_ERROR', `cannot use [database] max_memory = ${resolved.max_memory}: ${LEAST_MEMORY} is the least; raise it, or leave it out`)
  }
  checkBudget(resolved)
  return resolved
}

/** A full memtable's memory, and that of one which is being flushed, are kept for the next ones. */
export const slabOptions = ({ memtable_flush_threshold, max_memtable_memory }: DatabaseConfig): SlabOptions => ({
  memtableBytes: memtable_flush_threshold,
  maxMemtableMemory: max_memtable_memory,
  keptBytes: 2 * memtable_flush_threshold,
})

/** @param leaves segments that no merge takes. */
export const pressureLimits = (config: DatabaseConfig, leaves: CompactionLimits['leaves']): PressureLimits => ({
  maxMemtableMemory: config.max_memtable_memory,
  maxBacklog: config.compaction_max_backlog,
  compaction: { fanIn: config.compaction_fan_in, maxRows: config.compaction_max_segment_rows, leaves },
  maxDeaths: config.maintenance_max_deaths,
  deathWindowMs: config.maintenance_death_window_secs * 1000,
})

export function fsyncPolicy(text: string): FsyncPolicy {
  if (text === 'per_write' || text === 'per_batch') return { kind: text }
  return { kind: 'periodic', ms: Number(text.slice('periodic_'.length)) }
}

/** For `svc check` and the log of a start. */
export function durabilityText(policy: FsyncPolicy): string {
  if (policy.kind !== 'periodic') return `a write is on disk before its answer (${policy.kind})`
  return `a write is answered before it is on disk: a crash of the machine can lose the last ${policy.ms} ms (periodic_${policy.ms})`
}

export function explain(config: Record<string, unknown>): string[] {
  return [`durability: ${durabilityText(fsyncPolicy(String(config.wal_fsync_policy)))}`]
}

export const queryThreads = (config: DatabaseConfig): number => queryThreadsOf(config.query_threads)
const queryParallelism = (config: DatabaseConfig): number => config.query_parallelism || availableParallelism()

/** Statements of all query threads that may have an engine process. */
const engineProcesses = (config: DatabaseConfig): number => config.engine_processes || Math.max(2, queryThreads(config))
/** Engine processes that one thread keeps for the next statements. */
const processesOfThread = (config: DatabaseConfig): number => Math.max(1, Math.round(engineProcesses(config) / queryThreads(config)))

/** Where namespaces are kept apart, one of them leaves a process to the others. Jobs that nobody waits for have as many as a query thread. */
export function processPlaces(config: DatabaseConfig): Record<ThreadRole, Places> {
  const places = (most: number): Places => new Places(most, most - 1)
  return { query: places(engineProcesses(config)), background: places(processesOfThread(config)), maintenance: places(0) }
}

/** Of libuv's pool (kernel/main.js), where each statement at work in DuckDB keeps one; the log and files need some, and so do the few jobs that nobody waits for. */
const poolThreads = Number(process.env.UV_THREADPOOL_SIZE) || 4

/** What an engine thread knows of the configuration. */
export function workerConfig(config: DatabaseConfig, role: ThreadRole) {
  const limits = {
    maxScratchBytes: config.max_scratch_size,
    engineProcesses: processesOfThread(config),
    statementsAtOnce: Math.max(1, Math.floor(role === 'background' ? poolThreads / 8 : poolThreads / 2 / queryThreads(config))),
    sqlLimits: { textBytes: config.sql_max_text_bytes, depth: config.sql_max_depth, nodes: config.sql_max_nodes },
  }
  return {
    niceness: config.engine_niceness,
    duckdbThreads: role === 'maintenance' ? 1 : queryParallelism(config),
    memoryLimitBytes: role === 'maintenance' ? config.merge_memory_limit : config.per_query_memory_limit,
    // What a background job reads is not asked for again.
    sampleCacheBytes: role === 'background' ? 0 : Math.floor(config.sample_cache_size / queryThreads(config)),
    rowGroupRows: config.row_group_rows,
    compression: config.compression,
    zstdLevel: config.zstd_level,
    ...(role === 'maintenance' ? { givesBack: true as const } : limits),
  }
}
