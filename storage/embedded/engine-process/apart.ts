/**
 * A statement that runs in an engine process, and how its rows get there. Every relation of the statement is written to a Parquet file in the process'
 * scratch directory, from this thread's snapshot: pruned to the columns, times and series that the statement asks for, so the process has nothing but
 * rows that the caller may read. Rows with encrypted columns are never written down: they go through the channel and stay in the process' memory.
 */
import { statSync } from 'node:fs'
import { join } from 'node:path'
import type { DuckDBConnection } from '@duckdb/node-api'
import type { SqlChunk } from 'svcdb'
import { type ErrorCode, SvcError } from 'svcdb/lib/errors'
import { sqlName, sqlText } from '../duckdb/duckdb.ts'
import { NO_DICTIONARIES } from '../segment/encoding.ts'
import { duckType, type RelationRequest, type SqlApart, type SqlHost } from '../sql/host.ts'
import type { Place } from '../sql/place.ts'
import type { Statement, StatementOptions, StatementRunner } from '../sql/statement.ts'
import type { FromProcess, View } from './messages.ts'
import type { ProcessPool } from './pool.ts'
import type { EngineProcess } from './process.ts'

interface ApartSettings {
  pool: ProcessPool
  namespace: string
  /** At rest while the statement runs elsewhere. */
  connection: DuckDBConnection
  /** Of what runs on the connection. */
  place: Place
  /** Of all rows handed over in files. */
  maxScratchBytes: number
  signal: AbortSignal | undefined
  /** A SELECT of the rows on the connection. */
  select(request: RelationRequest): Promise<string>
  /** A plan was refused in the process. */
  refusedPlan(reason: string): void
  /** Whether they must not be written to a file. */
  secret(request: RelationRequest): boolean
}

/** Rows in a file's row group: its writer keeps that many of each column. */
const ROW_GROUP_ROWS = 32_768
/**
 * With texts among them. DuckDB writes blocks of up to 2048 rows whole, those of large texts have fewer, and whoever reads a row group has each of its
 * columns in memory twice.
 */
const TEXT_ROW_GROUP_ROWS = 256
const HAS_LENGTH = /^(?:VARCHAR|BLOB)$/
const SIZE_LOOK_MS = 50
/**
 * Failures after which a process is of no use: memory is full, by DuckDB's words or those of JavaScript, or something in DuckDB went wrong that must not, after
 * which it refuses all statements.
 */
const SPENT = /out of memory|too large|^(?:INTERNAL|FATAL) Error/i

export function apart(host: SqlHost, settings: ApartSettings): SqlApart {
  const relations = new Map<string, { request: RelationRequest; view: View }>()
  const relation = ({ enumTags: _, ...request }: RelationRequest): string => {
    const key = JSON.stringify(request, (_, value) => (typeof value === 'bigint' ? String(value) : value))
    let known = relations.get(key)
    if (known === undefined) relations.set(key, (known = { request, view: viewOf(host, settings.namespace, request, relations.size) }))
    return `SELECT ${known.view.columns.map(({ name }) => sqlName(name)).join(', ')} FROM ${sqlName(known.view.name)}`
  }
  return { host: { ...host, relation, split: undefined, apart: undefined }, runner: new ApartRunner(settings, relations) }
}

function viewOf(host: SqlHost, namespace: string, { measurement, columns }: RelationRequest, number: number): View {
  const known = host.measurement(namespace, measurement)?.columns ?? []
  const typed = (name: string) => ({ name, type: duckType(known.find((column) => column.name === name)!) })
  return { name: `svc_rows_${number}`, columns: columns.map(typed) }
}

class ApartRunner implements StatementRunner {
  private readonly settings: ApartSettings
  private readonly relations: ReadonlyMap<string, { request: RelationRequest; view: View }>

  constructor(settings: ApartSettings, relations: ReadonlyMap<string, { request: RelationRequest; view: View }>) {
    this.settings = settings
    this.relations = relations
  }

  async open(sql: string, options: StatementOptions): Promise<Statement> {
    const session = await this.session()
    return session.guard(async () => {
      const { columns, columnsKnown, parameterTypes } = await session.opened(sql, options)
      return { columns, columnsKnown, parameterTypes, rows: () => session.rows(), destroy: () => session.leave() }
    })
  }

  async plans(sql: string, analyze: boolean): Promise<[string, string][]> {
    const session = await this.session()
    return session.guard(async () => {
      await session.opened(sql, { textBytes: false, histograms: () => false })
      await session.handOver()
      const plans = await session.plans(sql, analyze)
      session.leave()
      return plans
    })
  }

  private async session(): Promise<Session> {
    const { pool, namespace, signal } = this.settings
    return new Session(this.settings, [...this.relations.values()], await pool.lease(namespace, signal))
  }
}

let statements = 0

/** The time a statement has a process. */
class Session {
  private readonly settings: ApartSettings
  private readonly relations: readonly { request: RelationRequest; view: View }[]
  private readonly process: EngineProcess
  private readonly id = ++statements
  private readonly received: FromProcess[] = []
  private failure: unknown
  private wake: (() => void) | undefined
  private left = false
  private copying = false
  /** The process has ended the statement by itself. */
  private refused = false
  private readonly unlisten: () => void

  constructor(settings: ApartSettings, relations: readonly { request: RelationRequest; view: View }[], process: EngineProcess) {
    this.settings = settings
    this.relations = relations
    this.process = process
    process.listener = (message) => {
      if (message.kind === 'ready' || message.id !== this.id) return
      if (message.kind === 'failed') {
        this.refused = !SPENT.test(message.message)
        this.fail(message.code === undefined ? new Error(message.message) : new SvcError(message.code as ErrorCode, message.message))
      } else if (message.kind === 'refused-plan') settings.refusedPlan(message.reason)
      else this.received.push(message)
      this.wake?.()
    }
    process.whenDead((error) => this.fail(error))
    const { signal } = settings
    const abort = (): void => {
      this.fail(signal?.reason)
      this.end(false)
    }
    signal?.addEventListener('abort', abort, { once: true })
    this.unlisten = () => signal?.removeEventListener('abort', abort)
    if (signal?.aborted) abort()
  }

  async guard<T>(body: () => Promise<T>): Promise<T> {
    try {
      return await body()
    } catch (error) {
      this.abandon()
      throw error
    }
  }

  async opened(sql: string, { textBytes, unites = false, limit, histograms }: StatementOptions): Promise<Extract<FromProcess, { kind: 'opened' }>> {
    this.process.send({ kind: 'open', id: this.id, sql, textBytes, unites, limit, histograms: histograms(), views: this.relations.map(({ view }) => view) })
    return this.next('opened')
  }

  async plans(sql: string, analyze: boolean): Promise<[string, string][]> {
    this.process.send({ kind: 'plans', sql, analyze })
    return (await this.next('plans')).plans
  }

  async *rows(): AsyncGenerator<SqlChunk> {
    try {
      await this.handOver()
      this.process.send({ kind: 'run' })
      let dictionaries: readonly (readonly string[] | undefined)[] = []
      for (;;) {
        const message = await this.next('chunk', 'end')
        if (message.kind === 'end') break
        dictionaries = message.dictionaries ?? dictionaries
        const columns = message.chunk.columns.map((vector, i) => (dictionaries[i] === undefined ? vector : { ...vector, dictionary: dictionaries[i] }))
        yield { rows: message.chunk.rows, columns }
        this.process.send({ kind: 'taken', bytes: message.bytes })
      }
      this.leave()
    } finally {
      this.abandon()
    }
  }

  async handOver(): Promise<void> {
    let written = 0
    for (const { request, view } of this.relations) {
      if (this.settings.secret(request)) await this.handOverRows(request, view)
      else written += await this.handOverFile(request, view, written)
    }
  }

  /** The process has nothing to do any more: it is given back. */
  leave(): void {
    if (this.left) return
    if (this.process.death === undefined) this.process.send({ kind: 'close' })
    this.end(true)
  }

  /** A process that has said what was wrong waits for the next statement. One that is at work is ended, and one that is spent. */
  private abandon(): void {
    if (this.refused) this.leave()
    else this.end(false)
  }

  private end(reusable: boolean): void {
    if (this.left) return
    this.left = true
    this.unlisten()
    this.settings.pool.release(this.process, reusable)
  }

  private fail(error: unknown): void {
    this.failure ??= error
    if (this.copying) this.settings.connection.interrupt()
    this.wake?.()
  }

  private async next<K extends FromProcess['kind']>(...kinds: K[]): Promise<Extract<FromProcess, { kind: K }>> {
    for (;;) {
      const message = this.received.shift()
      if (message !== undefined) {
        if (!kinds.includes(message.kind as K)) throw new Error(`an engine process answered "${message.kind}" where "${kinds.join('", "')}" was due`)
        return message as Extract<FromProcess, { kind: K }>
      }
      if (this.failure !== undefined) throw this.failure
      await new Promise<void>((resolve) => {
        this.wake = resolve
      })
      this.wake = undefined
    }
  }

  /** @returns the file's bytes. */
  private async handOverFile(request: RelationRequest, { name, columns }: View, before: number): Promise<number> {
    const { connection, place, maxScratchBytes } = this.settings
    const path = join(this.process.scratch, `${this.id}-${name}.parquet`)
    const select = await this.settings.select(request)
    const groupRows = columns.some(({ type }) => HAS_LENGTH.test(type)) ? TEXT_ROW_GROUP_ROWS : ROW_GROUP_ROWS
    const exact = columns.some(({ type }) => type === 'DOUBLE') ? NO_DICTIONARIES : ''
    this.copying = true
    let tooLarge = false
    const size = (): number => statSync(path, { throwIfNoEntry: false })?.size ?? 0
    const timer = setInterval(() => {
      if (before + size() <= maxScratchBytes) return
      tooLarge = true
      connection.interrupt()
    }, SIZE_LOOK_MS)
    try {
      const copy = `COPY (${select}) TO ${sqlText(path)} (FORMAT parquet, COMPRESSION lz4, ROW_GROUP_SIZE ${groupRows}${exact})`
      await place.during(() => connection.run(copy))
    } catch (error) {
      throw tooLarge ? exceeds(maxScratchBytes) : (this.failure ?? error)
    } finally {
      clearInterval(timer)
      this.copying = false
    }
    if (this.failure !== undefined) throw this.failure
    if (before + size() > maxScratchBytes) throw exceeds(maxScratchBytes)
    this.process.send({ kind: 'file', view: name, path })
    return size()
  }

  private async handOverRows(request: RelationRequest, view: View): Promise<void> {
    const { connection, place } = this.settings
    const select = await this.settings.select(request)
    const { runnerOn } = await import('../sql/statement.ts')
    const statement = await runnerOn(connection, place).open(select, { textBytes: true, histograms: () => false })
    for await (const chunk of statement.rows()) {
      if (this.failure !== undefined) throw this.failure
      await this.process.sent({ kind: 'rows', view, chunk })
    }
    this.process.send({ kind: 'rows', view, chunk: undefined })
  }
}

function exceeds(maxScratchBytes: number): SvcError {
  return new SvcError(
    'SQL_ERROR',
    `cannot run this query: the rows it reads take more than ${maxScratchBytes} bytes of scratch space; narrow its time range, or raise [database] max_scratch_size`,
  )
}
