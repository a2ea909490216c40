/**
 * One stream: takes changes from its cursor, and gives them to its reader at the reader's pace. What waits for a reader is bounded; one that takes nothing for
 * too long is ended. The cursor waits meanwhile, at no cost to writers.
 */
import { once } from 'node:events'
import { PassThrough } from 'node:stream'
import type { Change, ChangeCursor, Clock } from 'svcdb'
import { classify, publicText } from 'svcdb/lib/errors'
import type { CdcConfig } from './config.ts'
import { FrameEncoder } from './frames.ts'
import type { StreamMetrics } from './metrics.ts'
import type { PointFrames } from './point-frames.ts'
import { idsOf, type Subscription, withinHistory } from './request.ts'

/** What browsers wait before they come back. */
const RETRY_MS = 2000
/** Of the time without an event: timers are not exact. */
const EARLY = 0.9
/** Between two looks at the credential of the reader, and at what it has taken. */
const LOOK_MS = 1000
/** For what is still in buffers when a stream has ended. */
const GRACE_MS = 5000

interface SubscriberOptions {
  /** Throws why the reader may read no more. */
  stands: () => void | Promise<void>
  cursor: ChangeCursor
  subscription: Subscription
  /** Shared by all subscribers. */
  points: PointFrames
  config: CdcConfig
  clock: Clock
  metrics: StreamMetrics
}

export class Subscriber {
  readonly output: PassThrough
  private readonly stands: () => void | Promise<void>
  private readonly cursor: ChangeCursor
  private readonly subscription: Subscription
  private readonly config: CdcConfig
  private readonly clock: Clock
  private readonly metrics: StreamMetrics
  private readonly encoder: FrameEncoder
  private ended = false
  private lastSent: number
  private cancelKeepAlive = (): void => {}
  private cancelLook = (): void => {}
  private cancelWatch = (): void => {}
  private readonly cancelEnd: () => void

  constructor({ stands, cursor, subscription, points, config, clock, metrics }: SubscriberOptions) {
    this.stands = stands
    this.cursor = cursor
    this.subscription = subscription
    this.encoder = new FrameEncoder(points)
    this.config = config
    this.clock = clock
    this.metrics = metrics
    this.output = new PassThrough({ writableHighWaterMark: config.max_buffered_bytes, readableHighWaterMark: 16_384 })
    this.lastSent = clock.monotonic()
    this.output.once('close', () => this.stop())
    this.output.on('error', () => {})
    this.cancelEnd = clock.after(config.max_stream_secs * 1000, () =>
      this.end('lasted', `the stream ends after ${config.max_stream_secs} s (cdc.max_stream_secs); connect again with Last-Event-ID to go on`),
    )
  }

  /** Commits that the reader has not been told of. */
  get behind(): number {
    return this.cursor.behind
  }

  async run(): Promise<void> {
    const { cursor, subscription } = this
    try {
      let before = subscription.after ?? (await cursor.position())
      const { skip: had, filters, within } = subscription
      this.send(`retry: ${RETRY_MS}\nid: ${before}${had === 0 ? '' : `.${had}.${filters}.${within}`}\n\n`)
      this.keepAlive()
      this.look()
      let skip = had
      for (let next = await cursor.next(); !next.done && !this.ended; next = await cursor.next()) {
        await this.tell(next.value, before, withinHistory(next.value.position) === within ? skip : 0)
        skip = 0
        before = next.value.position
      }
      this.end('drained', 'the server stops; connect again with Last-Event-ID to go on')
    } catch (error) {
      this.end('failed', 'changes cannot be read: the server has the details in its log; connect again with Last-Event-ID')
      throw error
    }
  }

  /** Ends the stream with a sentence. */
  end(reason: EndReason, text: string): void {
    if (this.ended) return
    this.metrics.ended.inc({ reason })
    this.output.end(`event: end\ndata: ${JSON.stringify({ reason, message: text })}\n\n`)
    this.stop()
    this.clock.after(GRACE_MS, () => this.output.destroy())
  }

  private async tell(change: Change, before: string, skip: number): Promise<void> {
    const { filters } = this.subscription
    // Not by the next look: when the credential has ended with its namespace, the change is of whoever has the name next.
    await this.endUnlessStanding()
    if (this.ended) return
    if (change.kind === 'gap') this.metrics.gaps.inc()
    const known = this.encoder.frames
    for (const bytes of this.encoder.encode(change, idsOf(before, filters, change.position), skip)) {
      if (this.ended) return
      if (!this.send(bytes)) await this.drained()
    }
    this.metrics.events.inc(this.encoder.frames - known)
  }

  private send(data: string | Uint8Array): boolean {
    this.lastSent = this.clock.monotonic()
    this.metrics.bytes.inc(data.length)
    return this.output.write(data)
  }

  private async drained(): Promise<void> {
    if (this.ended) return
    const listening = new AbortController()
    const { signal } = listening
    this.watchReader()
    try {
      await Promise.race([once(this.output, 'drain', { signal }), once(this.output, 'close', { signal })])
    } catch {
      // It was destroyed, which ends it.
    } finally {
      this.cancelWatch()
      listening.abort()
    }
  }

  /** Until the reader has taken all that waits: what counts is whether it takes anything, and not how fast. */
  private watchReader(): void {
    const { clock, output } = this
    const { slow_reader_secs: patience } = this.config
    let waiting = Number.POSITIVE_INFINITY
    let tookAt = 0
    const watch = (): void => {
      const now = clock.monotonic()
      const left = output.writableLength + output.readableLength
      if (left < waiting) tookAt = now
      waiting = left
      const ms = tookAt + patience * 1000 - now
      if (ms <= 0) {
        this.end('slow', `the reader has taken nothing for ${patience} s (cdc.slow_reader_secs); connect again with Last-Event-ID to go on`)
        return
      }
      this.cancelWatch = clock.after(Math.min(LOOK_MS, ms), watch)
    }
    watch()
  }

  private keepAlive(): void {
    const every = this.config.keep_alive_secs * 1000
    this.cancelKeepAlive = this.clock.after(every, async () => {
      if (this.ended) return
      if (this.clock.monotonic() - this.lastSent >= every * EARLY && !this.output.writableNeedDrain) this.send(': keep-alive\n\n')
      this.keepAlive()
    })
  }

  private look(): void {
    this.cancelLook = this.clock.after(LOOK_MS, async () => {
      await this.endUnlessStanding()
      if (!this.ended) this.look()
    })
  }

  private async endUnlessStanding(): Promise<void> {
    try {
      await this.stands()
    } catch (error) {
      this.end('credential', publicText(classify(error)))
    }
  }

  private stop(): void {
    if (this.ended) return
    this.ended = true
    this.cancelLook()
    this.cancelWatch()
    this.cancelKeepAlive()
    this.cancelEnd()
    this.cursor.close()
  }
}

type EndReason = 'lasted' | 'drained' | 'failed' | 'slow' | 'credential'
