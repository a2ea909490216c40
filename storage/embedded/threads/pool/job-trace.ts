/** The span of a job: how long it waits for a thread, how long it runs, and what the thread says of the run. */
import { replaySpans, type Span, type SpanRecord, startSpan } from 'svcdb/lib/trace'

export class JobTrace {
  private readonly span: Span
  private readonly wait: Span
  private startedAt = 0

  private constructor(span: Span) {
    this.span = span
    this.wait = span.child('wait for a thread')
  }

  /** Undefined where nothing is recorded. @param module of the job, which is named by its file. */
  static begin(module: URL): JobTrace | undefined {
    const span = startSpan('engine job')
    span?.set('svc.job', module.pathname.split('/').slice(-2).join('/'))
    return span === undefined ? undefined : new JobTrace(span)
  }

  started(): void {
    this.startedAt = Date.now()
    this.wait.end()
  }

  recorded(records: readonly SpanRecord[]): void {
    replaySpans(records, this.span, this.startedAt)
  }

  ended(error?: Error): void {
    this.wait.end()
    if (error !== undefined) this.span.fail(error)
    this.span.end()
  }
}
