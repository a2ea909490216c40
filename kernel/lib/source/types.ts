/** What a source is given, and what it shows. */
import type { WriteBatch } from '../columns/index.ts'
import type { SvcError } from '../errors/index.ts'
import type { Span, SpanOptions } from '../trace/index.ts'
import type { SourceCounter, SourceGauge } from './metrics.ts'

/** A message as a client library hands it over. */
export interface SourceMessage<B = Uint8Array> {
  body: B
  /** Size of the body; default its byteLength. */
  bytes?: number
  /** Messages of one key are written in their order, however many writes there are at a time. */
  key?: string
  /** Called once its points are durable, or it is with the dead letters. What it returns is waited for. */
  ack(): void | Promise<void>
  /** Called instead when nothing was done with it: it is to be sent again. */
  nack?(error: SvcError): void | Promise<void>
}

/** Nothing, or what is wrong with a part of the message. */
// biome-ignore lint/suspicious/noConfusingVoidType: functions that return nothing are decoders too
export type Decoded = SvcError | undefined | void

/** What a source reads, where its points go, and its bounds. */
export interface SourceOptions<B = Uint8Array> {
  /** Label of its metrics: `kafka-default`. */
  name: string
  /** Where its points go; default `default`. */
  namespace?: string
  /** As of `ingest.write`. */
  backfill?: boolean
  /** As of `ingest.write`; a function is asked at each write, for what is not known in setup. */
  nonFinite?: boolean | (() => boolean)
  /**
   * Puts the points of a message into the batch. What it throws makes the message a dead letter, and takes back what it has put there; but what time may
   * mend (`TRANSIENT`, without RATE_LIMITED) is tried again. What it returns says that a part could not be read: the rest is stored, and the message is a
   * dead letter too. It may be called again for the same message.
   * @param further another batch, by name, for rows that cannot share one with others, such as floats and histograms of one field.
   */
  decode(body: B, batch: WriteBatch, message: SourceMessage<B>, further: (name: string) => WriteBatch): Decoded | Promise<Decoded>
  /** Keeps a message that cannot be stored, in whole or in part; default: it is logged. When it fails, the message is returned. */
  deadLetter?(body: B, error: SvcError, message: SourceMessage<B>): void | Promise<void>
  /** Milliseconds that `deadLetter` may take; default 30000. */
  deadLetterMs?: number
  /** Asks the client library for no more messages, and for more again. */
  pause?(): void
  resume?(): void
  /** In flight at once; default 1000 and 16 MiB. The message with which the bytes are exceeded is taken. */
  maxMessages?: number
  maxBytes?: number
  /** Of one write; default 500 and 1 MiB. */
  maxBatchMessages?: number
  maxBatchBytes?: number
  /** Writes at a time; default 1, which keeps the order of all. */
  maxWrites?: number
  /** How long a write waits for what time may mend before its messages are returned; default: until the node stops. */
  maxWaitMs?: number
  maxPauseMs?: number
  /** How long messages in flight may take when the node stops; default half of `server.shutdown_timeout_secs`, and in any case no longer than `drainTime` says. */
  drainMs?: number
}

/** How a source stands, as listings show it. */
export interface SourceStatus {
  name: string
  /** running: connected and receiving; idle: connected, nothing arriving; reconnecting, failed: it tries again; stopped: not started, or stopped. */
  status: 'running' | 'idle' | 'reconnecting' | 'stopped' | { failed: string }
  /** Running or idle. */
  up: boolean
  lastError: string | undefined
  inFlight: { messages: number; bytes: number }
  /** Messages that came, and what became of them. */
  received: number
  acknowledged: number
  deadLettered: number
  returned: number
  points: number
  pointsRefused: number
  /** Since it was connected. */
  pointsPerSecond: number
}

/** What a source knows of a `CallContext`. */
interface SourceContext {
  principal: string
  namespace: string
}

/** What became of a batch. */
export interface SourceWritten {
  written: number
  rejected: number
  /** The first of them; positions are those of the rows' messages. */
  rejections: readonly { message: string; position: number }[]
}

/** What a source needs of `Svc`. */
export interface SourceHost {
  readonly log: { warn(o: object, text: string): void }
  readonly clock: { monotonic(): number }
  readonly server: { readonly shutdown_timeout_secs: number }
  readonly stopping: AbortSignal
  readonly metrics: {
    commonCounter(name: string, help: string, labels: readonly string[]): SourceCounter
    commonGauge(name: string, help: string, labels: readonly string[]): SourceGauge
  }
  readonly ingest: {
    writeSeveral<T>(
      context: SourceContext,
      options: { backfill: boolean; nonFinite: boolean },
      fill: (open: () => WriteBatch) => T | Promise<T>,
    ): Promise<{ filled: T; results: PromiseSettledResult<SourceWritten>[] }>
    attempt<T>(context: SourceContext, work: () => Promise<T>): Promise<T>
  }
  systemContext(namespace: string | undefined, options: { name: string }): Promise<SourceContext>
  drain(hook: () => Promise<void>): void
  /** A span for what is written together; without it there is none. */
  readonly tracing?: { operation<T>(name: string, work: (span: Span | undefined) => T, options?: SpanOptions): T }
}
