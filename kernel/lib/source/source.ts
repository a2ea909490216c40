/**
 * A source: messages come in, each is acknowledged when its points are durable, and not before.
 *
 * Invariants
 * - A message is in flight from `take` until it is settled: acknowledged (its points are durable, or it is with the dead letters) or returned (`nack`).
 *   Each is settled once. One that is never settled was not acknowledged: whoever sent it sends it again.
 * - Messages are written in order of arrival. With several writes at a time, no two that hold messages of one key.
 * - What cannot be decoded never holds up what comes after it.
 */
import { classify, SvcError } from '../errors/index.ts'
import { Turn } from '../event-loop/index.ts'
import { drainTime } from '../network/index.ts'
import { Backlog, type Waiting } from './backlog.ts'
import { MessageRows } from './message-rows.ts'
import { SourceMetrics } from './metrics.ts'
import { isTransient, patiently } from './patience.ts'
import type { SourceHost, SourceMessage, SourceOptions, SourceStatus, SourceWritten } from './types.ts'

const IDLE_AFTER_MS = 10_000
/** Once drained messages were given up, for what they wait for to notice. */
const GRACE_MS = 1000

type Connection = 'stopped' | 'connected' | 'reconnecting' | 'failed'

/** What one try has done with the messages of a batch. */
interface Attempt<B> {
  written: number
  rejected: number
  rejections: readonly { message: string; position: number }[]
  /** Could not be read. */
  bad: Map<Waiting<B>, SvcError>
  /** Could not be read in part. */
  partly: Map<Waiting<B>, SvcError>
  /** Not looked at: they are of a batch of their own. */
  rest: Waiting<B>[]
}

/** Messages from outside to points: reads, writes, waits for room, acknowledges what is durable. @param B what a message is, such as its bytes. */
export class Source<B = Uint8Array> {
  readonly name: string
  private readonly host: SourceHost
  private readonly options: SourceOptions<B>
  private readonly backlog: Backlog<B>
  private readonly metrics: SourceMetrics
  private readonly drainTime: (ms: number) => number
  private readonly abort = new AbortController()
  private connection: Connection = 'stopped'
  private connectedAt = 0
  private lastMessageAt = Number.NEGATIVE_INFINITY
  private lastError: string | undefined
  private closed = false
  private paused = false
  private writing = 0
  private scheduled = false
  /** Numbers of groups that were given so far. */
  private groups = 0
  /** Waiting for room, or for nothing to be in flight. */
  private watchers: (() => void)[] = []

  /** Call it in setup: the source ends with the plugin. */
  constructor(host: SourceHost, options: SourceOptions<B>) {
    this.name = options.name
    this.host = host
    this.options = options
    const { maxMessages = 1000, maxBytes = 16 * 1024 * 1024, maxBatchMessages = 500, maxBatchBytes = 1024 * 1024 } = options
    this.backlog = new Backlog({ maxMessages, maxBytes, maxBatchMessages, maxBatchBytes })
    this.metrics = new SourceMetrics(host.metrics, options.name, () => this.backlog.inFlight)
    this.drainTime = drainTime(host)
    host.drain(() => this.drain())
  }

  /** Connected and receiving, or connected with nothing arriving. */
  get up(): boolean {
    return !this.closed && this.connection === 'connected'
  }

  /** The client library has reached what the messages come from. */
  connected(): void {
    this.connection = 'connected'
    this.connectedAt = this.host.clock.monotonic()
  }

  /** It has not, and tries again: with backoff (`reconnecting`), or after a failure that it names (`failed`). */
  disconnected(error?: unknown, state: 'reconnecting' | 'failed' | 'stopped' = 'reconnecting'): void {
    this.connection = state
    if (error !== undefined) this.lastError = classify(error).message
  }

  status(): SourceStatus {
    const now = this.host.clock.monotonic()
    const { counts } = this.metrics
    const seconds = Math.max(1, now - this.connectedAt) / 1000
    return {
      name: this.name,
      status: this.state(now),
      up: this.up,
      lastError: this.lastError,
      inFlight: { ...this.backlog.inFlight },
      ...counts,
      pointsPerSecond: this.connection === 'stopped' ? 0 : counts.points / seconds,
    }
  }

  private state(now: number): SourceStatus['status'] {
    if (this.closed || this.connection === 'stopped') return 'stopped'
    if (this.connection === 'failed') return { failed: this.lastError ?? 'unknown' }
    if (this.connection === 'reconnecting') return 'reconnecting'
    return this.backlog.inFlight.messages > 0 || now - this.lastMessageAt < IDLE_AFTER_MS ? 'running' : 'idle'
  }

  /**
   * Takes a message; resolves when there is room for another, for clients that pull. One that comes when as much is in flight as may be, or when the
   * node stops, is returned at once.
   */
  take(message: SourceMessage<B>): Promise<void> {
    const { backlog } = this
    this.metrics.received()
    this.lastMessageAt = this.host.clock.monotonic()
    if (this.closed || this.host.stopping.aborted) {
      void this.giveBack(message, new SvcError('DATABASE_CLOSED', `cannot take a message of "${this.name}": the node is stopping`))
      return Promise.resolve()
    }
    if (backlog.full) {
      const { messages, bytes } = backlog.inFlight
      const held = `${messages} messages of ${bytes} bytes are in flight`
      void this.giveBack(message, new SvcError('BACKPRESSURE', `cannot take a message of "${this.name}": ${held}; wait for take(), or stop at pause()`))
    } else {
      backlog.add({ message, bytes: message.bytes ?? bytesOf(message.body), group: undefined })
      this.metrics.changed()
      this.schedule()
    }
    this.regulate()
    return this.room()
  }

  /** Resolves when there is room for a message, or none will be taken any more. */
  async room(): Promise<void> {
    while (this.backlog.high && !this.closed) await this.watch()
  }

  /** Takes no more, and waits for what is in flight: it is settled within the time that plugins have to drain, or not at all. */
  async drain(): Promise<void> {
    if (!this.closed) {
      this.closed = true
      this.regulate()
      this.changed()
    }
    const { drainMs = this.host.server.shutdown_timeout_secs * 500 } = this.options
    if (await this.emptied(this.drainTime(drainMs))) return
    this.abort.abort()
    this.pump()
    if (!(await this.emptied(GRACE_MS))) this.host.log.warn({ source: this.name, ...this.backlog.inFlight }, 'messages were left unacknowledged')
  }

  /** Resolves when nothing is in flight, or the time is over: for a client that leaves while the node goes on. @returns whether nothing is. */
  settled(ms: number): Promise<boolean> {
    return this.emptied(ms)
  }

  /** @returns whether nothing is in flight within the time. */
  private async emptied(ms: number): Promise<boolean> {
    let late = false
    const timer = setTimeout(() => {
      late = true
      this.changed()
    }, ms)
    while (this.backlog.inFlight.messages > 0 && !late) await this.watch()
    clearTimeout(timer)
    return this.backlog.inFlight.messages === 0
  }

  /** In a turn of its own, so that messages that come together are written together. */
  private schedule(): void {
    if (this.scheduled) return
    this.scheduled = true
    setImmediate(() => {
      this.scheduled = false
      this.pump()
    })
  }

  private pump(): void {
    const { maxWrites = 1 } = this.options
    if (this.abort.signal.aborted) {
      const error = new SvcError('DATABASE_CLOSED', `cannot write a message of "${this.name}": the node is stopping`)
      for (const waiting of this.backlog.takeAll()) void this.settle(waiting, this.giveBack(waiting.message, error))
      return
    }
    while (this.writing < maxWrites) {
      const batch = this.backlog.next()
      if (batch.length === 0) return
      this.writing++
      void this.write(batch).finally(() => {
        this.writing--
        this.backlog.release(batch)
        this.pump()
      })
    }
  }

  /** Never rejects. */
  private async write(batch: Waiting<B>[]): Promise<void> {
    const { maxWaitMs, maxPauseMs } = this.options
    try {
      const attempt = await patiently(() => this.tracedAttempt(batch), {
        signal: this.abort.signal,
        ...(maxWaitMs === undefined ? {} : { maxWaitMs }),
        ...(maxPauseMs === undefined ? {} : { maxPauseMs }),
        transient: patient,
        waiting: (error) => this.failed(error),
      })
      this.written(batch, attempt)
    } catch (thrown) {
      const error = classify(thrown)
      this.failed(error)
      if (patient(error)) {
        for (const waiting of batch) void this.settle(waiting, this.giveBack(waiting.message, error))
      } else if (batch.length > 1) this.again(batch, () => false)
      else this.bury(batch[0], error)
    }
  }

  private tracedAttempt(batch: readonly Waiting<B>[]): Promise<Attempt<B>> {
    const { tracing } = this.host
    if (tracing === undefined) return this.attempt(batch)
    const attributes = { 'messaging.batch.message_count': batch.length, 'svc.connector': this.name }
    return tracing.operation(`receive ${this.name}`, () => this.attempt(batch), { kind: 'consumer', attributes })
  }

  /** One try: all that can be decoded, in one write. */
  private async attempt(batch: readonly Waiting<B>[]): Promise<Attempt<B>> {
    const { namespace, backfill = false, nonFinite: given = false } = this.options
    const nonFinite = typeof given === 'function' ? given() : given
    const context = await this.host.systemContext(namespace, { name: this.name })
    const write = () =>
      this.host.ingest.writeSeveral(context, { backfill, nonFinite }, async (open) => {
        const bad = new Map<Waiting<B>, SvcError>()
        const partly = new Map<Waiting<B>, SvcError>()
        const rows = new MessageRows(open)
        const turn = new Turn()
        for (const [i, waiting] of batch.entries()) {
          try {
            const { message } = waiting
            const fault = await this.options.decode(message.body, rows.batch, message, rows.more)
            if (fault instanceof SvcError) partly.set(waiting, fault)
            rows.keep(i)
          } catch (thrown) {
            rows.takeBack()
            const error = classify(thrown)
            // A quota that is used up is so for this message: waiting would hold up all that comes after.
            if (isTransient(error) && error.code !== 'RATE_LIMITED') throw error
            // It may only be too much for what is there already.
            if (error.code === 'INVALID_POINT' && !rows.empty) return { bad, partly, rest: batch.slice(i) }
            bad.set(waiting, error)
          }
          if (turn.isOver) await turn.next()
        }
        return { bad, partly, rest: [] }
      })
    const sum = { written: 0, rejected: 0, rejections: [] as SourceWritten['rejections'][number][] }
    const { filled, results } = await this.host.ingest.attempt(context, async () => {
      const all = await write()
      const failures = all.results.flatMap((result) => (result.status === 'rejected' ? [result.reason] : []))
      // What time may mend first: tried again, the other batches are written again, and the same points again are the same points.
      if (failures.length > 0) throw failures.find((reason) => patient(classify(reason))) ?? failures[0]
      return all
    })
    for (const result of results) {
      if (result.status === 'rejected') continue
      sum.written += result.value.written
      sum.rejected += result.value.rejected
      sum.rejections.push(...result.value.rejections)
    }
    return { ...sum, ...filled }
  }

  private written(batch: readonly Waiting<B>[], attempt: Attempt<B>): void {
    const { bad, partly, rest, written, rejected, rejections } = attempt
    const refused = new Map<number, string>()
    for (const { position, message } of rejections) if (!refused.has(position)) refused.set(position, message)
    // Which messages the other refused rows are of is not known: smaller batches say so, and the same points again are the same points.
    if (rejected > rejections.length && batch.length > 1) return this.again(batch, (waiting, i) => refused.has(i) || bad.has(waiting) || waiting === rest[0])
    this.metrics.wrote(written, rejected)
    for (const waiting of rest) waiting.group = waiting === rest[0] ? ++this.groups : undefined
    this.backlog.putBack(rest)
    for (const [i, waiting] of batch.slice(0, batch.length - rest.length).entries()) {
      const error = bad.get(waiting) ?? partly.get(waiting)
      const reason = refused.get(i)
      if (error !== undefined) this.bury(waiting, error)
      else if (reason !== undefined) this.bury(waiting, new SvcError('PARTIAL_WRITE', `some of its points were refused; first: ${reason}`))
      else void this.settle(waiting, this.acknowledge(waiting.message))
    }
  }

  /** In smaller writes, in their order. @param alone those in a write of their own; what lies between two of them is halved. */
  private again(batch: readonly Waiting<B>[], alone: (waiting: Waiting<B>, index: number) => boolean): void {
    const own = batch.map(alone)
    for (let from = 0; from < batch.length; ) {
      let end = from + 1
      while (!own[from] && end < batch.length && !own[end]) end++
      const middle = from + Math.ceil((end - from) / 2)
      const [first, second] = [++this.groups, ++this.groups]
      for (let i = from; i < end; i++) batch[i].group = i < middle ? first : second
      from = end
    }
    this.backlog.putBack(batch)
  }

  /** Hands a message to the dead letters, beside the writes. It is acknowledged when it is there. */
  private bury(waiting: Waiting<B>, error: SvcError): void {
    this.failed(error)
    void this.settle(waiting, this.buried(waiting.message, error))
  }

  private async buried(message: SourceMessage<B>, error: SvcError): Promise<void> {
    const { deadLetter, deadLetterMs = 30_000 } = this.options
    try {
      if (deadLetter === undefined) this.host.log.warn({ source: this.name, code: error.code }, `a message is left out: ${error.message}`)
      else await within(deadLetter(message.body, error, message), deadLetterMs, `the dead letters of "${this.name}"`)
    } catch (failure) {
      await this.giveBack(message, classify(failure))
      return
    }
    this.metrics.deadLettered()
    await this.acknowledge(message, false)
  }

  private async acknowledge(message: SourceMessage<B>, count = true): Promise<void> {
    if (count) this.metrics.acknowledged()
    try {
      await message.ack()
    } catch (error) {
      this.failed(classify(error)) // it comes again, and the same points again are the same points
    }
  }

  private async giveBack(message: SourceMessage<B>, error: SvcError): Promise<void> {
    this.failed(error)
    this.metrics.returned()
    try {
      await message.nack?.(error)
    } catch (failure) {
      this.failed(classify(failure))
    }
  }

  private async settle(waiting: Waiting<B>, settled: Promise<void>): Promise<void> {
    await settled
    this.backlog.settled(waiting)
    this.metrics.changed()
    this.regulate()
    this.changed()
  }

  private failed(error: SvcError): void {
    this.lastError = error.message
    this.metrics.failed(error.code)
  }

  /** Has the client library pause and go on. */
  private regulate(): void {
    const { pause, resume } = this.options
    const { high, low } = this.backlog
    if (!this.paused && (high || this.closed)) {
      this.paused = true
      pause?.()
    } else if (this.paused && low && !this.closed) {
      this.paused = false
      resume?.()
    }
  }

  private watch(): Promise<void> {
    return new Promise((resolve) => this.watchers.push(resolve))
  }

  private changed(): void {
    for (const resolve of this.watchers.splice(0)) resolve()
  }
}

/** Refusals of the source itself and not of a message: somebody may create the namespace, and the messages wait. */
const OF_THE_SOURCE: ReadonlySet<string> = new Set(['NOT_FOUND', 'FORBIDDEN', 'UNAUTHORIZED'])

/** Whether a write is tried again: no fault of the messages. */
const patient = (error: SvcError): boolean => isTransient(error) || error.kind.http >= 500 || OF_THE_SOURCE.has(error.code)

function bytesOf(body: unknown): number {
  if (body instanceof Uint8Array) return body.byteLength
  throw new TypeError('cannot take a message: its body is no Uint8Array; say its size in "bytes"')
}

async function within(work: void | Promise<void>, ms: number, what: string): Promise<void> {
  const { promise, reject } = Promise.withResolvers<never>()
  const timer = setTimeout(() => reject(new SvcError('WRITE_TIMEOUT', `${what} took longer than ${ms} ms`)), ms)
  try {
    await Promise.race([work, promise])
  } finally {
    clearTimeout(timer)
  }
}
