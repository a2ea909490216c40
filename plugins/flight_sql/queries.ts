/** Statements: what they will answer, and running them with limits, so that they end with their call or when they are cancelled. */
import type { CallContext, Counter, JobOptions, SqlRequest, Svc } from 'svcdb'
import { SvcError } from 'svcdb/lib/errors'
import { CANCELLED, forward, type GrpcCall, GrpcStatusError, type SendMessage } from 'svcdb/lib/grpc'
import { moduleUrl } from 'svcdb/lib/modules'
import type { FlightSqlConfig } from './config.ts'
import type { QueryArgs, QueryOutcome } from './query-job.ts'
import type { TablesArgs } from './tables-job.ts'

const QUERY = moduleUrl('./query-job.ts', import.meta.url)
const TABLES = moduleUrl('./tables-job.ts', import.meta.url)

export interface Statement {
  query: string
  parameters: SqlRequest['parameters']
  dictionaries: boolean
}

interface Schemas {
  schema: Uint8Array
  parameterSchema: Uint8Array
}

/** Metadata by which a client asks for text as numbers in dictionaries. */
const DICTIONARIES = 'x-arrow-dictionaries'

export function wantsDictionaries(call: GrpcCall<CallContext>): boolean {
  const value = call.metadata(DICTIONARIES)?.toLowerCase()
  if (value === undefined || value === 'false') return false
  if (value === 'true') return true
  throw new SvcError('BAD_REQUEST', `cannot use metadata ${DICTIONARIES} "${value.slice(0, 32)}": it is true or false`)
}

interface Running {
  id: string
  principal: string
  namespace: string
  cancelled: boolean
  cancel(): void
}

export class Queries {
  private readonly svc: Svc
  private readonly config: FlightSqlConfig
  private readonly running = new Set<Running>()
  private readonly answered: Counter
  private readonly rows: Counter

  constructor(svc: Svc, config: FlightSqlConfig) {
    this.svc = svc
    this.config = config
    this.answered = svc.metrics.counter('flight_sql_queries_total', 'SQL statements answered by Flight SQL')
    this.rows = svc.metrics.counter('flight_sql_rows_sent_total', 'Rows that Flight SQL has sent as answers to SQL')
  }

  /** Prepares a statement without running it. @throws SQL_ERROR. */
  async describe(statement: Statement, call: GrpcCall<CallContext>): Promise<Schemas> {
    const job = this.svc.storage.run<QueryOutcome>(QUERY, this.args(statement, call.context, true), this.options(call))
    for await (const _ of job.output);
    const { schema, parameterSchema } = await job.result
    return { schema: schema as Uint8Array, parameterSchema: parameterSchema as Uint8Array }
  }

  /** @param id what `cancel` finds it by, unless it is empty. @throws PAYLOAD_TOO_LARGE when it has more rows than allowed, after those were sent. */
  async run(id: string, statement: Statement, call: GrpcCall<CallContext>, send: SendMessage): Promise<void> {
    const { context } = call
    const job = this.svc.storage.run<QueryOutcome>(QUERY, this.args(statement, context, false), this.options(call))
    const entry: Running = { id, principal: context.principal, namespace: context.namespace, cancelled: false, cancel: job.cancel }
    this.running.add(entry)
    try {
      await forward(job, send)
      this.rows.inc((await job.result).rows)
      this.answered.inc()
    } catch (error) {
      throw entry.cancelled ? new GrpcStatusError(CANCELLED, 'the query was cancelled as CancelFlightInfo asked for') : error
    } finally {
      this.running.delete(entry)
    }
  }

  /** The measurements, as messages that are ready to be sent. */
  async tables(args: TablesArgs, call: GrpcCall<CallContext>, send: SendMessage): Promise<void> {
    await forward(this.svc.storage.run<void>(TABLES, args, this.options(call)), send)
  }

  /** @returns whether such a statement of the caller was running. */
  cancel(id: string, { principal, namespace }: CallContext): boolean {
    let found = false
    // Statements that were sent without asking for a ticket have none: the empty id would stand for all of them.
    if (id === '') return found
    for (const entry of this.running) {
      if (entry.id !== id || entry.principal !== principal || entry.namespace !== namespace) continue
      found = true
      entry.cancelled = true
      entry.cancel()
    }
    return found
  }

  private args({ query, parameters, dictionaries }: Statement, { dataNamespace }: CallContext, describe: boolean): QueryArgs {
    const { batch_rows: batchRows, batch_bytes: batchBytes } = this.config
    return { namespace: dataNamespace, query, parameters, dictionaries, describe, maxRows: this.svc.server.sql_max_rows, batchRows, batchBytes }
  }

  private options({ context, signal }: GrpcCall<CallContext>): JobOptions {
    return {
      namespace: context.dataNamespace,
      signal,
      timeoutMs: this.svc.server.sql_query_timeout_secs * 1000,
      timeoutSetting: 'server.sql_query_timeout_secs',
    }
  }
}
