/** W3C Trace Context: what callers send, none of it believed, and what is sent to others. */
import type { Span } from './span.ts'

/** The headers, or metadata of gRPC, as they came or as they go out. */
export interface TraceContext {
  traceparent?: string | undefined
  tracestate?: string | undefined
}

/** The span of a caller, as its headers name it. Ids are hexadecimal digits. */
export interface RemoteParent {
  traceId: string
  spanId: string
  sampled: boolean
  tracestate: string | undefined
}

/** Section 3.2.2, "traceparent Header Field Values"; versions to come may have more behind a further dash, and `ff` is none. */
const TRACEPARENT = /^(?!ff)([\da-f]{2})-(?!0{32})([\da-f]{32})-(?!0{16})([\da-f]{16})-([\da-f]{2})(-[\x21-\x7e]*)?$/
const MAX_TRACEPARENT = 256
/** Section 3.3.1.5, "tracestate Limits": what everybody has to pass on. What is longer is dropped as a whole. */
const MAX_TRACESTATE = 512
const MAX_MEMBERS = 32
const PRINTABLE = /^[\x20-\x7e]+$/

/** Whoever asks, where the headers say so in the form of the standard; otherwise the trace begins here. */
export function remoteParent({ traceparent, tracestate }: TraceContext): RemoteParent | undefined {
  if (traceparent === undefined || traceparent.length > MAX_TRACEPARENT) return undefined
  const match = TRACEPARENT.exec(traceparent)
  if (match === null || (match[1] === '00' && match[5] !== undefined)) return undefined
  const [, , traceId, spanId, flags] = match
  return { traceId, spanId, sampled: (Number.parseInt(flags, 16) & 1) === 1, tracestate: boundedState(tracestate) }
}

function boundedState(text: string | undefined): string | undefined {
  if (text === undefined || text.length > MAX_TRACESTATE || !PRINTABLE.test(text)) return undefined
  return text.split(',', MAX_MEMBERS + 1).length > MAX_MEMBERS ? undefined : text
}

/** The header for whoever is asked on behalf of a span that is recorded. */
export function traceparentOf({ traceId, spanId }: Pick<Span, 'traceId' | 'spanId'>): string {
  return `00-${traceId}-${spanId}-01`
}

/** Headers for whoever is asked on behalf of a span; none without one. */
export function traceHeaders(span: Span | undefined): Record<string, string> {
  if (span === undefined) return {}
  const traceparent = traceparentOf(span)
  return span.tracestate === undefined ? { traceparent } : { traceparent, tracestate: span.tracestate }
}
