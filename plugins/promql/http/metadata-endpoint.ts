/** /metadata: what senders have said about metrics; empty when no plugin of the node receives any. */
import { METRIC_METADATA, type MetricMetadata, type MetricMetadataEntry } from 'svcdb'
import { apiError } from './api-error.ts'
import { integerOf, type Params } from './params.ts'
import type { QueryApi } from './query-api.ts'

type Entry = Pick<MetricMetadataEntry, 'type' | 'help' | 'unit'>

export function metadataEndpoint(api: QueryApi): void {
  api.serve(
    '/metadata',
    { summary: 'Type, help and unit of metrics', methods: ['GET'], parameters: ['metric', 'limit', 'limit_per_metric'] },
    (params, request) => {
      const known = api.svc.find<MetricMetadata>(METRIC_METADATA)?.list(api.svc.context(request).dataNamespace) ?? []
      return metadataOf(known, params.get('metric'), bound(params, 'limit'), bound(params, 'limit_per_metric'), api.svc.server.prom_max_result_bytes)
    },
  )
}

/** @param limit metrics, and @param perMetric entries of each; negative = all. @throws execution above so many bytes. */
export function metadataOf(known: Iterable<MetricMetadataEntry>, metric: string, limit: number, perMetric: number, maxBytes: number): Record<string, Entry[]> {
  let bytes = 0
  const byMetric = new Map<string, Entry[]>()
  for (const { metric: name, type, help, unit } of known) {
    if (metric !== '' && name !== metric) continue
    const entries = byMetric.get(name)
    if (entries === undefined) {
      if (limit >= 0 && byMetric.size >= limit) continue
      byMetric.set(name, [{ type, help, unit }])
    } else if (perMetric <= 0 || entries.length < perMetric) entries.push({ type, help, unit })
    else continue
    bytes += name.length + help.length + unit.length
    if (bytes > maxBytes)
      throw apiError(
        'execution',
        `cannot answer with the metadata: it is larger than ${maxBytes} bytes; ask with metric, limit or limit_per_metric, or raise server.prom_max_result_bytes`,
      )
  }
  return Object.fromEntries(byMetric)
}

function bound(params: Params, name: string): number {
  const text = params.get(name)
  if (text === '') return -1
  const value = integerOf(text)
  if (value === undefined) throw apiError('bad_data', `${name} must be a number`)
  return value
}
