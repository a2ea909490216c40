/** Spans of the node as spans of OpenTelemetry's SDK. */
import type { Attributes, Context, Span as SdkSpan, Tracer as SdkTracer, SpanContext, TraceAPI } from '@opentelemetry/api'
import type { Span, SpanKind, SpanOptions, Tracer } from 'svcdb'
import { classify } from 'svcdb/lib/errors'
import type { RemoteParent, TraceContext } from 'svcdb/lib/trace'
import type { TracingConfig } from './config.ts'
import { parentOf, sample } from './sampling.ts'

/** SpanKind of the API, whose module is loaded when tracing starts. */
const KINDS: Record<SpanKind, number> = { internal: 0, server: 1, client: 2, producer: 3, consumer: 4 }
const ERROR = 2
const SAMPLED = 1
/** Of the text of an error. */
const MAX_MESSAGE = 512

/** What a span is made with. */
export interface Sdk {
  tracer: SdkTracer
  trace: Pick<TraceAPI, 'setSpan' | 'setSpanContext'>
  root: Context
  traceState(text: string): SpanContext['traceState']
  /** Whether there is no room for another span; one that is not recorded for it is counted. */
  full(): boolean
}

interface TracerOptions {
  config: Pick<TracingConfig, 'sampling' | 'ratio' | 'parent' | 'always_sample_errors' | 'max_trace_spans'>
  /** Undefined until it is loaded, and once it is closed. */
  sdk(): Sdk | undefined
  random(): number
}

export class OtelTracer implements Tracer {
  private readonly options: TracerOptions

  constructor(options: TracerOptions) {
    this.options = options
  }

  begin(name: string, options: SpanOptions, from: TraceContext): Span | undefined {
    const { config, random } = this.options
    const sdk = this.options.sdk()
    if (sdk === undefined) return undefined
    const sampled = sample(config, from, random)
    if (sampled === undefined || sdk.full()) return undefined
    return this.start(sdk, name, options, sampled.parent)
  }

  failed(name: string, options: SpanOptions, from: TraceContext, error: unknown): void {
    const { config } = this.options
    const sdk = this.options.sdk()
    if (sdk === undefined || !config.always_sample_errors || sdk.full()) return
    const span = this.start(sdk, name, options, parentOf(config, from))
    span.fail(error)
    span.end()
  }

  private start(sdk: Sdk, name: string, options: SpanOptions, parent: RemoteParent | undefined): Span {
    const trace = new Trace(sdk, this.options.config.max_trace_spans, parent?.tracestate)
    const context = parent === undefined ? sdk.root : sdk.trace.setSpanContext(sdk.root, contextOf(parent, sdk))
    return trace.start(name, options, context)
  }
}

function contextOf({ traceId, spanId, tracestate }: RemoteParent, sdk: Sdk): SpanContext {
  const state = tracestate === undefined ? undefined : sdk.traceState(tracestate)
  return { traceId, spanId, traceFlags: SAMPLED, isRemote: true, ...(state === undefined ? {} : { traceState: state }) }
}

/** What the spans of one operation share. */
class Trace {
  readonly sdk: Sdk
  readonly tracestate: string | undefined
  private left: number
  /** Wall clock at the zero of the monotonic one: steps of the clock do not show within a trace. */
  private readonly epoch = Date.now() - performance.now()

  constructor(sdk: Sdk, maxSpans: number, tracestate: string | undefined) {
    this.sdk = sdk
    this.left = maxSpans
    this.tracestate = tracestate
  }

  get room(): boolean {
    return this.left > 0 && !this.sdk.full()
  }

  start(name: string, { kind = 'internal', attributes = {}, start = this.now() }: SpanOptions, context: Context): Span {
    this.left--
    const options = { kind: KINDS[kind], attributes: attributes as Attributes, startTime: start }
    return new OtelSpan(this, this.sdk.tracer.startSpan(name, options, context))
  }

  now(): number {
    return this.epoch + performance.now()
  }
}

class OtelSpan implements Span {
  private readonly trace: Trace
  private readonly span: SdkSpan
  private over = false

  constructor(trace: Trace, span: SdkSpan) {
    this.trace = trace
    this.span = span
  }

  get traceId(): string {
    return this.span.spanContext().traceId
  }

  get spanId(): string {
    return this.span.spanContext().spanId
  }

  get tracestate(): string | undefined {
    return this.trace.tracestate
  }

  child(name: string, options: SpanOptions = {}): Span {
    const { trace, span } = this
    if (!trace.room) return new Unrecorded(this)
    return trace.start(name, options, trace.sdk.trace.setSpan(trace.sdk.root, span))
  }

  set(name: string, value: string | number | boolean): void {
    if (!this.over) this.span.setAttribute(name, value)
  }

  fail(error: unknown): void {
    if (this.over) return
    const known = typeof error === 'string' ? undefined : classify(error)
    this.span.setAttribute('error.type', known?.code ?? '_OTHER')
    this.span.setStatus({ code: ERROR, message: (known?.message ?? String(error)).slice(0, MAX_MESSAGE) })
  }

  end(at = this.trace.now()): void {
    if (this.over) return
    this.over = true
    this.span.end(at)
  }
}

/** In the place of a span for which there is no room: what asks others on its behalf names the one above. */
class Unrecorded implements Span {
  readonly traceId: string
  readonly spanId: string
  readonly tracestate: string | undefined

  constructor({ traceId, spanId, tracestate }: Span) {
    this.traceId = traceId
    this.spanId = spanId
    this.tracestate = tracestate
  }

  child(): Span {
    return this
  }

  set(): void {}
  fail(): void {}
  end(): void {}
}
