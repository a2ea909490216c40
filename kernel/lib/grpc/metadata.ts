/** A call's metadata: HTTP/2 headers with gRPC's rules for what they may hold. */
import { randomUUID } from 'node:crypto'
import { SvcError } from '../errors/index.ts'
import type { TraceContext } from '../trace/index.ts'

/** gRPC over HTTP/2, "Custom-Metadata": ASCII values are printable. HTTP/2 itself lets bytes from 0x80 on through, as Latin-1. */
const PRINTABLE = /^[\x20-\x7e]*$/
const TIMEOUT = /^(\d{1,8})([HMSmun])$/
const UNIT_MS: Record<string, number> = { H: 3_600_000, M: 60_000, S: 1000, m: 1, u: 1e-3, n: 1e-6 }
/** Ids that callers may choose: safe in a header and a log line. */
const REQUEST_ID = /^[\w.:/+=@-]{1,128}$/
/** W3C Trace Context, "traceparent Header". */
const TRACEPARENT = /^[\da-f]{2}-[\da-f]{32}-[\da-f]{16}-[\da-f]{2}(-[\x21-\x7e]*)?$/
const MAX_TRACESTATE = 512
/** Of each field, besides its name and value. */
const FIELD_BYTES = 32

/** What each proxy on the way may write a line of its own for; as in HTTP, several lines are one list (RFC 9110, section 5.3). */
const LISTS: ReadonlySet<string> = new Set(['x-forwarded-for', 'forwarded', 'x-real-ip'])

export class Metadata {
  /** As HTTP/2 counts them (RFC 9113, section 6.5.2). */
  readonly bytes: number
  private readonly values = new Map<string, string>()

  /** @param raw names and values in turn, as they came; the first value of a name counts, of lists all do, without the space around it. */
  constructor(raw: readonly string[]) {
    let bytes = 0
    for (let i = 0; i + 1 < raw.length; i += 2) {
      const name = raw[i]
      bytes += name.length + raw[i + 1].length + FIELD_BYTES
      const before = this.values.get(name)
      if (before === undefined) this.values.set(name, raw[i + 1].trim())
      else if (LISTS.has(name)) this.values.set(name, `${before}, ${raw[i + 1].trim()}`)
    }
    this.bytes = bytes
  }

  get(key: string): string | undefined {
    return this.values.get(key)
  }

  /** @throws BAD_REQUEST naming a key whose value is no text that gRPC allows: it would otherwise be taken for absent. */
  check(): void {
    for (const [key, value] of this.values) {
      if (key[0] !== ':' && !PRINTABLE.test(value)) {
        throw new SvcError(
          'BAD_REQUEST',
          `cannot read metadata "${key}": its value has bytes that are no printable ASCII; use a key ending in -bin for other bytes`,
        )
      }
    }
  }

  /** Milliseconds that the client gives the call; undefined = no limit. @throws BAD_REQUEST. */
  timeoutMs(): number | undefined {
    const text = this.get('grpc-timeout')
    if (text === undefined) return undefined
    const match = TIMEOUT.exec(text)
    if (match === null) throw new SvcError('BAD_REQUEST', `cannot use grpc-timeout "${text.slice(0, 32)}": write up to 8 digits and a unit of H, M, S, m, u, n`)
    return Number(match[1]) * UNIT_MS[match[2]]
  }

  /** The caller's id of the call, or a new one. */
  requestId(): string {
    const given = this.get('x-request-id')
    return given !== undefined && REQUEST_ID.test(given) ? given : randomUUID()
  }

  /** Trace context as it came, unchecked. */
  context(): TraceContext {
    return { traceparent: this.get('traceparent'), tracestate: this.get('tracestate') }
  }

  /** The trace that the call is a part of, for the answer's headers. */
  trace(): Record<string, string> {
    const traceparent = this.get('traceparent')
    if (traceparent === undefined || !TRACEPARENT.test(traceparent)) return {}
    const tracestate = this.get('tracestate')
    return tracestate === undefined || tracestate.length > MAX_TRACESTATE || !PRINTABLE.test(tracestate) ? { traceparent } : { traceparent, tracestate }
  }
}
