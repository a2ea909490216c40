/**
 * DuckDB as the engine threads use it: one instance a thread, opened by the first statement (instance.ts), one connection a statement, rows handed in through one
 * table function.
 *
 * Invariants: a connection runs one statement at a time (concurrent ones crash the process); a thread's JavaScript must never wait
 * synchronously for DuckDB, which calls back into it; only the data directory's segments and scratch space can be reached.
 */

import { mkdirSync } from 'node:fs'
import type { DuckDBConnection, DuckDBInstance } from '@duckdb/node-api'
import type bindings from '@duckdb/node-bindings'
import type { FieldType } from 'svcdb'
import { SvcError } from 'svcdb/lib/errors'
import { Places } from '../../common/places.ts'
import { EncryptedColumns } from '../encryption/columns.ts'
import { KeyRing } from '../encryption/keys.ts'
import { paths } from '../paths.ts'
import { MASK_FUNCTION, type MaskedRows } from '../read/mask-sql.ts'
import type { WorkerConfig } from '../threads/messages.ts'
import { ThreadLife, threadLife } from '../threads/thread-life.ts'
import { MemoryTurns } from './memory-turns.ts'
import { duckdb } from './native.ts'
import { raised } from './raised.ts'
import { StatementPlace } from './statement-place.ts'
import { StatementRoom } from './statement-room.ts'
import { unreadableFile } from './unreadable-file.ts'

/** What a table function call scans. */
export interface RowSource {
  columns: { name: string; type: bindings.LogicalType }[]
  rows: number
  /** Blocks may go to several DuckDB threads, and so out of order; they are still made one at a time. */
  unordered?: boolean
  /** @param projected the columns wanted, as indexes into `columns`. */
  open(projected: number[]): RowStream
}

export interface RowStream {
  /** Fills the chunk's vectors and returns the number of rows, at most 2048; 0 ends the scan. */
  next(vectors: bindings.Vector[]): number
}

const KEPT_CONNECTIONS = 8
/** Of what statements may take. */
const SORT_SHARE = 1 / 8
/** Of a column that is read, sorted and written, a thousand rows at a time (measured: 80 to 130 kB). */
const COLUMN_BYTES = 160 << 10
/** Of a row that is written: its texts as they come, the pages that they are encoded to, and copies of these (measured: four). */
const ROW_COPIES = 5
/** What comes after a source is worth this many threads at most: one thread fills the blocks. */
const UNORDERED_THREADS = 4
const INTERRUPT_EVERY_MS = 20
/**
 * What a streamed result is made ahead of its reader. DuckDB does not count texts outside its vectors: at its own 1 MB, a statement with texts of
 * 2 kB that nobody reads holds 120 MB. At this it is as fast (measured with 20 million rows of three numbers).
 */
const STREAM_AHEAD = '128KB'
/** Every plan is shown: the one before optimization says what a statement reads (sql/plan-guard.ts). */
export const CONNECTION_SETTINGS = [`SET streaming_buffer_size = '${STREAM_AHEAD}'`, "SET explain_output = 'all'"]
export const SOURCE_FUNCTION = 'svc_source'
/** DuckDB gives ENOSPC and EDQUOT as text only. */
const FULL_DISK = /No space left on device|Disk quota exceeded/i

export class Duck {
  readonly encrypted: EncryptedColumns
  /** Where archived segments are read, by key. */
  readonly archiveDirectory: string | undefined
  private readonly config: WorkerConfig
  private readonly dataDir: string
  private readonly sources = new Map<string, RowSource>()
  private readonly masks = new Map<number, MaskedRows>()
  private readonly idle: DuckDBConnection[] = []
  private readonly extensions = new Set<unknown>()
  private readonly places: Places
  private readonly planning: Places
  private readonly room: StatementRoom
  private readonly retiring = new Set<Promise<void>>()
  /** Statements of `run`. */
  private readonly running = new Set<Promise<unknown>>()
  /** Of flushes and merges. */
  readonly turns = new MemoryTurns(isOutOfMemory)
  /** Bytes that flushes and merges under way need for their columns and rows, beyond the limit. */
  private readonly needs: number[] = []
  private nextSource = 0
  private readonly life: Int32Array
  /** Those that statements have, until they are at rest again. */
  private readonly used = new Set<DuckDBConnection>()
  /** Why no statement begins any more. */
  private ended: SvcError | undefined
  private ending: NodeJS.Timeout | undefined
  private closed = false
  /** Of the first statement on. */
  private opening: Promise<DuckDBInstance> | undefined
  private instance: DuckDBInstance | undefined

  /** It costs nothing until the first statement, which loads the library and opens an instance. @param life of the thread: whether it may be ended from outside. */
  constructor(config: WorkerConfig, dataDir: string, life: Int32Array = threadLife()) {
    this.config = config
    this.dataDir = dataDir
    this.life = life
    this.archiveDirectory = config.archiveDirectory
    const { statementsAtOnce: most = Number.MAX_SAFE_INTEGER } = config
    this.places = new Places(most, Math.floor(most / 4))
    this.planning = new Places(most, Math.floor(most / 4))
    this.room = new StatementRoom(config.memoryLimitBytes, () => this.memory())
    this.encrypted = new EncryptedColumns(new KeyRing(config.encryption), dataDir, config.encryption?.cacheBytes)
    mkdirSync(paths(dataDir).segments, { recursive: true })
    mkdirSync(config.tempDir, { recursive: true })
  }

  private async open(): Promise<DuckDBInstance> {
    const { openInstance } = await import('./instance.ts')
    const { config, dataDir, sources, masks, encrypted } = this
    const { instance, connection } = await openInstance(config, dataDir, { sources, masks, encrypted })
    this.instance = instance
    this.idle.push(connection)
    return instance
  }

  /** Makes rows scannable under the SQL text returned; call `removeSource` with the same text once the statement is over. */
  addSource(source: RowSource): string {
    const token = String(this.nextSource++)
    this.sources.set(token, source)
    return `${SOURCE_FUNCTION}('${token}')`
  }

  /** A condition that holds for masked rows; to be removed as a source is. @param columns series and time. */
  addMask(rows: MaskedRows, columns: readonly [string, string]): string {
    const token = this.nextSource++
    this.masks.set(token, rows)
    return `${MASK_FUNCTION}(${token}, ${columns.join(', ')})`
  }

  removeSource(call: string): void {
    if (call.startsWith(MASK_FUNCTION)) {
      this.masks.delete(Number.parseInt(call.slice(MASK_FUNCTION.length + 1), 10))
      return
    }
    this.sources.delete(call.slice(SOURCE_FUNCTION.length + 2, -2))
  }

  /** Registers functions, once for the instance. */
  extend(register: (connection: DuckDBConnection) => void, connection: DuckDBConnection): void {
    if (this.extensions.has(register)) return
    this.extensions.add(register)
    register(connection)
  }

  async connect(): Promise<DuckDBConnection> {
    if (this.ended !== undefined) throw this.ended
    Atomics.add(this.life, ThreadLife.CONNECTIONS, 1)
    try {
      const connection = await this.connection()
      this.used.add(connection)
      return connection
    } catch (error) {
      Atomics.sub(this.life, ThreadLife.CONNECTIONS, 1)
      throw error
    }
  }

  private async connection(): Promise<DuckDBConnection> {
    if (this.instance === undefined) {
      this.opening ??= this.open()
      // An instance that could not be opened is opened anew by the next statement.
      await this.opening.catch((error) => {
        this.opening = undefined
        throw error
      })
    }
    const idle = this.idle.pop()
    if (idle !== undefined) return idle
    const connection = await (this.instance as DuckDBInstance).connect()
    for (const statement of CONNECTION_SETTINGS) await connection.run(statement)
    return connection
  }

  /** For a statement's calls that may take long, those of flushes and merges aside. @param signal of its job, whose end is to be told (`jobEnded`). */
  place(signal: AbortSignal | undefined): StatementPlace {
    return new StatementPlace(this.places, this.planning, this.room, signal)
  }

  /** Its memory is there for others. Safe twice. */
  jobEnded(signal: AbortSignal | undefined): void {
    if (signal !== undefined) this.room.end(signal)
  }

  /** Takes a connection back. One whose statement did not end by itself is closed instead of reused. */
  release(connection: DuckDBConnection, reusable: boolean): void {
    if (reusable && !this.closed && this.idle.length < KEPT_CONNECTIONS) {
      this.idle.push(connection)
      this.rests(connection)
    } else this.retire(connection)
  }

  private rests(connection: DuckDBConnection): void {
    if (this.used.delete(connection)) Atomics.sub(this.life, ThreadLife.CONNECTIONS, 1)
  }

  /** No statement begins any more, and those that run are interrupted until they have ended. @param reason what is said to whoever asks for one. */
  end(reason: SvcError): void {
    if (this.ended !== undefined) return
    this.ended = reason
    const interrupt = (): void => {
      for (const connection of this.used) connection.interrupt()
    }
    interrupt()
    this.ending = setInterval(interrupt, INTERRUPT_EVERY_MS)
  }

  /** Whether a connection is in use: the thread must not end now. */
  get isUsed(): boolean {
    return Atomics.load(this.life, ThreadLife.CONNECTIONS) > 0
  }

  /** Resolves when the statements of `run`, and those that were left half done, have ended: a process that ends before them is aborted. */
  async settled(): Promise<void> {
    await this.opening?.catch(() => {})
    while (this.running.size + this.retiring.size > 0) {
      await Promise.allSettled(this.running)
      await Promise.all(this.retiring)
    }
  }

  /**
   * Ends what a connection still does, and closes it. Closing waits for DuckDB's threads, which may wait for a function of this thread: so the
   * statement ends first, by another one that takes its place while this thread goes on.
   */
  private retire(connection: DuckDBConnection): void {
    connection.interrupt()
    const ended = connection
      .run('SELECT 1')
      .catch(() => {})
      .then(() => {
        this.retiring.delete(ended)
        connection.disconnectSync()
        this.rests(connection)
      })
    this.retiring.add(ended)
  }

  /** Runs a statement on a connection of its own and returns its rows. */
  run(sql: string, signal?: AbortSignal): Promise<Record<string, unknown>[]> {
    const running = this.rowsOf(sql, signal).finally(() => this.running.delete(running))
    this.running.add(running)
    return running
  }

  private async rowsOf(sql: string, signal: AbortSignal | undefined): Promise<Record<string, unknown>[]> {
    const connection = await this.connect()
    const calm = interruptOn(signal, connection)
    let clean = false
    try {
      const reader = await connection.runAndReadAll(sql)
      clean = true
      return reader.getRowObjects() as Record<string, unknown>[]
    } catch (error) {
      throw engineError(error, signal)
    } finally {
      calm()
      this.release(connection, clean)
    }
  }

  /** Bytes that it may take, and what is held of its rows beside it as much again. */
  get memoryLimit(): number {
    return this.config.memoryLimitBytes
  }

  /** Bytes that one sort may take: many of them have room, with what else statements need. */
  get sortBytes(): number {
    return this.config.memoryLimitBytes * SORT_SHARE
  }

  /** Bytes that it counts as its own, in all its uses. */
  async memory(): Promise<number> {
    if (this.instance === undefined) return 0
    const [{ bytes }] = await this.run('SELECT coalesce(sum(memory_usage_bytes), 0)::DOUBLE AS bytes FROM duckdb_memory()')
    return Number(bytes)
  }

  /**
   * Has what the process' allocators keep of freed memory given back to the system: DuckDB does so, its own and glibc's (malloc_trim), when it is told how much it may
   * take. Only where the thread is one that gives back, and with an instance open.
   */
  async giveBack(): Promise<void> {
    if (this.instance !== undefined && this.config.givesBack) await this.setLimit()
  }

  /**
   * For flushes and merges: each column takes memory that does not depend on its rows, and a measurement may have more columns, or a row more texts, than the
   * limit has room for. What was acknowledged has to be written, whatever it takes.
   * @param rowBytes of rows that cannot be divided and have no room within the limit; 0 = there are none.
   */
  async withRoom<T>(columns: number, rowBytes: number, body: () => Promise<T>): Promise<T> {
    const needed = columns * COLUMN_BYTES + rowBytes * ROW_COPIES
    if (!this.config.givesBack || needed <= this.config.memoryLimitBytes) return body()
    this.needs.push(needed)
    try {
      await this.setLimit()
      return await body()
    } finally {
      this.needs.splice(this.needs.indexOf(needed), 1)
      // A statement beside it may use some of what is to go: the limit is lowered when memory is given back.
      await this.setLimit().catch((error) => {
        if (!isOutOfMemory(error)) throw error
      })
    }
  }

  /** An instance beside this one, with one thread and more memory: for so many columns, and so many bytes; to be settled and closed. */
  alone(columns: number, bytes: number): Duck {
    const memoryLimitBytes = this.config.memoryLimitBytes + columns * COLUMN_BYTES + bytes
    return new Duck({ ...this.config, duckdbThreads: 1, memoryLimitBytes }, this.dataDir, this.life)
  }

  private async setLimit(): Promise<void> {
    const memoryLimitBytes = Math.max(this.config.memoryLimitBytes, ...this.needs)
    await this.run(`SET memory_limit = ${sqlText(memoryLimit({ memoryLimitBytes }))}`)
  }

  close(): void {
    if (this.closed) return
    this.closed = true
    this.ended ??= closing()
    clearInterval(this.ending)
    for (const connection of this.idle.splice(0)) connection.disconnectSync()
    this.instance?.closeSync()
  }
}

export const closing = (): SvcError => new SvcError('DATABASE_CLOSED', 'the query was stopped: the database is shutting down; retry after the restart')

/** As DuckDB is told. */
export const memoryLimit = ({ memoryLimitBytes }: Pick<WorkerConfig, 'memoryLimitBytes'>): string => `${Math.max(64, Math.floor(memoryLimitBytes / 1e6))}MB`

/** Interrupts the connection's statement when the signal says so. @returns what to call when the statement is over. */
export function interruptOn(signal: AbortSignal | undefined, connection: DuckDBConnection): () => void {
  if (signal === undefined) return () => {}
  let timer: NodeJS.Timeout | undefined
  const interrupt = (): void => {
    connection.interrupt()
    // An interruption between two steps of a statement is lost when the next one starts: repeat it.
    timer ??= setInterval(() => connection.interrupt(), INTERRUPT_EVERY_MS)
  }
  if (signal.aborted) interrupt()
  signal.addEventListener('abort', interrupt)
  return () => {
    signal.removeEventListener('abort', interrupt)
    clearInterval(timer)
  }
}

export function rawConnection(connection: DuckDBConnection): bindings.Connection {
  return (connection as unknown as { connection: bindings.Connection }).connection
}

/** Makes the sources scannable by their keys. */
export function registerSources(connection: DuckDBConnection, sources: ReadonlyMap<string, RowSource>): void {
  const fn = duckdb().create_table_function()
  duckdb().table_function_set_name(fn, SOURCE_FUNCTION)
  duckdb().table_function_add_parameter(fn, duckdb().create_logical_type(duckdb().Type.VARCHAR))
  duckdb().table_function_set_bind(fn, (info) => {
    const source = sources.get(duckdb().get_varchar(duckdb().bind_get_parameter(info, 0)))
    if (source === undefined) {
      duckdb().bind_set_error(info, 'no such row source')
      return
    }
    for (const { name, type } of source.columns) duckdb().bind_add_result_column(info, name, type)
    duckdb().bind_set_cardinality(info, source.rows, false)
    duckdb().bind_set_bind_data(info, source)
  })
  duckdb().table_function_set_init(fn, (info) => {
    const source = duckdb().init_get_bind_data(info) as RowSource
    const projected: number[] = []
    for (let i = 0, n = duckdb().init_get_column_count(info); i < n; i++) projected.push(duckdb().init_get_column_index(info, i))
    duckdb().init_set_init_data(info, { stream: source.open(projected), width: projected.length })
    duckdb().init_set_max_threads(info, source.unordered ? UNORDERED_THREADS : 1)
  })
  duckdb().table_function_set_function(fn, (info, chunk) => {
    try {
      const { stream, width } = duckdb().function_get_init_data(info) as { stream: RowStream; width: number }
      const vectors: bindings.Vector[] = []
      for (let i = 0; i < width; i++) vectors.push(duckdb().data_chunk_get_vector(chunk, i))
      duckdb().data_chunk_set_size(chunk, stream.next(vectors))
    } catch (error) {
      duckdb().function_set_error(info, (error as Error).message)
    }
  })
  duckdb().table_function_supports_projection_pushdown(fn, true)
  duckdb().register_table_function(rawConnection(connection), fn)
}

const OUT_OF_MEMORY = /out of memory/i

/** Whether a statement has failed for want of memory, by its `engineError`. */
export function isOutOfMemory(error: unknown): boolean {
  return error instanceof SvcError && error.cause instanceof Error && OUT_OF_MEMORY.test(error.cause.message)
}

/** What a failure of DuckDB means to a caller. */
export function engineError(error: unknown, signal?: AbortSignal): Error {
  if (error instanceof SvcError) return error
  if (signal?.aborted) return signal.reason instanceof Error ? signal.reason : new SvcError('QUERY_TIMEOUT', 'the statement was interrupted', { cause: error })
  const ours = raised(error)
  if (ours !== undefined) return ours
  const unreadable = error instanceof Error ? unreadableFile(error) : undefined
  if (unreadable !== undefined) return unreadable
  const message = error instanceof Error ? error.message : String(error)
  if (OUT_OF_MEMORY.test(message)) {
    return new SvcError(
      'OVERLOADED',
      'cannot run the statement: it needs more memory than the engine thread may use; read a shorter time range or fewer columns, or raise [database] per_query_memory_limit',
      { cause: error },
    )
  }
  if (FULL_DISK.test(message)) {
    return new SvcError('STORAGE_FULL', 'no space left on the data volume; free space and retry, writes resume without a restart', { cause: error })
  }
  return new SvcError('DATABASE_ERROR', message, { cause: error })
}

export function sqlText(text: string): string {
  return `'${text.replaceAll("'", "''")}'`
}

export function sqlName(name: string): string {
  return `"${name.replaceAll('"', '""')}"`
}

export function logicalType(type: FieldType, scale: number): bindings.LogicalType {
  if (type === 'decimal') return duckdb().create_decimal_type(38, scale)
  return duckdb().create_logical_type(
    {
      float64: duckdb().Type.DOUBLE,
      int64: duckdb().Type.BIGINT,
      uint64: duckdb().Type.UBIGINT,
      bool: duckdb().Type.BOOLEAN,
      string: duckdb().Type.VARCHAR,
      histogram: duckdb().Type.BLOB,
    }[type],
  )
}

/** The field's type in SQL. */
export function sqlType(type: FieldType, scale: number): string {
  return { float64: 'DOUBLE', int64: 'BIGINT', uint64: 'UBIGINT', bool: 'BOOLEAN', string: 'VARCHAR', decimal: `DECIMAL(38,${scale})`, histogram: 'BLOB' }[type]
}
