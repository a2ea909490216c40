/** What tools ask a Prometheus server about itself. Answers are those of a server that scrapes nothing and has no rules. */
import { availableParallelism, hostname } from 'node:os'
import { administersServer, type HttpRequest, VERSION } from 'svcdb'
import { jsonDigits } from 'svcdb/lib/json'
import { moduleUrl } from 'svcdb/lib/modules'
import type { PromqlConfig } from '../config.ts'
import type { CountsArgs } from '../counts-job.ts'
import type { DatabaseCounts } from '../discovery-contract.ts'
import { apiError } from './api-error.ts'
import { FEATURE_FLAGS, featuresOf } from './features.ts'
import { integerOf } from './params.ts'
import type { QueryApi } from './query-api.ts'

const COUNTS = moduleUrl('../counts-job.ts', import.meta.url)
/** The Prometheus release whose language and API these are: clients choose what they ask for by it. */
const COMPATIBLE_VERSION = '3.16.0'
/** A head block without samples has these times in Prometheus, whose page shows no dates for them. Here there is no head block. */
const NO_HEAD = { chunkCount: 0, minTime: jsonDigits(2n ** 63n - 1n), maxTime: jsonDigits(-(2n ** 63n)) }
const DEFAULT_COUNTS = 10
const MAX_COUNTS = 10_000

export function statusEndpoints(api: QueryApi, config: PromqlConfig): void {
  const { svc } = api
  const get = (path: string, summary: string, data: (params: unknown, request: HttpRequest) => unknown): void =>
    api.serve(path, { summary, methods: ['GET'] }, data)

  const startTime = new Date(svc.clock.now()).toISOString()
  get('/status/buildinfo', 'The version of Prometheus that this is compatible with', () => ({
    version: COMPATIBLE_VERSION,
    revision: `svc-${VERSION}`,
    branch: 'svc',
    buildUser: '',
    // The sources are compiled when the process starts.
    buildDate: buildDateOf(startTime),
    goVersion: '',
  }))

  get('/status/runtimeinfo', 'The process', (_params, request) => {
    const ofMachine = administersServer(svc.context(request)) ? { CWD: process.cwd(), hostname: hostname() } : { CWD: '', hostname: '' }
    return {
      startTime,
      ...ofMachine,
      serverTime: new Date(svc.clock.now()).toISOString(),
      reloadConfigSuccess: true,
      lastConfigTime: startTime,
      corruptionCount: 0,
      goroutineCount: 0,
      GOMAXPROCS: availableParallelism(),
      GOMEMLIMIT: 0,
      GOGC: '',
      GODEBUG: '',
      storageRetention: '',
    }
  })

  const features = featuresOf(config.admin_api === 'on')
  get('/features', "Capabilities under Prometheus' names", () => features)

  get('/status/flags', "Settings under the names of Prometheus' flags", () => ({
    'enable-feature': FEATURE_FLAGS,
    'query.lookback-delta': `${config.lookback_delta_secs}s`,
    'query.timeout': `${svc.server.prom_query_timeout_secs}s`,
    'storage.remote.read-max-bytes-in-frame': String(config.remote_read_max_bytes_in_frame),
    'storage.remote.read-sample-limit': String(config.remote_read_sample_limit),
  }))

  const yaml = configYaml(config)
  get('/status/config', 'The part of the configuration that Prometheus has too', () => ({ yaml }))

  // The log is replayed before the listener opens.
  get('/status/walreplay', 'Replay of the write-ahead log: done', () => ({ min: 0, max: 0, current: 0 }))

  api.serve('/status/tsdb', { summary: 'Series by metric and label', methods: ['GET'], parameters: ['limit'] }, async (params, request) => {
    const args: CountsArgs = {
      namespace: svc.context(request).dataNamespace,
      maxHeldBytes: svc.server.max_held_memory,
      limit: countsLimit(params.get('limit')),
    }
    return tsdbStatus(await api.run<DatabaseCounts>(request, COUNTS, args))
  })

  // Exempt by [auth] exempt_paths, unless that says otherwise.
  for (const [path, summary, is] of [
    ['/-/healthy', 'Answers while the process runs', () => true],
    ['/-/ready', 'Whether the node takes questions and writes; GET /ready says why it does not', () => svc.notReady() === undefined],
  ] as const) {
    svc.http.get(path, { config: { action: 'read' }, schema: { summary, produces: ['text/plain'] } }, async (_request, reply) => {
      const text = `svc is ${is() ? '' : 'not '}${path.slice(3)}\n`
      return reply
        .code(is() ? 200 : 503)
        .type('text/plain; charset=utf-8')
        .send(text)
    })
  }

  get('/targets', 'Targets: none are scraped', () => ({ activeTargets: [], droppedTargets: [], droppedTargetCounts: {} }))
  get('/targets/metadata', 'Metadata of targets: none are scraped', () => [])
  get('/scrape_pools', 'Scrape pools: there are none', () => ({ scrapePools: [] }))
  get('/alertmanagers', 'Alertmanagers: there are none', () => ({ activeAlertmanagers: [], droppedAlertmanagers: [] }))
}

/** YYYYMMDD-hh:mm:ss. @param time ISO 8601, in UTC */
function buildDateOf(time: string): string {
  const [day, clock] = time.split('T')
  return `${day.replaceAll('-', '')}-${clock.slice(0, 8)}`
}

function countsLimit(text: string): number {
  if (text === '') return DEFAULT_COUNTS
  const limit = integerOf(text)
  if (limit === undefined || limit < 1) throw apiError('bad_data', 'limit must be a positive number')
  if (limit > MAX_COUNTS) throw apiError('bad_data', `limit must not exceed ${MAX_COUNTS}`)
  return limit
}

function tsdbStatus(counts: DatabaseCounts): unknown {
  return {
    headStats: { numSeries: counts.series, numLabelPairs: counts.labelPairs, ...NO_HEAD },
    seriesCountByMetricName: counts.seriesByMetric,
    labelValueCountByLabelName: counts.valuesByLabel,
    memoryInBytesByLabelName: counts.bytesByLabel,
    seriesCountByLabelValuePair: counts.seriesByPair,
  }
}

/** A text of JSON is one of YAML, too. */
function configYaml({ default_evaluation_interval_secs, external_labels }: PromqlConfig): string {
  const labels = Object.entries(external_labels).map(([name, value]) => `    ${JSON.stringify(name)}: ${JSON.stringify(value)}\n`)
  const external = labels.length === 0 ? '' : `  external_labels:\n${labels.join('')}`
  return `global:\n  evaluation_interval: ${default_evaluation_interval_secs}s\n${external}`
}
