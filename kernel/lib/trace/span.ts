/** What a tracer is, and the spans it gives: OpenTelemetry's model with nothing of OpenTelemetry in it. */
import type { TraceContext } from './trace-context.ts'

/** A value that OpenTelemetry's attributes may have. */
export type AttributeValue = string | number | boolean

/** Attributes by name. */
export type Attributes = Readonly<Record<string, AttributeValue>>

/** Who is at the other end: `server` and `consumer` were asked, `client` and `producer` ask, `internal` is neither. */
export type SpanKind = 'internal' | 'server' | 'client' | 'producer' | 'consumer'

/** What is known of a span when it begins. */
export interface SpanOptions {
  kind?: SpanKind
  attributes?: Attributes
  /** Milliseconds since the Unix epoch, with fractions; default now. */
  start?: number
}

/** One operation under way that is recorded. */
export interface Span {
  /** 32 hexadecimal digits. */
  readonly traceId: string
  /** 16 hexadecimal digits. */
  readonly spanId: string
  /** As it came with the trace, for others who are asked on its behalf. */
  readonly tracestate: string | undefined
  /** A span below this one, which whoever asks for it ends. */
  child(name: string, options?: SpanOptions): Span
  set(name: string, value: AttributeValue): void
  /** It has failed, by this. */
  fail(error: unknown): void
  /** @param at milliseconds since the Unix epoch, with fractions; default now. Once: later calls do nothing. */
  end(at?: number): void
}

/** What a plugin brings that records traces. */
export interface Tracer {
  /**
   * A span without a parent on this node.
   * @param from whoever asks from elsewhere, unchecked. @returns undefined = it is not recorded, and neither is what happens below it.
   */
  begin(name: string, options: SpanOptions, from: TraceContext): Span | undefined
  /** An operation has failed that `begin` did not record. It ends now; `options.start` says when it began. */
  failed(name: string, options: SpanOptions, from: TraceContext, error: unknown): void
}
