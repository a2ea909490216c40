/** The node's tracer, if a plugin brings one: what requests and work inside the node ask for spans. */
import { inSpan, runSpan, type Span, type SpanOptions, type TraceContext, type Tracer } from './lib/trace/index.ts'

/** `Svc.tracing`: spans for what comes in and for work inside the node. Without a tracer nothing is recorded. */
export interface Tracing {
  /** Whether there is a tracer: known when all plugins are set up. */
  readonly on: boolean
  /** Gives the node its tracer; in setup. @throws Error where it has one. */
  tracer(tracer: Tracer): void
  /** A span for what comes in by a listener. @param from headers of the caller, unchecked. @returns undefined = it is not recorded. */
  begin(name: string, options?: SpanOptions, from?: TraceContext): Span | undefined
  /** What came in has failed, and `begin` did not record it: a tracer may keep it all the same. `options.start` says when it began. */
  failed(name: string, options: SpanOptions, from: TraceContext, error: unknown): void
  /**
   * Runs work inside the node, such as a timer's, as a trace of its own, whatever it was started by.
   * @param work gets its span; undefined = it is not recorded.
   */
  operation<T>(name: string, work: (span: Span | undefined) => T, options?: SpanOptions): T
}

const NOWHERE: TraceContext = {}

export class NodeTracing implements Tracing {
  private used: Tracer | undefined

  get on(): boolean {
    return this.used !== undefined
  }

  tracer(tracer: Tracer): void {
    if (this.used !== undefined) throw new Error('cannot use a second tracer: another plugin has brought one; select one of them')
    this.used = tracer
  }

  begin(name: string, options: SpanOptions = {}, from: TraceContext = NOWHERE): Span | undefined {
    return this.used?.begin(name, options, from)
  }

  failed(name: string, options: SpanOptions, from: TraceContext, error: unknown): void {
    this.used?.failed(name, options, from, error)
  }

  operation<T>(name: string, work: (span: Span | undefined) => T, options: SpanOptions = {}): T {
    if (this.used === undefined) return work(undefined)
    const span = this.used.begin(name, options, NOWHERE)
    if (span !== undefined) return runSpan(span, work)
    const start = Date.now()
    const failed = (error: unknown): void => this.used?.failed(name, { start, ...options }, NOWHERE, error)
    return inSpan(undefined, () => {
      try {
        const result = work(undefined)
        if (result instanceof Promise) result.catch(failed)
        return result
      } catch (error) {
        failed(error)
        throw error
      }
    })
  }
}
