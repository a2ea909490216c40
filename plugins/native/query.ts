/** POST /api/v1/svc/query and its explain. */
import type { FastifyReply } from 'fastify'
import { type Counter, type HttpRequest, type ScanPlan, type ScanRequest, type Svc, sendOutput } from 'svcdb'
import { SvcError } from 'svcdb/lib/errors'
import { moduleUrl } from 'svcdb/lib/modules'
import type { NativeConfig } from './config.ts'
import { type Plan, parsePlan } from './plan.ts'
import type { QueryArgs } from './query-job.ts'

const JOB = moduleUrl('./query-job.ts', import.meta.url)

export class QueryHandler {
  private readonly svc: Svc
  private readonly config: NativeConfig
  private readonly queries: Counter

  constructor(svc: Svc, config: NativeConfig) {
    this.svc = svc
    this.config = config
    this.queries = svc.metrics.counter('http_queries_total', 'Native queries answered')
  }

  async query(request: HttpRequest, reply: FastifyReply): Promise<FastifyReply> {
    const { svc } = this
    const plan = this.plan(request)
    const { sql_max_rows: maxRows, query_timeout_secs: timeout, max_held_memory: maxHeldBytes } = svc.server
    const { offset, limit } = plan
    const { max_query_memory_bytes: maxBytes } = this.config
    const args: QueryArgs = { request: this.scan(request, plan), offset, maxRows, maxBytes, maxHeldBytes, ...(limit === undefined ? {} : { limit }) }
    const job = svc.storage.run<number>(JOB, args, {
      namespace: args.request.namespace,
      timeoutMs: timeout * 1000,
      timeoutSetting: 'server.query_timeout_secs',
    })
    await sendOutput(request, reply, job, () => {
      this.queries.inc()
      reply.type('application/json; charset=utf-8')
    })
    return reply
  }

  /** Under the names of the wire. */
  async explain(request: HttpRequest): Promise<Omit<ScanPlan, 'bufferedRows'> & { memtableRows: number }> {
    const { bufferedRows, deduplicated, ...plan } = await this.svc.storage.explain(this.scan(request, this.plan(request)))
    return { ...plan, memtableRows: bufferedRows, deduplicated }
  }

  private plan(request: HttpRequest): Plan {
    const plan = parsePlan((request.body as Buffer | undefined) ?? new Uint8Array(0))
    const maxRows = this.svc.server.sql_max_rows
    if (plan.limit !== undefined && plan.limit > maxRows) {
      throw new SvcError(
        'BAD_REQUEST',
        `cannot answer query: limit ${plan.limit} is above server.sql_max_rows, which is ${maxRows}; ask for fewer rows at once`,
      )
    }
    return plan
  }

  private scan(request: HttpRequest, plan: Plan): ScanRequest {
    return {
      namespace: this.svc.context(request).dataNamespace,
      measurement: plan.measurement,
      matchers: Object.entries(plan.tags).map(([tag, value]) => ({ tag, op: '=' as const, value })),
      ...(plan.fields === undefined ? {} : { fields: plan.fields }),
      ...(plan.start === undefined ? {} : { start: plan.start }),
      ...(plan.end === undefined ? {} : { end: plan.end }),
    }
  }
}
