/** The service PROMQL_QUERIES: the queries of the HTTP API for other plugins of the node. */
import type { PromqlQueries, PromqlTime, Svc } from 'svcdb'
import { SvcError } from 'svcdb/lib/errors'
import { moduleUrl } from 'svcdb/lib/modules'
import type { QueryOutcome } from './answer-query.ts'
import { type PromqlConfig, parseLimits } from './config.ts'
import type { Steps } from './eval/value.ts'
import type { QueryJobArgs } from './query-job.ts'

const JOB = moduleUrl('./query-job.ts', import.meta.url)

export function promqlQueries(svc: Svc, config: PromqlConfig): PromqlQueries {
  const { server } = svc
  return {
    async query(namespace, query, at) {
      const args: QueryJobArgs = {
        namespace,
        query,
        parseLimits: parseLimits(config),
        steps: stepsOf(at, server.max_range_query_points),
        end: 'time' in at ? at.time : at.end,
        lookbackMs: config.lookback_delta_secs * 1000,
        defaultStepMs: config.default_evaluation_interval_secs * 1000,
        seriesLimit: server.prom_series_limit,
        maxResultBytes: server.prom_max_result_bytes,
        memoryBytes: config.max_query_memory_bytes,
        maxHeldBytes: server.max_held_memory,
        stats: '',
      }
      const timeout = { timeoutMs: server.prom_query_timeout_secs * 1000, timeoutSetting: 'server.prom_query_timeout_secs' }
      const { output, result } = svc.storage.run<QueryOutcome>(JOB, args, { namespace, shared: true, ...timeout })
      result.catch(() => {}) // the output fails with the same error
      const parts: Uint8Array[] = []
      for await (const part of output) parts.push(Uint8Array.from(part))
      return JSON.parse(Buffer.concat(parts).toString())
    },
  }
}

function stepsOf(at: PromqlTime, maxPoints: number): Steps {
  if ('time' in at) return { start: at.time, interval: 0, count: 1 }
  const { start, end, step } = at
  const points = Math.floor((end - start) / step) + 1
  if (!(step >= 1) || !(end >= start) || points > maxPoints)
    throw new SvcError('PROMQL_ERROR', `cannot query the range: a step is 1 ms at least, the end is not before the start, and ${maxPoints} steps are the limit`)
  return { start, interval: Math.trunc(step), count: points }
}
