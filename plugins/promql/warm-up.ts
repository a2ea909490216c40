/** Queries of the kinds that dashboards send, so that their code is compiled before somebody waits for it. */
import { moduleUrl } from 'svcdb/lib/modules'
import { WARM_UP_ROWS, type WarmUp } from 'svcdb/lib/warm-up'
import type { DiscoveryJobArgs } from './discovery-job.ts'
import type { QueryJobArgs } from './query-job.ts'

const { namespace, measurement, metric, hosts, start, end } = WARM_UP_ROWS
const LIMIT = 10_000
const MAX_BYTES = 1 << 26
const PARSE_LIMITS = { maxLength: 10_000, maxDepth: 100 }
const SPAN_MS = 3_600_000

export const queryWarmUp: WarmUp = {
  module: moduleUrl('./query-job.ts', import.meta.url),
  args: (round) =>
    expressions(round).map((query, i): QueryJobArgs => {
      const last = end * 1000 - round * 1000
      const step = (round + i) % 2 === 0 ? 15_000 : 60_000
      const instant = (round + i) % 3 === 0
      return {
        namespace,
        query,
        parseLimits: PARSE_LIMITS,
        steps: instant ? { start: last, interval: 0, count: 1 } : { start: last - SPAN_MS, interval: step, count: SPAN_MS / step + 1 },
        end: last,
        lookbackMs: 300_000,
        defaultStepMs: 60_000,
        seriesLimit: LIMIT,
        maxResultBytes: MAX_BYTES,
        memoryBytes: MAX_BYTES,
        maxHeldBytes: 0,
        stats: '',
      }
    }),
}

export const discoveryWarmUp: WarmUp = {
  module: moduleUrl('./discovery-job.ts', import.meta.url),
  args(round) {
    const common = { namespace, start: start * 1000, end: end * 1000, limit: LIMIT, maxResultBytes: MAX_BYTES, maxHeldBytes: 0, parseLimits: PARSE_LIMITS }
    const selectors = [`${metric}{zone="z${round % 4}"}`]
    const args: DiscoveryJobArgs[] = [
      { ...common, wanted: 'values', label: 'host', selectors: [] },
      { ...common, wanted: 'series', selectors },
    ]
    return args
  },
}

function expressions(round: number): string[] {
  const load = `${measurement}_load`
  const one = `{host="h${round % hosts}"}`
  const some = `{host=~"${[0, 3, 5, 11].map((i) => `h${(round + i) % hosts}`).join('|')}"}`
  return [
    `max_over_time(${load}${one}[1m])`,
    `${load}${one}`,
    `sum by (zone) (rate(${metric}[5m]))`,
    `max(max_over_time(${load}${some}[1m])) or label_replace(max(max_over_time(${measurement}_temperature${some}[1m])), "field", "temperature", "", "")`,
    `avg by (host) (avg_over_time(${load}[10m]))`,
    `topk(${3 + (round % 3)}, avg_over_time(${load}[10m]))`,
    `sum(${load}) / count(${load} > ${round % 50})`,
    `sum by (zone) (${metric})`,
    `rate(${metric}${some}[1m]) * 8`,
    `sum(count_over_time((${load} > ${50 + (round % 40)})[30m:10s]))`,
    `last_over_time(${measurement}_bytes[1h])`,
    `histogram_quantile(0.9, sum by (le) (label_replace(rate(${metric}[1m]), "le", "$1", "host", "h(.+)")))`,
  ]
}
