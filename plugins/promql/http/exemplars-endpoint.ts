/** /query_exemplars: those of the series that the selectors of an expression name, in the form of Prometheus; none where no plugin of the node keeps them. */
import { EXEMPLARS, type Exemplars, type ExemplarsOfSeries, type HttpRequest, hungUp, type Svc } from 'svcdb'
import { SvcError } from 'svcdb/lib/errors'
import { inTurns, type Work } from 'svcdb/lib/event-loop'
import { moduleUrl } from 'svcdb/lib/modules'
import type { LabelMatcher } from '../ast.ts'
import { type PromqlConfig, parseLimits } from '../config.ts'
import type { TextArgs } from '../text-job.ts'
import { apiError } from './api-error.ts'
import { JsonWriter } from './json-writer.ts'
import { JSON_TYPE, type QueryApi } from './query-api.ts'

const JOB = moduleUrl('../text-job.ts', import.meta.url)
type Server = Svc['server']

/** Room for a time and a value. */
const POINT_BYTES = 80

export function exemplarsEndpoint(api: QueryApi, config: PromqlConfig): void {
  const limits = parseLimits(config)
  const options = { summary: 'Exemplars of the series that a query selects', methods: ['GET', 'POST'] as const, parameters: ['query', 'start', 'end'] as const }
  api.serve('/query_exemplars', options, async (params, request, reply) => {
    const { start = Number.NEGATIVE_INFINITY, end = Number.POSITIVE_INFINITY } = { start: params.time('start'), end: params.time('end') }
    if (end < start) throw apiError('bad_data', 'end timestamp must not be before start timestamp')
    const args: TextArgs = { query: params.get('query'), wanted: 'selectors', parseLimits: limits }
    const selectors = await api.run<LabelMatcher[][]>(request, JOB, args)
    const matchers = selectors.map((each) => each.map(({ name, op, value }) => ({ tag: name, op, value })))
    const kept = api.svc.find<Exemplars>(EXEMPLARS)
    const { dataNamespace } = api.svc.context(request)
    const { prom_max_result_bytes: maxBytes } = api.svc.server
    const found = kept === undefined ? [] : await inTurns(kept.select(dataNamespace, matchers, start, end), endOf(request, api.svc.server))
    reply.type(JSON_TYPE).send(await inTurns(answer(found, maxBytes)))
    return undefined
  })
}

/** Asks why the work should end: the caller has left, or its time is up. */
function endOf(request: HttpRequest, { prom_query_timeout_secs: secs }: Server): () => Error | undefined {
  const gone = hungUp(request)
  const last = secs === 0 ? Number.POSITIVE_INFINITY : performance.now() + secs * 1000
  return () => gone() ?? (performance.now() > last ? late(secs) : undefined)
}

function late(secs: number): SvcError {
  return new SvcError('QUERY_TIMEOUT', `the query did not end within ${secs} s; ask with fewer selectors, or raise server.prom_query_timeout_secs`)
}

/** @throws execution above so many bytes. */
function* answer(found: readonly ExemplarsOfSeries[], maxBytes: number): Work<Uint8Array> {
  const json = new JsonWriter()
  json.raw('{"status":"success","data":[')
  for (const [i, { series, exemplars }] of found.entries()) {
    json.raw(i === 0 ? '{"seriesLabels":' : ',{"seriesLabels":')
    labels(json, series)
    json.raw(',"exemplars":[')
    for (const [k, exemplar] of exemplars.entries()) {
      json.raw(k === 0 ? '{"labels":' : ',{"labels":')
      labels(json, sortedPairs(exemplar.labels))
      json.raw(',"value":')
      json.room(POINT_BYTES)
      json.number(exemplar.value)
      json.raw(',"timestamp":')
      json.room(POINT_BYTES)
      json.time(exemplar.time)
      json.raw('}')
      // One series may have all that are kept.
      if (json.length > maxBytes)
        throw apiError(
          'execution',
          `cannot answer with the exemplars: they are larger than ${maxBytes} bytes; narrow the range, or raise server.prom_max_result_bytes`,
        )
      yield
    }
    json.raw(']}')
  }
  json.raw(']}')
  const bytes = json.take()
  json.close()
  return bytes
}

function labels(json: JsonWriter, pairs: readonly string[]): void {
  json.raw('{')
  for (let i = 0; i + 1 < pairs.length; i += 2) {
    if (i > 0) json.raw(',')
    json.string(pairs[i])
    json.raw(':')
    json.string(pairs[i + 1])
  }
  json.raw('}')
}

/** As Prometheus shows them: by name. */
function sortedPairs(pairs: readonly string[]): string[] {
  const entries: [string, string][] = []
  for (let i = 0; i + 1 < pairs.length; i += 2) entries.push([pairs[i], pairs[i + 1]])
  return entries.sort(([a], [b]) => (a < b ? -1 : 1)).flat()
}
