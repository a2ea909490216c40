/** /labels, /label/{name}/values and /series. */
import type { FastifyReply } from 'fastify'
import type { HttpRequest } from 'svcdb'
import { moduleUrl } from 'svcdb/lib/modules'
import type { DiscoveryArgs, DiscoveryOutcome } from '../answer-discovery.ts'
import { type PromqlConfig, parseLimits } from '../config.ts'
import type { DiscoveryJobArgs } from '../discovery-job.ts'
import { FIRST_MS } from '../storage-source.ts'
import { apiError } from './api-error.ts'
import { unescapeName } from './label-names.ts'
import type { Params } from './params.ts'
import { JSON_TYPE, type QueryApi } from './query-api.ts'

const JOB = moduleUrl('../discovery-job.ts', import.meta.url)
const OPTIONS = { methods: ['GET', 'POST'], parameters: ['match[]', 'start', 'end', 'limit'] } as const

export function discoveryEndpoints(api: QueryApi, config: PromqlConfig): void {
  const { server, clock } = api.svc

  const run = async (params: Params, what: Pick<DiscoveryArgs, 'wanted' | 'label'>, request: HttpRequest, reply: FastifyReply): Promise<void> => {
    const limit = params.limit()
    const givenStart = params.time('start')
    const end = params.time('end') ?? clock.now()
    const range = config.default_discovery_range_secs * 1000
    const args: DiscoveryJobArgs = {
      ...what,
      namespace: api.svc.context(request).dataNamespace,
      selectors: params.all('match[]'),
      parseLimits: parseLimits(config),
      start: givenStart ?? (range === 0 ? FIRST_MS : end - range),
      end,
      limit: limit === 0 ? server.prom_series_limit : Math.min(limit, server.prom_series_limit),
      maxResultBytes: server.prom_max_result_bytes,
      maxHeldBytes: server.max_held_memory,
    }
    const { result } = await api.send<DiscoveryOutcome>(request, reply, JOB, args, { type: JSON_TYPE, shared: true, cacheable: true })
    result.then(
      ({ truncated }) => truncated && api.truncated(),
      () => {},
    )
  }

  api.serve('/labels', { summary: 'Label names', ...OPTIONS }, (params, request, reply) => run(params, { wanted: 'labels' }, request, reply))

  api.serve('/label/:name/values', { summary: 'Values of a label', ...OPTIONS }, (params, request, reply) => {
    const label = unescapeName((request.params as { name: string }).name)
    if (label === '') throw apiError('bad_data', 'invalid label name: ""')
    return run(params, { wanted: 'values', label }, request, reply)
  })

  api.serve('/series', { summary: 'Series that match', ...OPTIONS }, (params, request, reply) => {
    if (params.all('match[]').length === 0) throw apiError('bad_data', 'no match[] parameter provided')
    return run(params, { wanted: 'series' }, request, reply)
  })
}
