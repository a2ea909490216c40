/** What a listener needs of the server that it belongs to. `Svc`, what svc hands a plugin, is one. */
import type { KnownHosts, TlsSettings } from '../network/index.ts'
import type { Span, SpanOptions, TraceContext } from '../trace/index.ts'
import type { GrpcAction, GrpcCredentials } from './method.ts'

/** What a listener needs of a log; pino's loggers have it. */
export interface GrpcLog {
  debug(fields: object, message: string): void
  info(fields: object, message: string): void
  warn(fields: object, message: string): void
  error(fields: object, message: string): void
  isLevelEnabled(level: string): boolean
}

/** Names come without the server's prefix. */
export interface GrpcMetrics {
  counter(name: string, help: string, labels: readonly string[]): { inc(labels: Record<string, string>): void }
  /** @param collect sets the value at each scrape. */
  gauge(name: string, help: string, labels: readonly string[], collect: (gauge: { set(value: number): void }) => void): { set(value: number): void }
}

/** `Context` is what stands for an admitted call: who calls, and for which data. */
export interface GrpcOwner<Context> {
  /** Of the section that the listener's keys stand in, and of its metrics. */
  readonly id: string
  readonly log: GrpcLog
  readonly metrics: GrpcMetrics
  readonly server: Readonly<KnownHosts> & {
    readonly max_connections: number
    readonly max_control_body_size: number
    readonly request_timeout_secs: number
    readonly shutdown_timeout_secs: number
  }
  /** undefined = the listener is in plain text. */
  readonly tls: Readonly<TlsSettings> | undefined
  readonly auth: {
    /** Nothing authenticates: hosts and origins are checked instead. */
    readonly open: boolean
    /** @throws SvcError that the call is refused with. */
    admit(credentials: GrpcCredentials, action: GrpcAction, resource: string): Context | Promise<Context>
    /** What it answers throws what a call is refused with whose message came late; without it a call is as it was when it began. */
    standing?(context: Context, action: GrpcAction, resource: string): () => void | Promise<void>
  }
  readonly clock: { now(): number }
  /** Spans of calls; without it there are none. */
  readonly tracing?: {
    readonly on: boolean
    begin(name: string, options: SpanOptions, from: TraceContext): Span | undefined
    failed(name: string, options: SpanOptions, from: TraceContext, error: unknown): void
  }
  /** Has something done each `every` milliseconds until the server stops; in each process, as `local` says. */
  schedule(name: string, every: number, job: () => Promise<void>, options: { local: true }): unknown
  /** Aborted when the server begins to stop. */
  readonly stopping: AbortSignal
}
