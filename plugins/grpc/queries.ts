/** Query and ExecuteSql: limits, metrics, and the messages as they come from beside the data. */
import { type CallContext, type Counter, type JobOptions, type RunningJob, type ScanRequest, type Svc, truncatedResults } from 'svcdb'
import { SvcError } from 'svcdb/lib/errors'
import { forward, type GrpcCall, GrpcStatusError, type SendMessage, UNIMPLEMENTED } from 'svcdb/lib/grpc'
import { moduleUrl } from 'svcdb/lib/modules'
import type { GrpcPluginConfig } from './config.ts'
import type { QueryArgs } from './query-job.ts'
import { queryPlan, sqlText } from './requests.ts'
import type { SqlArgs, SqlOutcome } from './sql-job.ts'

const QUERY = moduleUrl('./query-job.ts', import.meta.url)
const SQL = moduleUrl('./sql-job.ts', import.meta.url)
/** Clients take 4 MiB a message unless told otherwise. */
const MESSAGE_BYTES = 1 << 20

export class Queries {
  private readonly svc: Svc
  private readonly config: GrpcPluginConfig
  private readonly answered: Counter
  private readonly truncated: Counter

  constructor(svc: Svc, config: GrpcPluginConfig) {
    this.svc = svc
    this.config = config
    this.answered = svc.metrics.counter('grpc_queries_total', 'Queries and SQL statements answered over gRPC')
    this.truncated = truncatedResults(svc.metrics)
  }

  async query(request: Uint8Array, call: GrpcCall<CallContext>, send: SendMessage): Promise<void> {
    const { limit, rows, ...plan } = queryPlan(request, this.svc.server.max_body_members)
    const { sql_max_rows: maxRows, max_held_memory: maxHeldBytes } = this.svc.server
    if (limit > maxRows) {
      throw new SvcError('BAD_REQUEST', `cannot answer query: limit ${limit} is above server.sql_max_rows, which is ${maxRows}; ask for fewer rows at once`)
    }
    const scan: ScanRequest = { namespace: call.context.dataNamespace, ...plan }
    const { max_query_memory_bytes: maxBytes, max_send_bytes: sendBytes } = this.config
    const args: QueryArgs = { request: scan, rows, limit, maxRows, maxBytes, maxHeldBytes, messageBytes: Math.min(MESSAGE_BYTES, sendBytes >> 1) }
    await forward(this.run<number>(QUERY, args, call, 'query_timeout_secs'), send)
    this.answered.inc()
  }

  /** In the parts in which it was made: equal statements that wait are answered together, and to join the answer of each would be done in one turn for all. */
  async sql(request: Uint8Array, call: GrpcCall<CallContext>): Promise<readonly Uint8Array[]> {
    if (!this.svc.storage.capabilities.has('sql')) throw new GrpcStatusError(UNIMPLEMENTED, 'cannot run SQL: the storage engine of this node has none')
    const { max_send_bytes: maxBytes } = this.config
    const args: SqlArgs = { namespace: call.context.dataNamespace, query: sqlText(request), maxRows: this.svc.server.sql_max_rows, maxBytes }
    const parts: Uint8Array[] = []
    const job = this.run<SqlOutcome>(SQL, args, call, 'sql_query_timeout_secs')
    job.result.catch(() => {}) // the output fails with the same error
    for await (const part of job.output) parts.push(part)
    if ((await job.result).truncated) this.truncated.inc()
    this.answered.inc()
    return parts
  }

  private run<R>(
    module: URL,
    args: QueryArgs | SqlArgs,
    { context, signal }: GrpcCall<CallContext>,
    setting: 'query_timeout_secs' | 'sql_query_timeout_secs',
  ): RunningJob<R> {
    const limit: JobOptions = { timeoutMs: this.svc.server[setting] * 1000, timeoutSetting: `server.${setting}` }
    return this.svc.storage.run<R>(module, args, { namespace: context.dataNamespace, signal, ...limit })
  }
}
