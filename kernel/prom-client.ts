/**
 * What the node has of prom-client, module by module. Its index loads the push gateway, clusters and summaries as well, and 51 modules of OpenTelemetry for the
 * exemplars of one counter; exemplars.ts has those of histograms without it.
 */
import { createRequire } from 'node:module'
import type * as promClient from 'prom-client'

type Of<Name extends 'Counter' | 'Gauge' | 'Histogram' | 'Registry'> = (typeof promClient)[Name]
type DefaultMetric = (registry: promClient.Registry, config: { prefix: string; eventLoopMonitoringPrecision: number }) => void

const load = createRequire(import.meta.url)
export const Counter: Of<'Counter'> = load('prom-client/lib/counter.js')
export const Gauge: Of<'Gauge'> = load('prom-client/lib/gauge.js')
export const Histogram: Of<'Histogram'> = load('prom-client/lib/histogram.js')
export const Registry: Of<'Registry'> = load('prom-client/lib/registry.js')

/** All of prom-client's own but the processor time, in its order. */
const OF_THE_PROCESS = [
  'processStartTime',
  'osMemoryHeap',
  'processOpenFileDescriptors',
  'processMaxFileDescriptors',
  'eventLoopLag',
  'processResources',
  'processHandles',
  'processRequests',
  'heapSizeAndUsed',
  'heapSpacesSizeAndUsed',
  'version',
  'gc',
]

export function collectDefaultMetrics(registry: promClient.Registry, prefix: string): void {
  processorTime(registry, prefix)
  for (const name of OF_THE_PROCESS) (load(`prom-client/lib/metrics/${name}.js`) as DefaultMetric)(registry, { prefix, eventLoopMonitoringPrecision: 10 })
}

function processorTime(registry: promClient.Registry, prefix: string): void {
  let before = process.cpuUsage()
  const registers = [registry]
  const user = new Counter({
    name: `${prefix}process_cpu_user_seconds_total`,
    help: 'Total user CPU time spent in seconds.',
    registers,
    collect() {
      const now = process.cpuUsage()
      user.inc((now.user - before.user) / 1e6)
      system.inc((now.system - before.system) / 1e6)
      both.inc((now.user - before.user + now.system - before.system) / 1e6)
      before = now
    },
  })
  const system = new Counter({ name: `${prefix}process_cpu_system_seconds_total`, help: 'Total system CPU time spent in seconds.', registers })
  const both = new Counter({ name: `${prefix}process_cpu_seconds_total`, help: 'Total user and system CPU time spent in seconds.', registers })
}
