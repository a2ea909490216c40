/** POST /api/v1/svc/sql: limits, metrics, and the answer's bytes as they come from the engine. */
import { Readable } from 'node:stream'
import type { FastifyReply } from 'fastify'
import type { Counter } from '../../kernel/metrics.ts'
import type { HttpRequest, Svc } from '../../kernel/plugin.ts'
import type { SqlArgs, SqlOutcome } from './sql-job.ts'

const JOB = new URL('./sql-job.ts', import.meta.url)

export class SqlHandler {
  private readonly svc: Svc
  private readonly queries: Counter
  private readonly truncated: Counter

  constructor(svc: Svc) {
    this.svc = svc
    this.queries = svc.metrics.counter('sql_queries_total', 'SQL statements answered')
    this.truncated = svc.metrics.counter('sql_results_truncated_total', 'SQL results cut at server.sql_max_rows')
  }

  async query(request: HttpRequest, reply: FastifyReply): Promise<FastifyReply> {
    const { svc } = this
    const { sql_max_rows: maxRows, sql_query_timeout_secs: timeout } = svc.server
    const args: SqlArgs = { namespace: svc.context(request).dataNamespace, query: request.body.query as string, maxRows }
    const job = svc.storage.run<SqlOutcome>(JOB, args, { timeoutMs: timeout * 1000, timeoutSetting: 'server.sql_query_timeout_secs' })
    // The output fails with the same error as the result.
    job.result.then(
      (outcome) => {
        if (outcome.truncated) this.truncated.inc()
      },
      () => {},
    )
    const { socket } = request.raw
    socket.once('close', job.cancel)
    reply.raw.once('close', () => socket.off('close', job.cancel))
    const output = job.output[Symbol.asyncIterator]()
    // A failure before the first bytes still has a status of its own.
    const first = await output.next()
    this.queries.inc()
    return reply.type('application/json; charset=utf-8').send(Readable.from(rest(first, output, job.cancel), { objectMode: false }))
  }
}

async function* rest(first: IteratorResult<Uint8Array>, output: AsyncIterator<Uint8Array>, cancel: () => void): AsyncGenerator<Uint8Array> {
  try {
    for (let next = first; next.done !== true; next = await output.next()) yield next.value
  } finally {
    cancel()
  }
}
