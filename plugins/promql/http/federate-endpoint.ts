/** /federate of the server itself: what another Prometheus scrapes of the series here. */
import { moduleUrl } from 'svcdb/lib/modules'
import { type PromqlConfig, parseLimits } from '../config.ts'
import type { FederateJobArgs } from '../federate-job.ts'
import { FEDERATE_ANSWERS } from './parameters.ts'
import type { QueryApi } from './query-api.ts'

const JOB = moduleUrl('../federate-job.ts', import.meta.url)
/** What a Prometheus 3 says of names of any characters, which the older version of the format cannot say. */
const UTF8 = /version=1\.0\.0\s*;[^,]*escaping=allow-utf-8/

export function federateEndpoint(api: QueryApi, config: PromqlConfig): void {
  const { server, clock } = api.svc
  const options = {
    summary: 'The newest samples of series, in the text format: federation',
    methods: ['GET'],
    parameters: ['match[]'],
    prefixes: [''],
  } as const
  api.serve('/federate', { ...options, answers: FEDERATE_ANSWERS }, async (params, request, reply) => {
    const utf8 = UTF8.test(request.headers.accept ?? '')
    const args: FederateJobArgs = {
      namespace: api.svc.context(request).dataNamespace,
      selectors: params.all('match[]'),
      parseLimits: parseLimits(config),
      time: clock.now(),
      lookbackMs: config.lookback_delta_secs * 1000,
      utf8,
      maxResultBytes: server.prom_max_result_bytes,
      maxHeldBytes: server.max_held_memory,
    }
    const type = utf8 ? 'text/plain; version=1.0.0; charset=utf-8; escaping=allow-utf-8' : 'text/plain; version=0.0.4; charset=utf-8; escaping=underscores'
    await api.send(request, reply, JOB, args, { type })
  })
}
