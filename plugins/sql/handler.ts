/** /api/v1/svc/sql: limits, metrics, and the answer's bytes as they come from the engine. */
import type { FastifyReply } from 'fastify'
import { type Counter, type HttpRequest, type Svc, sendOutput, truncatedResults } from 'svcdb'
import { moduleUrl } from 'svcdb/lib/modules'
import { isRepeatable, isTimeless } from './repeatable.ts'
import type { SqlArgs, SqlFormat, SqlOutcome } from './sql-job.ts'

const JOB = moduleUrl('./sql-job.ts', import.meta.url)

const TYPES: Record<SqlFormat, string> = { json: 'application/json; charset=utf-8', csv: 'text/csv; charset=utf-8; header=present' }

/** CSV for who names it before any JSON in Accept; a browser or curl, which take anything, get JSON. */
function formatOf({ headers }: HttpRequest): SqlFormat {
  const wanted = /(?:^|,)\s*(text\/csv|application\/json)\s*(?:[;,]|$)/i.exec(headers.accept ?? '')
  return wanted?.[1].toLowerCase() === 'text/csv' ? 'csv' : 'json'
}

export class SqlHandler {
  private readonly svc: Svc
  private readonly queries: Counter
  private readonly truncated: Counter

  constructor(svc: Svc) {
    this.svc = svc
    this.queries = svc.metrics.counter('sql_queries_total', 'SQL statements answered')
    this.truncated = truncatedResults(svc.metrics)
  }

  /** @param query the statement, from the body or the address. */
  async query(request: HttpRequest, reply: FastifyReply, query: string, format = formatOf(request)): Promise<FastifyReply> {
    const { svc } = this
    const { sql_max_rows: maxRows, sql_query_timeout_secs: timeout } = svc.server
    const namespace = svc.context(request).dataNamespace
    const args: SqlArgs = { namespace, query, maxRows, format }
    const limits = { timeoutMs: timeout * 1000, timeoutSetting: 'server.sql_query_timeout_secs' }
    const job = svc.storage.run<SqlOutcome>(JOB, args, { namespace, ...limits, ...(isRepeatable(query) && { shared: true, cacheable: isTimeless(query) }) })
    job.result.then(
      (outcome) => {
        if (outcome.truncated) this.truncated.inc()
      },
      () => {},
    )
    await sendOutput(request, reply, job, () => {
      this.queries.inc()
      reply.type(TYPES[format])
    })
    return reply
  }
}
