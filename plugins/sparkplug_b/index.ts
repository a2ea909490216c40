import { definePlugin, pointFormat } from 'svcdb'
import { configSchema } from './config.ts'
import { type SparkplugReader, sparkplugFormat } from './format.ts'
import { sparkplugMetrics } from './metrics.ts'

export default definePlugin({
  id: 'sparkplug_b',
  summary: 'Reads Sparkplug B, which edge nodes and devices of plants publish over MQTT',
  stability: 'beta',
  config: configSchema,
  capabilities: ['points'],
  provides: [pointFormat('sparkplug_b')],
  setup(svc, config) {
    const readers = new Set<SparkplugReader>()
    const metrics = sparkplugMetrics(svc.metrics, () => [...readers].reduce((sum, { known }) => sum + known, 0))
    svc.provide(pointFormat('sparkplug_b'), sparkplugFormat(svc, config, metrics, readers))
  },
})
