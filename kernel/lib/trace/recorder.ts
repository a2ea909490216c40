/** Spans of another thread: kept there as plain records, which cross to the thread that has the tracer. */
import type { Attributes, AttributeValue, Span, SpanOptions } from './span.ts'

/** A span that has ended, as plain data. */
export interface SpanRecord {
  name: string
  /** Place of its parent among the records; -1 = none. */
  parent: number
  /** Milliseconds since the Unix epoch, with fractions. */
  start: number
  end: number
  attributes: Record<string, AttributeValue>
  error?: string
}

/** What is over it is not recorded. */
const MAX_RECORDS = 256

/** A span that records nothing. */
const NOTHING: Span = { traceId: '', spanId: '', tracestate: undefined, child: () => NOTHING, set() {}, fail() {}, end() {} }

/** Gathers the spans of one operation. */
export class SpanRecorder {
  readonly records: SpanRecord[] = []
  readonly span: Span
  /** Wall clock at the zero of the monotonic one: steps of the clock do not show within a trace. */
  private readonly epoch = Date.now() - performance.now()

  constructor(name: string) {
    this.span = this.begin(-1, name, {})
  }

  private begin(parent: number, name: string, { start, attributes }: { start?: number; attributes?: Attributes }): Span {
    const { records } = this
    if (records.length >= MAX_RECORDS) return NOTHING
    const at = records.length
    const record: SpanRecord = { name, parent, start: start ?? this.now(), end: 0, attributes: { ...attributes } }
    records.push(record)
    return {
      ...{ traceId: '', spanId: '', tracestate: undefined },
      child: (below: string, options: SpanOptions = {}) => this.begin(at, below, options),
      set: (key, value) => {
        record.attributes[key] = value
      },
      fail: (error) => {
        record.error = String((error as Error | undefined)?.message ?? error)
      },
      end: (when = this.now()) => {
        if (record.end === 0) record.end = when
      },
    }
  }

  private now(): number {
    return this.epoch + performance.now()
  }
}

/** Records of another thread become spans below this one. @param notBefore the clocks of two threads differ by up to a millisecond: none begins earlier. */
export function replaySpans(records: readonly SpanRecord[], below: Span, notBefore: number): void {
  const late = Math.max(0, notBefore - (records[0]?.start ?? notBefore))
  const spans: Span[] = []
  for (const { name, parent, start, attributes } of records) spans.push((parent < 0 ? below : spans[parent]).child(name, { start: start + late, attributes }))
  for (const [i, { start, end, error }] of records.entries()) {
    if (error !== undefined) spans[i].fail(new Error(error))
    // One that was never ended was cut short.
    spans[i].end(Math.max(end, start) + late)
  }
}
