/** The state store in PostgreSQL: opens it, makes its tables, and hands each owner its part. */
import type { StateContext, StateEngine, StateUse } from 'svcdb'
import { SvcError } from 'svcdb/lib/errors'
import { idAt, OwnerCommits } from './commits.ts'
import { type PostgresConfig, urlsOf } from './config.ts'
import { Connections, failureOf, isPassing, isRefused, NotConnected, type Query } from './connections.ts'
import { Link } from './link.ts'
import { PostgresMetrics } from './metrics.ts'
import { OwnerState } from './owner-state.ts'
import { Reads } from './reads.ts'
import { Session } from './session.ts'
import { isThere, migrate, type Statements, statementsOf, TIDY_ROWS } from './tables.ts'
import { Watches } from './watches.ts'

/** How often rows of old commits are removed. */
const TIDY_MS = 60_000
/** Longer than anybody can look for the answer to a commit: `retry_secs` and `statement_timeout_secs` are an hour at most. */
const KEPT_SECS = 3 * 3600

export class PostgresState implements StateEngine {
  private readonly config: PostgresConfig
  private readonly log: StateContext['log']
  private readonly connections: Connections
  private readonly link: Link
  private readonly session: Session
  private readonly statements: Statements
  private readonly watches: Watches
  private readonly reads: Reads
  private readonly metrics: PostgresMetrics
  private readonly owned = new Map<string, OwnerState>()
  private up = false
  private tidying: NodeJS.Timeout | undefined

  constructor({ config, log, metrics }: StateContext) {
    this.config = config as PostgresConfig
    this.log = log
    const { url, schema, max_connections, connect_timeout_secs, statement_timeout_secs, retry_secs } = this.config
    this.connections = new Connections({
      urls: urlsOf(url.reveal()),
      // The session has one.
      maxConnections: max_connections - 1,
      connectTimeoutMs: connect_timeout_secs * 1000,
      statementTimeoutMs: statement_timeout_secs * 1000,
    })
    this.link = new Link(this.connections, retry_secs * 1000, { retried: (error) => this.failed(error), reached: () => this.reached() })
    this.statements = statementsOf(schema)
    this.watches = new Watches(schema, this.statements, { told: (scope) => this.metrics.changes.inc({ scope }) })
    this.session = new Session({ connections: this.connections, link: this.link, watches: this.watches, schema })
    this.reads = new Reads(this.link, this.statements)
    this.metrics = new PostgresMetrics(metrics, { connections: () => this.connections.open, up: () => this.up })
  }

  async open(use: StateUse = 'shared'): Promise<boolean> {
    const patience = this.link.patience()
    for (;;) {
      try {
        const there = await this.tryOpen(use)
        this.reached()
        if (use === 'shared') {
          await this.session.attend()
          await this.tidy()
          this.tidying = setInterval(() => void this.tidy(), TIDY_MS).unref()
        }
        return there
      } catch (error) {
        // A command is about to end; nodes are not.
        const isWorthwhile = error instanceof SvcError ? error.code === 'CONFLICT' && use === 'shared' : isPassing(error)
        if (isFinal(error)) throw refused(error)
        if (!isWorthwhile || !(await patience.wait())) throw error instanceof NotConnected ? notReached(error) : failureOf('open the state store', error)
      }
    }
  }

  async close(): Promise<void> {
    clearInterval(this.tidying)
    await this.session.close()
    await this.link.close()
  }

  private async tryOpen(use: StateUse): Promise<boolean> {
    if (use !== 'read') await this.session.begin(use)
    const { schema } = this.config
    return this.connections.run(async (client) => {
      const query: Query = (text, values) => client.query(text, values) as never
      if (use === 'read') return isThere(query, schema)
      await migrate(query, schema)
      return true
    })
  }

  state(owner: string): OwnerState {
    let state = this.owned.get(owner)
    if (state === undefined) {
      const { link, statements, reads, watches, metrics } = this
      const commits = new OwnerCommits(owner, link, statements, watches, {
        committed(transactions, stale, seconds) {
          metrics.commitSeconds.observe(seconds)
          metrics.transactions.inc({ outcome: 'stored' }, transactions - stale)
          metrics.transactions.inc({ outcome: 'stale' }, stale)
        },
        settled: () => metrics.settled.inc(),
      })
      this.owned.set(owner, (state = new OwnerState({ owner, reads, commits, watches })))
    }
    return state
  }

  async owners(): Promise<string[]> {
    const rows = await this.link.read<{ owner: string }>('list the owners of state', { name: 'svc-owners', text: this.statements.owners }, [])
    return rows.map(({ owner }) => owner)
  }

  /** What is left of old commits is of no use to anybody. By the one clock that all nodes share: another node's commit may be looked for still. */
  private async tidy(): Promise<void> {
    try {
      const [{ now }] = await this.connections.run(async (client) => (await client.query<{ now: number }>(this.statements.time)).rows)
      const before = now - KEPT_SECS
      const values = [idAt(Math.floor(before * 1000)), before]
      for (let removed: number | null = TIDY_ROWS; removed === TIDY_ROWS; )
        removed = await this.connections.run(async (client) => (await client.query(this.statements.tidy, values)).rowCount)
      await this.connections.run((client) => client.query(this.statements.tidyChanges, [before]))
    } catch (error) {
      this.log.debug({ error: (error as Error).message }, 'old commits were not removed')
    }
  }

  private failed(error: Error): void {
    this.metrics.retries.inc()
    if (this.up) this.log.warn({ error: error.message }, 'a statement to PostgreSQL failed')
    if (!isRefused(error)) this.up = false
  }

  private reached(): void {
    if (!this.up) this.log.info({ schema: this.config.schema }, 'PostgreSQL takes state')
    this.up = true
  }
}

/** Of failures to connect: no such user, password, database or right. They do not pass. */
function isFinal(error: unknown): boolean {
  const code = codeOf(error)
  return (code !== undefined && (code.startsWith('28') || code === '3D000' || code === '42501')) || lacksPassword(error)
}

/** In the words of the driver, which has no code for it. */
const lacksPassword = (error: unknown): boolean => /password must be a string|password must be a non-empty string/.test((error as Error).message)
const lacksTls = (error: unknown): boolean => /does not support SSL/.test((error as Error).message)

const codeOf = (error: unknown): string | undefined => (error as { code?: string }).code ?? (error as { cause?: { code?: string } }).cause?.code

function refused(error: unknown): Error {
  if (lacksPassword(error))
    return new SvcError('CONFIG_ERROR', 'cannot open the state store: PostgreSQL wants a password; put it into state.url, PGPASSWORD or ~/.pgpass', {
      cause: error,
    })
  return new SvcError('CONFIG_ERROR', `cannot open the state store: PostgreSQL refuses: ${(error as Error).message}; check state.url`, { cause: error })
}

/** Where no host was reached for as long as it was tried: a start has nobody to try again. */
function notReached(error: NotConnected): Error {
  const hint = lacksTls(error) ? 'switch ssl on there, or take sslmode out of state.url' : 'see that it runs, and that state.url has its address'
  return new SvcError('OVERLOADED', `cannot open the state store: PostgreSQL: ${error.message}; ${hint}`, { cause: error })
}
