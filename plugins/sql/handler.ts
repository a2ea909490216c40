/** POST /api/v1/svc/sql: limits, metrics, and the answer's bytes as they come from the engine. */
import { Readable } from 'node:stream'
import type { FastifyReply } from 'fastify'
import type { Counter } from '../../kernel/metrics.ts'
import type { HttpRequest, Svc } from '../../kernel/plugin.ts'
import type { SqlArgs, SqlOutcome } from './sql-job.ts'

const JOB = new URL('./sql-job.ts', import.meta.url)
const WARM_UP = new URL('./warm-up.ts', import.meta.url)

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
    const second = await output.next()
    this.queries.inc()
    reply.type('application/json; charset=utf-8')
    if (second.done === true) return sendOnce(reply, first.value)
    return reply.send(Readable.from(pieces(first.value, second.value, output, job.cancel), { objectMode: false }))
  }

  /** In the background: the server is ready meanwhile. */
  warmUp(statements: number): void {
    this.svc.storage.run(WARM_UP, { statements }).result.catch((error: Error) => this.svc.log.debug({ err: error }, 'warm-up ended early'))
  }
}

/** Sends one buffer and frees it at once: answers of a megabyte would otherwise pile up until the next garbage collection. */
function sendOnce(reply: FastifyReply, bytes: Uint8Array): FastifyReply {
  reply.raw.once('finish', () => (bytes.buffer as ArrayBuffer).transfer(0))
  return reply.send(bytes)
}

async function* pieces(first: Uint8Array, second: Uint8Array, more: AsyncIterator<Uint8Array>, cancel: () => void): AsyncGenerator<Uint8Array> {
  try {
    yield first
    yield second
    for (let next = await more.next(); next.done !== true; next = await more.next()) yield next.value
  } finally {
    cancel()
  }
}
