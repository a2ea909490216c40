import { definePlugin, VERSION } from 'svcdb'
import { configSchema, resolved } from './config.ts'
import { endpointUrl } from './endpoint.ts'
import { type Exporting, openExporting } from './exporting.ts'
import { OtelTracer } from './tracer.ts'

export default definePlugin({
  id: 'tracing',
  summary: 'Sends traces of requests and of work inside the node to an OpenTelemetry Collector, by OTLP',
  stability: 'beta',
  needsSection: true,
  config: configSchema,
  setup(svc, given) {
    const config = resolved(given)
    const url = endpointUrl(config)
    let exporting: Exporting | undefined
    const spans = svc.metrics.counter(
      'tracing_spans_total',
      'Spans, by what became of them: sent, failed (the endpoint did not take them), dropped (no room)',
      ['result'],
    )
    for (const result of ['sent', 'failed', 'dropped']) spans.inc({ result }, 0)
    svc.metrics.gauge('tracing_waiting_spans', 'Spans that wait for the endpoint or are on their way', [], (gauge) => gauge.set(exporting?.waiting() ?? 0))
    svc.tracing.tracer(new OtelTracer({ config, sdk: () => exporting?.sdk, random: Math.random }))
    svc.start(async () => {
      exporting = await openExporting({ config, url, version: VERSION, log: svc.log, spans })
      const { sampling, ratio, parent } = config
      svc.log.info({ endpoint: url, sampling: sampling === 'ratio' ? `ratio ${ratio}` : sampling, parent }, 'traces are sent')
    })
    svc.stop(async () => {
      const open = exporting
      exporting = undefined
      await open?.close()
    })
  },
})
