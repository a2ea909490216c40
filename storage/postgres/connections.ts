/** Connections to whichever host takes writes, and what their failures mean. */
import { hostname } from 'node:os'
import { setTimeout } from 'node:timers/promises'
import pg from 'pg'
import { SvcError } from 'svcdb/lib/errors'

export type Query = <R>(text: string, values?: unknown[]) => Promise<{ rows: R[]; rowCount: number | null }>

interface ConnectionOptions {
  urls: readonly string[]
  maxConnections: number
  connectTimeoutMs: number
  statementTimeoutMs: number
}

/** Nothing was sent: there is no connection. */
export class NotConnected extends Error {
  override readonly name = 'NotConnected'
}

/** A statement that is prepared once a connection. Values come in binary form: bytea as Buffer. */
export interface Prepared {
  name: string
  text: string
}

/** A client side limit behind that of the server. */
const GRACE_MS = 2000
/** What a session needs: no plan that reads a table for lack of statistics, and an answer after the sync. */
const SESSION = `SET plan_cache_mode = force_generic_plan; SET enable_seqscan = off; SET enable_bitmapscan = off; SET jit = off; SET client_min_messages = warning;
SET default_transaction_isolation = 'read committed'`
/** For a server to take leave in. */
const CLOSE_MS = 1000
/** As others see who is connected: NAMEDATALEN - 1 bytes. */
const NAME = `svc ${hostname().slice(0, 40)} ${process.pid}`

export class Connections {
  private readonly options: ConnectionOptions
  private readonly pools: pg.Pool[]
  private current = 0
  private closing: Promise<unknown> | undefined
  private readonly busy = new Set<pg.PoolClient>()
  /** Rejected when no connection is waited for any more. */
  private readonly giveUp = Promise.withResolvers<never>()

  constructor(options: ConnectionOptions) {
    this.options = options
    this.giveUp.promise.catch(() => {})
    this.pools = options.urls.map((url) => this.poolOf(url))
  }

  get open(): number {
    return this.pools.reduce((sum, pool) => sum + pool.totalCount, 0)
  }

  /** One of its own, for as long as the caller likes; it ends it. Tries each host once. @throws NotConnected */
  async lasting(): Promise<pg.Client> {
    let last: unknown
    for (let tries = 0; tries < this.pools.length; tries++) {
      const at = (this.current + tries) % this.pools.length
      const client = new pg.Client(this.settings(this.options.urls[at]))
      // Told to whoever waits for a statement, or to who listens for its end.
      client.on('error', () => {})
      try {
        await client.connect()
        await prepare(client)
        return client
      } catch (error) {
        last = error
        void client.end().catch(() => {})
      }
    }
    throw notConnected(last)
  }

  /** Tries each host once. @throws NotConnected; what the body throws: then the connection is given up unless the server has answered with an error. */
  async run<T>(body: (client: pg.PoolClient) => Promise<T>): Promise<T> {
    const client = await this.connect()
    let lost: Error | undefined
    const onError = (error: Error) => {
      lost = error
    }
    client.on('error', onError)
    this.busy.add(client)
    try {
      return await body(client)
    } catch (thrown) {
      const error = shortened(thrown)
      if (!isRefused(error) || isReadOnly(error)) lost ??= error as Error
      throw error
    } finally {
      this.busy.delete(client)
      client.off('error', onError)
      client.release(lost)
    }
  }

  query<R>({ name, text }: Prepared, values: unknown[]): Promise<R[]> {
    return this.run(async (client) => {
      const config: pg.QueryConfig & { binary: boolean } = { name, text, values, binary: true }
      return (await client.query(config)).rows as R[]
    })
  }

  /** What is under way has a moment: a server that does not answer is not waited for. */
  close(): Promise<unknown> {
    this.closing ??= endsInTime(Promise.allSettled(this.pools.map((pool) => pool.end()))).then(() => {
      for (const client of this.busy) endQuietly(client)
      this.giveUp.reject(new Error('the state store is closed'))
    })
    return this.closing
  }

  private async connect(): Promise<pg.PoolClient> {
    let last: unknown
    for (let tries = 0; tries < this.pools.length; tries++) {
      const at = this.current
      try {
        return await this.unlessClosed(this.pools[at].connect())
      } catch (error) {
        last = error
        // All that is wrong is that every connection is busy: others have no free ones either.
        if (this.current === at && !/timeout exceeded/.test((error as Error).message)) this.current = (at + 1) % this.pools.length
      }
    }
    throw notConnected(last)
  }

  private async unlessClosed(connecting: Promise<pg.PoolClient>): Promise<pg.PoolClient> {
    let late = true
    try {
      const client = await Promise.race([connecting, this.giveUp.promise])
      late = false
      return client
    } finally {
      if (late)
        connecting.then(
          (client) => client.release(true),
          () => {},
        )
    }
  }

  private poolOf(url: string): pg.Pool {
    const { maxConnections } = this.options
    const pool = new pg.Pool({ ...this.settings(url), max: maxConnections, idleTimeoutMillis: 60_000, onConnect: prepare })
    pool.on('error', () => {}) // an idle connection that is lost is not missed
    return pool
  }

  private settings(url: string): pg.ClientConfig {
    const { connectTimeoutMs, statementTimeoutMs } = this.options
    return {
      connectionString: url,
      connectionTimeoutMillis: connectTimeoutMs,
      statement_timeout: statementTimeoutMs,
      query_timeout: statementTimeoutMs + GRACE_MS,
      keepAlive: true,
      keepAliveInitialDelayMillis: 10_000,
      application_name: NAME,
    }
  }
}

/** Resolves with what ends a connection, or a moment later without it. */
export async function endsInTime(ended: Promise<unknown>): Promise<void> {
  const given = new AbortController()
  const late = setTimeout(CLOSE_MS, undefined, { signal: given.signal }).catch(() => {})
  await Promise.race([ended, late])
  given.abort()
}

/** Has its statement, if there is one under way, fail. */
function endQuietly(client: pg.ClientBase): void {
  void (client as pg.Client).end().catch(() => {})
}

function notConnected(thrown: unknown): NotConnected {
  const cause = shortened(thrown)
  return new NotConnected((cause as Error).message || String((cause as { code?: string }).code), { cause })
}

/** @throws Error for a server that takes no writes. */
async function prepare(client: pg.ClientBase): Promise<void> {
  await client.query(SESSION)
  const { rows } = await client.query<{ readonly: boolean; commit: string }>(
    `SELECT pg_is_in_recovery() OR current_setting('transaction_read_only')::bool AS readonly, current_setting('synchronous_commit') AS commit`,
  )
  if (rows[0].readonly) throw new Error('it takes no writes: it is a standby, or read only')
  if (rows[0].commit === 'off') await client.query('SET synchronous_commit = on')
}

interface ServerError {
  code?: string
  severity?: string
}

/** Of what the server says of a failure, for answers and the log. */
const MAX_MESSAGE = 1024
const TEXTS = ['message', 'detail', 'hint', 'where', 'internalQuery'] as const

/** One whose texts are long, as a function there may have them, becomes one that has the beginning of what it says. */
export function shortened(error: unknown): unknown {
  if (!(error instanceof pg.DatabaseError) || TEXTS.every((name) => (error[name]?.length ?? 0) <= MAX_MESSAGE)) return error
  const { message, code, severity } = error
  // Cut within a pair it would be no Unicode text.
  const short = message.length <= MAX_MESSAGE ? message : `${message.slice(0, MAX_MESSAGE).toWellFormed()}…`
  return Object.assign(new Error(short), { code, severity })
}

/** Codes of a session that ends, and of a server that cannot say what it has done: connection exceptions, shutdowns, sessions that were idle too long, internal errors. */
const ENDS = /^(08|25P0[34]|57P0|XX00)/

/** The server has answered that a statement failed, and goes on: nothing of it is stored. Only errors of the server have a severity, which is in its language. */
export function isRefused(error: unknown): boolean {
  const { code, severity } = error as ServerError
  return typeof severity === 'string' && typeof code === 'string' && !ENDS.test(code)
}

const isReadOnly = (error: unknown): boolean => (error as ServerError).code === '25006'

/** Serialization failure, deadlock, read only since it is a standby now, no memory or connection just now. */
const PASSING = new Set(['40001', '40P01', '25006', '53200', '53300'])

/** Whether the same may go well soon. */
export function isPassing(error: unknown): boolean {
  return !isRefused(error) || PASSING.has((error as ServerError).code as string)
}

/** What a failure is to callers. @param unknown whether it may have been stored all the same. */
export function failureOf(what: string, error: unknown, unknown = false): SvcError {
  if (error instanceof SvcError) return error
  const { code } = error as ServerError
  const cause = (error as Error).message
  // disk_full, and out of a quota of the file system.
  if (code === '53100' || (code === '58030' && /space|quota/i.test(cause)))
    return new SvcError('STORAGE_FULL', `cannot ${what}: the disk of PostgreSQL is full: ${cause}; free space there and retry`, { cause: error })
  const said = unknown ? 'whether it was stored is not known' : 'nothing has changed'
  return new SvcError('OVERLOADED', `cannot ${what}: PostgreSQL: ${cause}; ${said}, try again`, { cause: error, headers: { 'retry-after': '5' } })
}
