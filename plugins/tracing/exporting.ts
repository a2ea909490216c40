/**
 * The way of spans to a collector: OpenTelemetry's batches and exporters, within a bound that counts what waits and what is on its way, and with one line in
 * the log when the collector cannot be reached and one when it can be again.
 */
import type { BatchSpanProcessor, ReadableSpan, SpanExporter, SpanProcessor } from '@opentelemetry/sdk-trace'
import type { Counter, Logger } from 'svcdb'
import type { TracingConfig } from './config.ts'
import { timedAgent } from './timed-agent.ts'
import type { Sdk } from './tracer.ts'

/** A stop waits for what is left to be sent, and for no longer. */
const STOP_MS = 2000
/** Of one attribute. */
const MAX_VALUE = 1024
const MAX_ATTRIBUTES = 32

type Report = Parameters<SpanExporter['export']>[1]

interface ExportingOptions {
  config: TracingConfig
  /** Of the endpoint, with port and path. */
  url: string
  version: string
  log: Pick<Logger, 'info' | 'warn'>
  /** By `result`: sent, failed, dropped. */
  spans: Counter
}

/** Counts what has ended and is neither sent nor given up, and tells of failures once. */
class Watched implements SpanExporter {
  waiting = 0
  private failing = false
  private readonly inner: SpanExporter
  private readonly options: Pick<ExportingOptions, 'url' | 'log' | 'spans'>

  constructor(inner: SpanExporter, options: Pick<ExportingOptions, 'url' | 'log' | 'spans'>) {
    this.inner = inner
    this.options = options
  }

  export(spans: ReadableSpan[], done: Report): void {
    const { url, log, spans: counter } = this.options
    this.inner.export(spans, (result) => {
      this.waiting -= spans.length
      const failed = result.code !== 0
      counter.inc({ result: failed ? 'failed' : 'sent' }, spans.length)
      if (failed && !this.failing)
        log.warn({ err: result.error, endpoint: url }, 'cannot send spans; what cannot be kept is dropped until they are taken again')
      if (!failed && this.failing) log.info({ endpoint: url }, 'spans are taken again')
      this.failing = failed
      done(result)
    })
  }

  forceFlush(): Promise<void> {
    return this.inner.forceFlush?.() ?? Promise.resolve()
  }

  shutdown(): Promise<void> {
    return this.inner.shutdown()
  }
}

export interface Exporting {
  sdk: Sdk
  /** Spans that wait or are on their way. */
  waiting(): number
  /** Sends what is left, and waits a moment for it. */
  close(): Promise<void>
}

/** Loads the SDK, which nothing else does: 30 MiB that a node without tracing does not have. */
export async function openExporting(options: ExportingOptions): Promise<Exporting> {
  const { config, version, spans } = options
  const [api, sdk, { defaultResource, resourceFromAttributes }] = await Promise.all([
    import('@opentelemetry/api'),
    import('@opentelemetry/sdk-trace'),
    import('@opentelemetry/resources'),
  ])
  const watched = new Watched(await exporterOf(options), options)
  const batches = new sdk.BatchSpanProcessor({
    exporter: watched,
    maxQueueSize: config.queue_size,
    maxExportBatchSize: Math.min(config.batch_size, config.queue_size),
    scheduledDelayMillis: config.interval_secs * 1000,
    exportTimeoutMillis: config.timeout_secs * 1000 + 1000,
  })
  const resource = defaultResource().merge(resourceFromAttributes({ ...config.attributes, 'service.name': config.service_name, 'service.version': version }))
  const provider = new sdk.TracerProvider({
    resource,
    // What is not to be recorded is never begun.
    sampler: new sdk.AlwaysOnSampler(),
    spanProcessors: [counted(batches, watched, options)],
    spanLimits: { attributeValueLengthLimit: MAX_VALUE, attributeCountLimit: MAX_ATTRIBUTES },
  })
  return {
    sdk: {
      tracer: provider.getTracer('svc', version),
      trace: api.trace,
      root: api.ROOT_CONTEXT,
      traceState: (text) => api.createTraceState(text),
      full() {
        if (watched.waiting < config.queue_size) return false
        spans.inc({ result: 'dropped' })
        return true
      },
    },
    waiting: () => watched.waiting,
    async close() {
      let timer: NodeJS.Timeout | undefined
      const late = new Promise<void>((resolve) => {
        timer = setTimeout(resolve, STOP_MS)
      })
      await Promise.race([provider.shutdown().catch(() => {}), late])
      clearTimeout(timer)
    },
  }
}

/** The SDK's queue drops what is over its bound without a word, and does not count what is being sent. */
function counted(inner: BatchSpanProcessor, watched: Watched, { config, spans }: ExportingOptions): SpanProcessor {
  return {
    onStart() {},
    onEnd(span: ReadableSpan) {
      // One that was begun while there was room.
      if (watched.waiting >= config.queue_size) return spans.inc({ result: 'dropped' })
      watched.waiting++
      inner.onEnd(span)
    },
    forceFlush: () => inner.forceFlush(),
    shutdown: () => inner.shutdown(),
  }
}

async function exporterOf({ config, url }: ExportingOptions): Promise<SpanExporter> {
  const timeoutMillis = config.timeout_secs * 1000
  const authorization = config.authorization?.reveal()
  if (config.protocol === 'http_protobuf') {
    const { OTLPTraceExporter } = await import('@opentelemetry/exporter-trace-otlp-proto')
    const { Agent } = await (url.startsWith('https:') ? import('node:https') : import('node:http'))
    const httpAgentOptions = () => timedAgent(Agent, timeoutMillis)
    return new OTLPTraceExporter({ url, timeoutMillis, httpAgentOptions, ...(authorization === undefined ? {} : { headers: { authorization } }) })
  }
  const { OTLPTraceExporter } = await import('@opentelemetry/exporter-trace-otlp-grpc')
  if (authorization === undefined) return new OTLPTraceExporter({ url, timeoutMillis })
  const { Metadata } = await import('@grpc/grpc-js')
  const metadata = new Metadata()
  metadata.set('authorization', authorization)
  return new OTLPTraceExporter({ url, timeoutMillis, metadata })
}
