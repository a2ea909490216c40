/** /metadata: what senders have said about metrics; empty when no plugin of the node receives any. */
import { hungUp, METRIC_METADATA, type MetricMetadata, type MetricMetadataEntry } from 'svcdb'
import { inTurns, type Work } from 'svcdb/lib/event-loop'
import { apiError } from './api-error.ts'
import { JsonWriter } from './json-writer.ts'
import { integerOf, type Params } from './params.ts'
import { JSON_TYPE, type QueryApi } from './query-api.ts'

type Entry = Pick<MetricMetadataEntry, 'type' | 'help' | 'unit'>

/** Entries between two places where an answer can be interrupted. */
const SLICE = 128

export function metadataEndpoint(api: QueryApi): void {
  const options = { summary: 'Type, help and unit of metrics', methods: ['GET'] as const, parameters: ['metric', 'limit', 'limit_per_metric'] as const }
  api.serve('/metadata', options, async (params, request, reply) => {
    const known = api.svc.find<MetricMetadata>(METRIC_METADATA)?.list(api.svc.context(request).dataNamespace) ?? []
    const [limit, perMetric] = [bound(params, 'limit'), bound(params, 'limit_per_metric')]
    const work = metadataAnswer(known, params.get('metric'), limit, perMetric, api.svc.server.prom_max_result_bytes)
    reply.type(JSON_TYPE).send(await inTurns(work, hungUp(request)))
    return undefined
  })
}

/** @param limit metrics, and @param perMetric entries of each; negative = all. @throws execution above so many bytes. */
export function* metadataAnswer(known: Iterable<MetricMetadataEntry>, metric: string, limit: number, perMetric: number, maxBytes: number): Work<Uint8Array> {
  const json = new JsonWriter()
  json.raw('{"status":"success","data":{')
  let first = true
  let written = 0
  for (const [name, entries] of yield* metadataOf(known, metric, limit, perMetric, maxBytes)) {
    if (!first) json.raw(',')
    first = false
    json.string(name)
    json.raw(':[')
    for (const [i, { type, help, unit }] of entries.entries()) {
      json.raw(i === 0 ? '{"type":' : ',{"type":')
      json.string(type)
      json.raw(',"help":')
      json.string(help)
      json.raw(',"unit":')
      json.string(unit)
      json.raw('}')
      if (++written % SLICE === 0) yield
    }
    json.raw(']')
  }
  json.raw('}}')
  const bytes = json.take()
  json.close()
  return bytes
}

function* metadataOf(
  known: Iterable<MetricMetadataEntry>,
  metric: string,
  limit: number,
  perMetric: number,
  maxBytes: number,
): Work<ReadonlyMap<string, readonly Entry[]>> {
  let bytes = 0
  let seen = 0
  const byMetric = new Map<string, Entry[]>()
  for (const { metric: name, type, help, unit } of known) {
    if (++seen % SLICE === 0) yield
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
  return byMetric
}

function bound(params: Params, name: string): number {
  const text = params.get(name)
  if (text === '') return -1
  const value = integerOf(text)
  if (value === undefined) throw apiError('bad_data', `${name} must be a number`)
  return value
}
