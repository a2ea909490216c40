/** Messages in flight: those that wait, in order of arrival, and what is under way; bounded by number and bytes. */
import type { SourceMessage } from './types.ts'

interface BacklogLimits {
  maxMessages: number
  maxBytes: number
  maxBatchMessages: number
  maxBatchBytes: number
}

export interface Waiting<B> {
  message: SourceMessage<B>
  bytes: number
  /** Written together with those beside it that have the same number, and with no others; undefined = with any that have none. */
  group: number | undefined
}

/** Shares of the bounds at which the source is asked to pause, and to go on: a client library hands over what it has read already. */
const HIGH = 0.75
const LOW = 0.25

export class Backlog<B> {
  readonly inFlight = { messages: 0, bytes: 0 }
  private readonly limits: BacklogLimits
  private waiting: Waiting<B>[] = []
  /** Keys of messages in writes under way. */
  private readonly busy = new Set<string>()

  constructor(limits: BacklogLimits) {
    this.limits = limits
  }

  get full(): boolean {
    return this.above(1)
  }

  get high(): boolean {
    return this.above(HIGH)
  }

  get low(): boolean {
    return !this.above(LOW)
  }

  add(waiting: Waiting<B>): void {
    this.inFlight.messages++
    this.inFlight.bytes += waiting.bytes
    this.waiting.push(waiting)
  }

  /** The next to be written together; empty when there are none, or those there are must wait for others of their key. */
  next(): Waiting<B>[] {
    const { maxBatchMessages, maxBatchBytes } = this.limits
    const batch: Waiting<B>[] = []
    const left: Waiting<B>[] = []
    /** Of what is left: what comes behind it must not overtake it. */
    const passed = new Set<string>()
    let bytes = 0
    let at = 0
    for (; at < this.waiting.length; at++) {
      const waiting = this.waiting[at]
      const { key } = waiting.message
      if (key !== undefined && (this.busy.has(key) || passed.has(key))) {
        left.push(waiting)
        passed.add(key)
        continue
      }
      const first = batch.length === 0
      if (!first && (waiting.group !== batch[0].group || batch.length >= maxBatchMessages || bytes + waiting.bytes > maxBatchBytes)) break
      batch.push(waiting)
      bytes += waiting.bytes
    }
    this.waiting = [...left, ...this.waiting.slice(at)]
    for (const { message } of batch) if (message.key !== undefined) this.busy.add(message.key)
    return batch
  }

  /** The write of a batch is over. */
  release(batch: readonly Waiting<B>[]): void {
    for (const { message } of batch) if (message.key !== undefined) this.busy.delete(message.key)
  }

  /** They wait again, before all others; `release` their batch afterwards. */
  putBack(batch: readonly Waiting<B>[]): void {
    this.waiting = batch.concat(this.waiting)
  }

  takeAll(): Waiting<B>[] {
    return this.waiting.splice(0)
  }

  settled({ bytes }: Waiting<B>): void {
    this.inFlight.messages--
    this.inFlight.bytes -= bytes
  }

  private above(share: number): boolean {
    const { maxMessages, maxBytes } = this.limits
    return this.inFlight.messages >= Math.max(1, maxMessages * share) || this.inFlight.bytes >= maxBytes * share
  }
}
