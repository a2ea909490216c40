export { currentSpan, inSpan, runSpan, startSpan, traced } from './current.ts'
export { replaySpans, type SpanRecord, SpanRecorder } from './recorder.ts'
export type { Attributes, AttributeValue, Span, SpanKind, SpanOptions, Tracer } from './span.ts'
export { type RemoteParent, remoteParent, type TraceContext, traceHeaders, traceparentOf } from './trace-context.ts'
