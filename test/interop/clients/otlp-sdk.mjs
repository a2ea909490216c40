/** The OpenTelemetry SDK of JavaScript sends what otlp-sdk.test.ts knows of. Arguments: the URL, `proto` or `json`, `cumulative` or `delta`. */
import { DiagLogLevel, diag } from '@opentelemetry/api'
import { AggregationTemporalityPreference } from '@opentelemetry/exporter-metrics-otlp-http'
import { resourceFromAttributes } from '@opentelemetry/resources'
import { AggregationType, MeterProvider, PeriodicExportingMetricReader } from '@opentelemetry/sdk-metrics'

const [url, encoding, temporality] = process.argv.slice(2)
const { OTLPMetricExporter } = await import(`@opentelemetry/exporter-metrics-otlp-${encoding === 'proto' ? 'proto' : 'http'}`)

// What the exporter complains of goes to standard error, where the test looks.
const complain = (...words) => console.error(...words)
diag.setLogger({ error: complain, warn: complain, info() {}, debug() {}, verbose() {} }, DiagLogLevel.WARN)

const temporalityPreference = AggregationTemporalityPreference[temporality.toUpperCase()]
const exporter = new OTLPMetricExporter({ url: `${url}/v1/metrics`, compression: encoding === 'proto' ? 'gzip' : 'none', temporalityPreference })
const provider = new MeterProvider({
  resource: resourceFromAttributes({ 'service.name': 'shop', 'service.instance.id': 'i-1' }),
  readers: [new PeriodicExportingMetricReader({ exporter, exportIntervalMillis: 3_600_000 })],
  views: [{ instrumentName: 'app.size', aggregation: { type: AggregationType.EXPONENTIAL_HISTOGRAM } }],
})
const meter = provider.getMeter('interop', '1.0')
const requests = meter.createCounter('app.requests', { description: 'Requests served', unit: '{request}' })
const queue = meter.createUpDownCounter('app.queue')
const temperature = meter.createGauge('app.temperature', { unit: 'Cel' })
const latency = meter.createHistogram('app.latency', { unit: 's', advice: { explicitBucketBoundaries: [0.5, 1, 2] } })
const size = meter.createHistogram('app.size', { unit: 'By' })
let seconds = 0
meter.createObservableCounter('app.cpu', { unit: 's' }).addCallback((result) => result.observe((seconds += 1.5), { core: 7, busy: true, flags: ['a', 'b'] }))

requests.add(3, { route: '/ü' })
requests.add(4, { route: '/b' })
queue.add(5)
temperature.record(21.5)
for (const value of [0.1, 0.7, 3]) latency.record(value)
for (const value of [0, 1, 2, 4]) size.record(value)
await provider.forceFlush()
requests.add(2, { route: '/ü' })
queue.add(-2)
temperature.record(19.25)
latency.record(0.2)
size.record(8)
await provider.shutdown()
