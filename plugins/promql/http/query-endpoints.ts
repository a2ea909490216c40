/** /query and /query_range. */
import type { FastifyReply } from 'fastify'
import type { HttpRequest } from 'svcdb'
import { moduleUrl } from 'svcdb/lib/modules'
import type { QueryOutcome } from '../answer-query.ts'
import { type PromqlConfig, parseLimits } from '../config.ts'
import type { Steps } from '../eval/value.ts'
import type { QueryJobArgs } from '../query-job.ts'
import { apiError, invalidParameter } from './api-error.ts'
import type { Params } from './params.ts'
import { JSON_TYPE, type QueryApi } from './query-api.ts'

const JOB = moduleUrl('../query-job.ts', import.meta.url)
const METHODS = ['GET', 'POST'] as const
const COMMON = ['timeout', 'limit', 'lookback_delta', 'stats'] as const

export function queryEndpoints(api: QueryApi, config: PromqlConfig): void {
  const { server, clock } = api.svc

  const run = (
    params: Params,
    limit: number,
    steps: Steps,
    end: number,
    timeoutMs: number | undefined,
    request: HttpRequest,
    reply: FastifyReply,
  ): Promise<void> => {
    const lookback = params.duration('lookback_delta', (reason) => apiError('bad_data', `error parsing lookback delta duration: ${reason}`))
    const args: QueryJobArgs = {
      namespace: api.svc.context(request).dataNamespace,
      query: params.get('query'),
      parseLimits: parseLimits(config),
      steps,
      end,
      // None, and what is not positive, means the server's own.
      lookbackMs: lookback !== undefined && lookback > 0 ? Math.max(1, Math.trunc(lookback)) : config.lookback_delta_secs * 1000,
      defaultStepMs: config.default_evaluation_interval_secs * 1000,
      seriesLimit: limit === 0 ? server.prom_series_limit : Math.min(limit, server.prom_series_limit),
      maxResultBytes: server.prom_max_result_bytes,
      memoryBytes: config.max_query_memory_bytes,
      maxHeldBytes: server.max_held_memory,
      stats: params.get('stats'),
    }
    const options = {
      type: JSON_TYPE,
      shared: true as const,
      // Statistics say how long it took.
      cacheable: args.stats === '',
      ...(steps.interval === 0 ? {} : { partialKey: partialKey(args) }),
      ...(timeoutMs === undefined ? {} : { timeoutMs }),
    }
    return api.send<QueryOutcome>(request, reply, JOB, args, options).then(({ result }) => {
      result.then(
        ({ truncated }) => truncated && api.truncated(),
        () => {},
      )
    })
  }

  api.serve('/query', { summary: 'PromQL at one time', methods: METHODS, parameters: ['query', 'time', ...COMMON] }, (params, request, reply) => {
    const limit = params.limit()
    const time = params.time('time') ?? clock.now()
    return run(params, limit, { start: time, interval: 0, count: 1 }, time, params.timeout(), request, reply)
  })

  api.serve(
    '/query_range',
    { summary: 'PromQL at every step of a range', methods: METHODS, parameters: ['query', 'start', 'end', 'step', ...COMMON] },
    (params, request, reply) => {
      const limit = params.limit()
      const steps = stepsOf(params, server.max_range_query_points)
      return run(params, limit, steps, params.requiredTime('end'), params.timeout(), request, reply)
    },
  )
}

/** Of queries that have steps in common, each of which comes to the same in all of them. */
function partialKey({ query, steps: { start, interval }, lookbackMs, defaultStepMs }: QueryJobArgs): string {
  return `${interval} ${start % interval} ${lookbackMs} ${defaultStepMs} ${query}`
}

/** @throws bad_data. */
export function stepsOf(params: Params, maxPoints: number): Steps {
  const start = params.requiredTime('start')
  const end = params.requiredTime('end')
  if (end < start) throw invalidParameter('end', 'end timestamp must not be before start time')
  const step = params.requiredDuration('step')
  // Times are milliseconds: a step of less has no next one.
  if (step < 1) throw invalidParameter('step', 'zero or negative query resolution step widths are not accepted. Try a positive integer')
  const interval = Math.trunc(step)
  if (Math.floor((end - start) / interval) > maxPoints) {
    const points = maxPoints.toLocaleString('en-US')
    throw apiError('bad_data', `exceeded maximum resolution of ${points} points per timeseries. Try decreasing the query resolution (?step=XX)`)
  }
  return { start, interval, count: Math.floor((end - start) / interval) + 1 }
}
