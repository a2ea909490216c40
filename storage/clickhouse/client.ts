/**
 * Statements to ClickHouse and their answers, with the errors of the storage interface. Values that a caller gave go as parameters or in blocks, never in a
 * statement's text.
 */
import { addAbortSignal, Readable } from 'node:stream'
import { setTimeout } from 'node:timers/promises'
import { type ClickHouseClient, ClickHouseError, type ClickHouseSettings, createClient, parseError } from '@clickhouse/client'
import type { StorageContext } from 'svcdb'
import { type ErrorCode, SvcError } from 'svcdb/lib/errors'
import { Places } from '../common/places.ts'
import type { ClickHouseSection } from './config.ts'
import type { ClickHouseMetrics } from './metrics.ts'
import { decodeBlocks, type ReadBlock } from './native/decode.ts'
import { encodeBlock, type WireColumn } from './native/encode.ts'
import { LateError } from './native/late-error.ts'
import { READ_ONLY, readSettings } from './settings.ts'

/** Between two tries of an insert, milliseconds; each next one waits twice as long. */
const FIRST_PAUSE_MS = 50
const MAX_PAUSE_MS = 2000
/**
 * How many questions of callers may have a connection at once: all but a quarter, so that writes and what the node asks for itself find one, however slow the
 * questions are. A namespace leaves a quarter of these to the others.
 */
function placesForQuestions(connections: number): Places {
  const most = Math.max(1, Math.floor((connections * 3) / 4))
  return new Places(most, Math.ceil((most * 3) / 4))
}

/** What ClickHouse says by number, and what it means to a caller. */
export const CODES: ReadonlyMap<string, ErrorCode> = new Map<string, ErrorCode>([
  ['60', 'OVERLOADED'],
  ['81', 'OVERLOADED'],
  ['82', 'CONFLICT'],
  ['173', 'OVERLOADED'],
  ['192', 'OVERLOADED'],
  ['193', 'OVERLOADED'],
  ['194', 'OVERLOADED'],
  ['201', 'OVERLOADED'],
  ['202', 'BACKPRESSURE'],
  ['210', 'OVERLOADED'],
  ['218', 'OVERLOADED'],
  ['225', 'OVERLOADED'],
  ['236', 'OVERLOADED'],
  ['241', 'OVERLOADED'],
  ['242', 'OVERLOADED'],
  ['243', 'STORAGE_FULL'],
  ['252', 'BACKPRESSURE'],
  ['254', 'OVERLOADED'],
  ['279', 'OVERLOADED'],
  ['285', 'OVERLOADED'],
  ['286', 'OVERLOADED'],
  ['289', 'OVERLOADED'],
  ['307', 'BAD_REQUEST'],
  ['319', 'OVERLOADED'],
  ['369', 'OVERLOADED'],
  ['394', 'OVERLOADED'],
  ['439', 'OVERLOADED'],
  ['497', 'OVERLOADED'],
  ['516', 'OVERLOADED'],
  ['733', 'OVERLOADED'],
  ['745', 'OVERLOADED'],
  ['999', 'OVERLOADED'],
])
/** What callers read in place of its own words, which have names of users, tables and paths. */
export const CAUSES: ReadonlyMap<string, string> = new Map([
  ...['60', '81', '218'].map((code): [string, string] => [
    code,
    'a table that svc made is not there; send again: tables of points are made anew, empty. If that does not help the catalog has gone: restore it',
  ]),
  ...['192', '193', '194', '516'].map((code): [string, string] => [
    code,
    'it refuses the user of this node; see that clickhouse.username and password are right',
  ]),
  ['497', 'the user of this node lacks a grant; what it needs is in the guide for scaling out'],
  ['243', 'its disk is full; free space there'],
])
/** As the system says it where ClickHouse has not looked before it wrote. */
const NO_SPACE = /errno: 28\b|No space left on device/
/** UNFINISHED: of a change of rows. */
const REPLICAS_AWAY = '341'
/** How long a definition waits for the servers of a cluster. */
const DEFINITION_SECS = 5
/** After these an insert is tried again under the same token: too many parts, too few replicas, what became of it is unknown, a server or the coordinator was away. */
const AGAIN = new Set(['202', '209', '210', '225', '252', '279', '285', '286', '319', '999'])
/** After these it may be stored all the same: time was up, servers lost one another, the statement was ended. */
const DOUBTFUL = new Set(['159', '160', '209', '210', '236', '279', '285', '286', '319', '394', '999'])
/** Nothing was sent. */
const UNSENT = new Set(['ECONNREFUSED', 'ENOTFOUND', 'EAI_AGAIN', 'EHOSTUNREACH', 'ENETUNREACH'])
/** Of a table and of a database that are not there. */
const MISSING = new Set(['60', '81', '218'])
/** Too slow: TIMEOUT_EXCEEDED, TOO_SLOW, SOCKET_TIMEOUT. */
const SLOW = new Set(['159', '160', '209'])
/** Of its servers among each other: texts of these have addresses. */
const BETWEEN_SERVERS = new Set(['209', '210', '225', '279'])

const ERROR_BYTES = 16_384

interface Asked {
  query: string
  query_params?: Record<string, string | number>
  clickhouse_settings?: ClickHouseSettings
  values?: Readable
}

export interface QueryOptions {
  params?: Record<string, string | number>
  signal?: AbortSignal
  /** Of the statement's own, beside those of every read. */
  settings?: readonly string[]
  /** A question of a caller, in this namespace; empty = one that is not kept apart. Undefined: of the node itself. */
  asker?: string
  /** How long it may take in ClickHouse; 0 = as long as it wants, undefined: as a write. */
  timeoutMs?: number
  /** What an error of ClickHouse means to who asked, by its number; undefined: as elsewhere. */
  meaning?(code: string, message: string): SvcError | undefined
}

interface InsertOptions {
  /** Quorums one after the other, so that each read after it sees it. */
  sequential?: boolean
  /** Told when a try has failed and may be stored all the same, also later. */
  doubt?(): void
}

interface ClientNotes {
  /** The server is not reached; once until it is again. */
  unreached?(told: { url: string; err: unknown }): void
  /** A table is not there that was. */
  missing?(told: { err: unknown }): void
}

/** @param missing what is done where a table is not there. */
export function notesIn(log: Pick<StorageContext['log'], 'warn'>, missing: () => void): ClientNotes {
  return {
    unreached: (told) => log.warn(told, 'ClickHouse is not reached'),
    missing(told) {
      log.warn(told, 'a table was not there in ClickHouse; those of points are made again when they are used, empty')
      missing()
    },
  }
}

export class Client {
  private readonly client: ClickHouseClient
  private readonly section: ClickHouseSection
  private readonly metrics: ClickHouseMetrics | undefined
  private readonly closing = new AbortController()
  private readonly notes: ClientNotes
  private readonly questions: Places
  private isReached = true

  constructor(section: ClickHouseSection, metrics?: ClickHouseMetrics, notes: ClientNotes = {}) {
    this.section = section
    this.metrics = metrics
    this.notes = notes
    this.questions = placesForQuestions(section.max_connections)
    this.client = createClient({
      url: section.url,
      username: section.username,
      ...(section.password === undefined ? {} : { password: section.password.reveal() }),
      max_open_connections: section.max_connections,
      request_timeout: section.write_timeout_secs * 1000,
      compression: { request: false, response: false },
      // Errors are told to who asked.
      log: { level: 127 },
    })
  }

  async close(): Promise<void> {
    this.closing.abort(new SvcError('DATABASE_CLOSED', 'cannot use the database: it is closed'))
    await this.client.close()
  }

  /** Definitions of tables, and changes of them. With a cluster it ends when the servers that are there have done it, or after `waitSecs`: others do it when they are back. */
  async command(statement: string, waitSecs = DEFINITION_SECS, settings: ClickHouseSettings = {}): Promise<void> {
    const wait = { distributed_ddl_output_mode: 'null_status_on_timeout' as const, distributed_ddl_task_timeout: String(waitSecs) }
    const all = { ...settings, ...(this.section.cluster === undefined ? {} : wait) }
    try {
      for await (const _ of this.answer({ query: statement, clickhouse_settings: all }, this.longest));
    } catch (error) {
      // Replicas that are away do it when they are back, those that are there have.
      if (error instanceof ClickHouseError && error.code === REPLICAS_AWAY) return
      throw this.told('change', error)
    }
  }

  /** Deletes, which callers wait for. */
  async delete(statement: string): Promise<void> {
    await this.command(statement, Math.max(1, this.section.write_timeout_secs - DEFINITION_SECS))
  }

  /** The blocks of an answer as they come; settings and FORMAT Native are put behind the statement. */
  blocks(statement: string, options: QueryOptions = {}): AsyncGenerator<ReadBlock> {
    return this.read(statement, 'Native', options, decodeBlocks)
  }

  /** The bytes of a Parquet file as they come, likewise. */
  parquet(statement: string, options: QueryOptions = {}): AsyncGenerator<Uint8Array> {
    return this.read(statement, 'Parquet', options, (stream) => stream)
  }

  private async *read<T>(
    statement: string,
    format: string,
    { params, signal, settings, timeoutMs, meaning, asker }: QueryOptions,
    decode: (stream: AsyncIterable<Uint8Array>) => AsyncIterable<T>,
  ): AsyncGenerator<T> {
    const limits = { memory: this.section.query_memory, timeoutMs: timeoutMs ?? this.section.write_timeout_secs * 1000 }
    const both = signal === undefined ? this.closing.signal : AbortSignal.any([signal, this.closing.signal])
    let answer: AsyncGenerator<Uint8Array> | undefined
    let late: LateError | undefined
    let leave = (): void => {}
    try {
      if (asker !== undefined) leave = await this.questions.enter(asker, both)
      const asked = {
        query: `${statement}${readSettings(limits, settings)} FORMAT ${format}`,
        clickhouse_settings: READ_ONLY,
        ...(params === undefined ? {} : { query_params: params }),
      }
      // A caller's question ends with its signal.
      answer = this.answer(asked, timeoutMs === undefined ? this.longest : undefined, signal)
      late = new LateError(answer)
      yield* decode(late.watched())
      both.throwIfAborted()
    } catch (error) {
      signal?.throwIfAborted()
      const said = error instanceof ClickHouseError ? error : await late?.find()
      signal?.throwIfAborted()
      throw this.told('read', (said === undefined ? undefined : meaning?.(said.code, said.message)) ?? said ?? error)
    } finally {
      await answer?.return(undefined)
      leave()
    }
  }

  /** How long a server may take that neither answers nor is silent, milliseconds. */
  private get longest(): number {
    return 2 * this.section.write_timeout_secs * 1000
  }

  /** What the server answers, until one of the signals or the limit ends it: those of the library count until an answer begins. @throws ClickHouseError. */
  private async *answer(asked: Asked, limitMs?: number, signal?: AbortSignal): AsyncGenerator<Uint8Array> {
    const limit = limitMs === undefined ? undefined : AbortSignal.timeout(limitMs)
    const all = AbortSignal.any([this.closing.signal, limit, signal].filter((each) => each !== undefined))
    let stream: Readable | undefined
    try {
      const answer = await this.client.exec({ ...asked, abort_signal: all, ignore_error_response: true })
      stream = addAbortSignal(all, answer.stream as Readable)
      const { http_status_code: status = 0, response_headers: headers } = answer
      if (status < 200 || status > 299 || headers['x-clickhouse-exception-code'] !== undefined) throw parseError(await beginOf(stream))
      this.isReached = true
      yield* stream
    } catch (error) {
      throw limit?.aborted === true ? new Error('timeout: the answer does not end') : error
    } finally {
      stream?.destroy()
    }
  }

  /**
   * Writes a block once, however often it has to be sent.
   * @throws SvcError when it is not stored, or nobody knows whether it is: sent again it is stored once.
   */
  async insert(table: string, columns: readonly WireColumn[], rows: number, token: string, { sequential = false, doubt }: InsertOptions = {}): Promise<void> {
    const parts = encodeBlock(columns, rows)
    const statement = insertInto(table, columns, [...this.insertSettings(token), ...this.quorumSettings(sequential)])
    const begun = performance.now()
    const last = begun + this.section.write_timeout_secs * 1000
    for (let pause = FIRST_PAUSE_MS; ; pause = Math.min(pause * 2, MAX_PAUSE_MS)) {
      try {
        await this.send(statement, parts)
        this.metrics?.insertedRows.inc(rows)
        this.metrics?.inserts.observe((performance.now() - begun) / 1000)
        return
      } catch (error) {
        if (isDoubtful(error)) doubt?.()
        if (!isTriedAgain(error) || performance.now() + pause > last || this.closing.signal.aborted) throw this.told('write', error)
        this.metrics?.repeats.inc()
        await setTimeout(pause)
      }
    }
  }

  /**
   * Stores other rows under the token of an insert that is in doubt, in each of its partitions: after that it is stored, or never will be. Goes on until ClickHouse
   * has done so, the table is not there any more, or the client is closed.
   */
  async fence(table: string, columns: readonly WireColumn[], rows: number, token: string): Promise<void> {
    const parts = encodeBlock(columns, rows)
    for (let pause = FIRST_PAUSE_MS; !this.closing.signal.aborted; pause = Math.min(pause * 2, MAX_PAUSE_MS)) {
      try {
        const shards = await this.shards()
        for (let shard = 1; shard <= shards; shard++) {
          const one = this.section.cluster === undefined ? [] : ['insert_quorum = 0', `insert_shard_id = ${shard}`]
          await this.send(insertInto(table, columns, [...this.insertSettings(token), ...one]), parts)
        }
        return
      } catch (error) {
        if (error instanceof ClickHouseError && MISSING.has(error.code)) return
        this.metrics?.repeats.inc()
        await setTimeout(pause, undefined, { signal: this.closing.signal }).catch(() => {})
      }
    }
  }

  private async send(statement: string, parts: readonly Uint8Array[]): Promise<void> {
    const values = Readable.from(parts, { objectMode: false })
    for await (const _ of this.answer({ query: statement, values }, this.longest));
  }

  private async shards(): Promise<number> {
    const { cluster } = this.section
    let shards = 1
    // The name is checked by the config's schema.
    if (cluster !== undefined)
      for await (const { columns } of this.blocks(`SELECT toUInt64(max(shard_num)) FROM system.clusters WHERE cluster = '${cluster}'`))
        shards = Number(new BigUint64Array(columns[0].bytes.buffer)[0])
    if (shards === 0) throw new Error('the cluster has no shard')
    return shards
  }

  private insertSettings(token: string): string[] {
    // One that nobody waits for any more ends there, too.
    const ends = [`max_execution_time = ${this.section.write_timeout_secs}`, "timeout_overflow_mode = 'throw'"]
    const once = [`insert_deduplication_token = '${token}'`, 'insert_deduplicate = 1']
    const shards = this.section.cluster === undefined ? [] : ['distributed_foreground_insert = 1']
    return [...once, 'max_partitions_per_insert_block = 0', 'async_insert = 0', ...ends, ...shards]
  }

  private quorumSettings(sequential: boolean): string[] {
    const { cluster, insert_quorum } = this.section
    if (cluster === undefined) return []
    return [`insert_quorum_parallel = ${sequential ? 0 : 1}`, insert_quorum === 'auto' ? "insert_quorum = 'auto'" : `insert_quorum = ${insert_quorum}`]
  }

  private told(verb: 'change' | 'read' | 'write', error: unknown): Error {
    const told = this.meaning(verb, error)
    if (told instanceof SvcError) this.metrics?.failures.inc({ verb, code: told.code })
    return told
  }

  private meaning(verb: string, error: unknown): Error {
    const slow = verb === 'read' ? 'QUERY_TIMEOUT' : 'WRITE_TIMEOUT'
    if (error instanceof SvcError) return error
    if (this.closing.signal.aborted) return this.closing.signal.reason
    const message = error instanceof Error ? error.message.split('\n', 1)[0].slice(0, 300) : String(error)
    if (error instanceof ClickHouseError) {
      this.isReached = true
      if (MISSING.has(error.code)) this.notes.missing?.({ err: error })
      const isFull = NO_SPACE.test(error.message)
      const code = isFull ? 'STORAGE_FULL' : SLOW.has(error.code) ? slow : (CODES.get(error.code) ?? 'DATABASE_ERROR')
      const between = BETWEEN_SERVERS.has(error.code) ? 'its servers, or its Keeper, do not reach one another' : undefined
      const cause = between ?? CAUSES.get(isFull ? '243' : error.code) ?? message
      const soon = MISSING.has(error.code) ? { headers: { 'retry-after': '1' } } : {}
      return new SvcError(code, `cannot ${verb} in ClickHouse: ${cause} (code ${error.code})`, soon)
    }
    if (/timeout/i.test(message)) return new SvcError(slow, `cannot ${verb} in ClickHouse: no answer within write_timeout_secs`)
    if (this.isReached) this.notes.unreached?.({ url: this.section.url, err: error })
    this.isReached = false
    const code = (error as NodeJS.ErrnoException).code ?? 'the connection ended'
    return new SvcError('OVERLOADED', `cannot ${verb} in ClickHouse: it is not reached (${code}); see that it runs, its address is in the log`)
  }
}

/** Of the text of an error, as far as it is looked at: ClickHouse cuts its own there, and to search one of another server may take the square of its length. */
async function beginOf(stream: AsyncIterable<Uint8Array>): Promise<string> {
  const parts: Uint8Array[] = []
  let bytes = 0
  for await (const part of stream) {
    parts.push(part)
    bytes += part.length
    if (bytes >= ERROR_BYTES) break
  }
  return Buffer.concat(parts).toString('utf8', 0, ERROR_BYTES)
}

function insertInto(table: string, columns: readonly WireColumn[], settings: readonly string[]): string {
  return `INSERT INTO ${table} (${columns.map(({ name }) => name).join(', ')}) SETTINGS ${settings.join(', ')} FORMAT Native`
}

function isDoubtful(error: unknown): boolean {
  if (error instanceof ClickHouseError) return DOUBTFUL.has(error.code)
  return !UNSENT.has((error as NodeJS.ErrnoException).code ?? '')
}

/** A connection that broke leaves open what became of the insert. */
function isTriedAgain(error: unknown): boolean {
  if (error instanceof ClickHouseError) return AGAIN.has(error.code)
  return error instanceof Error && /ECONN|EPIPE|socket hang up|timeout/i.test(`${(error as NodeJS.ErrnoException).code ?? ''} ${error.message}`)
}
