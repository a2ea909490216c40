/** The TSDB admin API of Prometheus, as far as there is something to do by it; off unless `admin_api` says otherwise, as there. */
import { moduleUrl } from 'svcdb/lib/modules'
import { type PromqlConfig, parseLimits } from '../config.ts'
import type { Removal } from '../removal.ts'
import type { RemovalArgs } from '../removal-job.ts'
import { unlessDropped } from '../storage/dropped.ts'
import { nanoseconds } from '../storage-source.ts'
import { apiError } from './api-error.ts'
import { DONE, REFUSED } from './parameters.ts'
import type { Endpoint, QueryApi } from './query-api.ts'

const JOB = moduleUrl('../removal-job.ts', import.meta.url)
/** Each selector is parsed in one go: more than anybody writes. */
const MAX_SELECTOR_LENGTH = 65_536
const METHODS = ['POST', 'PUT'] as const

export function adminEndpoints(api: QueryApi, config: PromqlConfig): void {
  const { svc } = api
  const limits = { ...parseLimits(config), maxLength: Math.min(config.max_query_length, MAX_SELECTOR_LENGTH) }
  const enabled =
    (endpoint: Endpoint): Endpoint =>
    (params, request, reply) => {
      if (config.admin_api !== 'on') throw apiError('unavailable', 'admin APIs disabled: promql.admin_api is "off"')
      return endpoint(params, request, reply)
    }
  const remove = enabled(async (params, request, reply) => {
    const selectors = params.all('match[]')
    if (selectors.length === 0) throw apiError('bad_data', 'no match[] parameter provided')
    const [start, end] = [params.time('start'), params.time('end')]
    if (start !== undefined && end !== undefined && end < start) throw apiError('bad_data', 'end timestamp must not be before start timestamp')
    const namespace = svc.context(request).dataNamespace
    const args: RemovalArgs = { namespace, selectors, parseLimits: limits }
    const removals = await api.run<Removal[]>(request, JOB, args)
    // The whole last millisecond: queries show all of its samples at `end`.
    const range = { ...(start === undefined ? {} : { start: nanoseconds(start) }), ...(end === undefined ? {} : { end: nanoseconds(end + 1) }) }
    let skipped = 0
    for (const { measurements, matchers } of removals)
      for (const measurement of measurements)
        skipped += (await unlessDropped(svc.storage.delete({ namespace, measurement, matchers, ...range })))?.segmentsSkipped ?? 0
    if (skipped > 0) throw apiError('unavailable', `${skipped} segments with such samples are out of service; send the delete again when they are repaired`)
    reply.code(204).send()
  })
  api.serve(
    '/admin/tsdb/delete_series',
    { summary: 'Deletes series that match', methods: METHODS, action: 'delete', parameters: ['match[]', 'start', 'end'], answers: DONE },
    remove,
  )
  const instead = (path: string, reason: string) =>
    api.serve(
      path,
      { summary: 'Is refused, with a reason', methods: METHODS, action: 'admin', answers: REFUSED },
      enabled(() => {
        throw apiError('unavailable', reason)
      }),
    )
  instead('/admin/tsdb/snapshot', 'snapshots are backups here: POST /api/v1/admin/backup, of the plugin backup')
  instead('/admin/tsdb/clean_tombstones', 'the space of deleted samples is freed by compaction, which runs by itself')
}
