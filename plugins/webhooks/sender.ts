/**
 * Delivers what waits in the outbox, in the one process that has this work. An endpoint that fails is tried again after a pause, by one attempt at a time, and
 * so is each delivery that failed; others go on meanwhile. What was accepted leaves the outbox a moment later: a crash between the two has it sent again,
 * under the same message id.
 */
import type { Clock, Logger, ScheduledRun, Tracing, WebhookRef, WebhookReport } from 'svcdb'
import { type LaneLimits, Lanes, type Slot } from 'svcdb/lib/lanes'
import { type Span, traceHeaders } from 'svcdb/lib/trace'
import { type AgeLimits, Ages } from './ages.ts'
import { CONTENT_TYPE } from './envelope.ts'
import type { SenderMetrics } from './metrics.ts'
import type { Endpoint, Finished, Outbox, Waiting } from './outbox.ts'
import type { Post } from './post.ts'
import { type Attempt, pauseAfter, type RetryLimits } from './retry.ts'
import { signedHeaders } from './signature.ts'
import { type Item, TargetQueue } from './target-queue.ts'

/** An endpoint that has not answered for so long is a slow one. */
const SLOW_MS = 1000
/** How often deliveries that are too old are looked for. */
const SWEEP_MS = 60_000
/** Pause after the state store has failed. */
const STORE_RETRY_MS = 1000
/** Deliveries that leave the outbox in one transaction. */
const BATCH = 500

export interface SenderOptions extends AgeLimits {
  outbox: Outbox
  post: Post
  keys: readonly Buffer[]
  clock: Clock
  log: Logger
  metrics: SenderMetrics
  lanes: LaneLimits
  endpointInFlight: number
  retry: RetryLimits
  random(): number
  tracing: Pick<Tracing, 'operation'>
  report(report: WebhookReport): void
}

export class Sender {
  private readonly options: SenderOptions
  private readonly ages: Ages
  private readonly lanes: Lanes<TargetQueue>
  private readonly targets = new Map<string, TargetQueue>()
  private readonly over: { target: TargetQueue; item: Item; finished: Finished }[] = []
  private committing: Promise<void> | undefined
  private aborted = new AbortController()
  private sending = false
  private guard: ScheduledRun['guard'] | undefined
  private cancelSweep: () => void = () => {}
  private idle: (() => void)[] = []

  constructor(options: SenderOptions) {
    this.options = options
    this.ages = new Ages(options.clock, options)
    this.lanes = new Lanes(options.lanes)
  }

  /** Whether this process delivers. */
  get active(): boolean {
    return this.sending
  }

  get inFlight(): number {
    return this.lanes.inFlight
  }

  all(): Iterable<TargetQueue> {
    return this.targets.values()
  }

  get(key: string): TargetQueue | undefined {
    return this.targets.get(key)
  }

  /** Reads what waits, and delivers from then on. @param guard of transactions that only the process that delivers may commit. */
  async start(guard?: ScheduledRun['guard']): Promise<void> {
    this.aborted = new AbortController()
    this.guard = guard
    this.sending = true
    for (const endpoint of await this.options.outbox.endpoints()) await this.refresh(endpoint.key, endpoint)
    this.sweep()
  }

  /**
   * Begins nothing more, and breaks off what is under way after a while: it is sent again, here or elsewhere. Waits for what was accepted to leave the outbox.
   * @param graceMs what is under way may take so long.
   */
  async stop(graceMs = 0): Promise<void> {
    if (!this.sending) return
    this.sending = false
    this.cancelSweep()
    if (graceMs > 0) await this.drain(graceMs)
    this.aborted.abort()
    await this.settled()
    await this.committing
    // What is known of them is old when this process delivers again: another has done so meanwhile.
    for (const key of this.targets.keys()) this.forget(key)
    this.over.length = 0
  }

  /** Goes on until nothing is under way and nothing can be sent at once. @param ms at most so long. */
  async drain(ms: number): Promise<void> {
    if (ms <= 0) return
    let cancel = () => {}
    const late = new Promise<void>((resolve) => {
      cancel = this.options.clock.after(ms, resolve)
    })
    await Promise.race([this.settled(), late])
    cancel()
  }

  /** Something was done to the endpoint, here or elsewhere. */
  async refresh(key: string, known?: Endpoint): Promise<void> {
    if (!this.sending) return
    const { outbox } = this.options
    const endpoint = known ?? (await outbox.endpoint(key))
    if (endpoint === undefined || endpoint.record.removed) return this.forget(key)
    const target = this.targets.get(key) ?? new TargetQueue(endpoint, this.ages)
    this.targets.set(key, target)
    const waiting = await outbox.waiting(key)
    if (this.targets.get(key) !== target) return // it was removed meanwhile, or this process delivers no more
    target.refresh(endpoint, waiting)
    this.wake(target)
  }

  forget(key: string): void {
    const target = this.targets.get(key)
    if (target === undefined) return
    target.cancelTimer()
    target.clear()
    this.targets.delete(key)
    this.lanes.forget(target)
  }

  /** They were committed just now. */
  queued(added: readonly Waiting[], dropped: readonly Waiting[]): void {
    for (const each of dropped) {
      this.targets.get(each.endpoint)?.remove(each.seq)
      this.options.metrics.left('dropped')
    }
    if (!this.sending) return
    const woken = new Set<TargetQueue>()
    for (const each of added) {
      const target = this.targets.get(each.endpoint)
      // One that is not known is being read.
      if (target === undefined || target.items.has(each.seq)) continue
      target.add(each)
      woken.add(target)
    }
    for (const target of woken) this.lanes.ready(target)
    this.pump()
  }

  private wake(target: TargetQueue): void {
    this.lanes.ready(target)
    this.pump()
  }

  private pump(): void {
    if (this.sending && this.options.keys.length > 0) this.lanes.pump((target, slot) => this.begin(target, slot))
    if (this.lanes.inFlight === 0) for (const resolve of this.idle.splice(0)) resolve()
  }

  private begin(target: TargetQueue, slot: Slot): boolean {
    const { clock, endpointInFlight } = this.options
    const now = clock.monotonic()
    this.expire(target)
    const next = target.next(now, endpointInFlight)
    target.cancelTimer()
    if (typeof next === 'number') target.cancelTimer = clock.after(Math.min(next - now, 2 ** 31 - 1), () => this.wake(target))
    if (typeof next !== 'object') return false
    next.busy = true
    target.inFlight++
    void this.attempt(target, next, slot)
    return true
  }

  private async attempt(target: TargetQueue, item: Item, slot: Slot): Promise<void> {
    const { clock, log, metrics, outbox, keys } = this.options
    const began = clock.monotonic()
    let slow = false
    const cancelSlow = clock.after(SLOW_MS, () => {
      slow = true
      target.slow = true
      this.lanes.markSlow(slot)
      this.pump()
    })
    let attempt: Attempt | undefined
    const body = await outbox.body(target.key, item.seq).catch((err: Error) => {
      log.warn({ err, endpoint: target.key }, 'cannot read a webhook delivery; it is tried again')
      return err
    })
    const { url } = target
    if (body === undefined) {
      target.remove(item.seq) // dropped meanwhile, here or elsewhere
    } else if (typeof body === 'string') {
      const headers = { ...signedHeaders(keys, item.message, clock.now(), body), 'content-type': CONTENT_TYPE }
      attempt = await this.tracedPost(target, url, item, headers, body)
    } else {
      item.busy = false
      item.notBefore = clock.monotonic() + STORE_RETRY_MS
    }
    cancelSlow()
    target.inFlight--
    target.slow = slow || attempt?.result !== 'delivered'
    if (attempt !== undefined && attempt.kind !== 'aborted') {
      metrics.attempted(attempt.kind, (clock.monotonic() - began) / 1000, item.attempts > 0)
      await this.judge(target, item, attempt, url)
    }
    this.lanes.end(slot)
    if (this.targets.get(target.key) === target) this.lanes.ready(target)
    this.pump()
  }

  /** Receivers may go on with the trace: its headers are not a part of what is signed. */
  private tracedPost(target: TargetQueue, url: string, item: Item, headers: Record<string, string>, body: string): Promise<Attempt> {
    const { tracing, post } = this.options
    const attributes = { 'svc.webhook': target.key, 'svc.message_id': item.message, 'svc.attempt': item.attempts + 1 }
    const deliver = async (span: Span | undefined): Promise<Attempt> => {
      const attempt = await post(url, { ...headers, ...traceHeaders(span) }, body, this.aborted.signal)
      if (attempt.result !== 'delivered') span?.fail(attempt.reason)
      return attempt
    }
    return tracing.operation('webhook', deliver, { kind: 'producer', attributes })
  }

  /** @param url that was sent to. */
  private async judge(target: TargetQueue, item: Item, attempt: Attempt, url: string): Promise<void> {
    const { clock, retry, random, metrics, log } = this.options
    item.attempts++
    if (attempt.result === 'delivered') {
      metrics.delivered((clock.now() - item.at) / 1000)
      // One that was dropped meanwhile is over already.
      if (target.items.get(item.seq) === item) this.finish(target, item, 'delivered')
      if (target.succeeded() || target.owed)
        await this.note(target, (record) => {
          delete record.failing_since
        })
      return
    }
    if (target.url !== url) {
      // It was given another URL meanwhile, to which the delivery goes at once: what the one before has answered says nothing of it.
      item.busy = false
      return
    }
    const pause = (failures: number) => clock.monotonic() + pauseAfter(failures, retry, random(), attempt.retryAfterMs)
    target.failures++
    target.reason = attempt.reason
    target.notBefore = pause(target.failures)
    item.notBefore = pause(item.attempts)
    item.busy = false
    this.tell(target.ref, item, 'retried')
    const now = clock.now()
    const first = target.failed(now)
    const since = target.failingSince
    if (first) log.warn({ endpoint: target.key, reason: attempt.reason }, 'a webhook endpoint does not take deliveries; they are tried again')
    const parked = attempt.result === 'gone' ? attempt.reason : target.failsTooLong ? `it has taken nothing for too long: ${attempt.reason}` : undefined
    if (parked !== undefined && target.parked === undefined) {
      target.parked = parked
      log.error({ endpoint: target.key, reason: parked }, 'a webhook endpoint is parked: nothing is sent to it until it is rearmed or defined again')
    }
    if (first || parked !== undefined || target.owed)
      await this.note(target, (record) => {
        record.failing_since = since
        if (parked !== undefined) record.parked = { at: now, reason: parked }
      })
  }

  /**
   * How the endpoint fares, for after a restart and for other nodes; that it cannot be kept holds up nothing, and is tried again with the next attempt. A process that stood still says nothing of it: another may deliver
   * to it well.
   */
  private async note(target: TargetQueue, change: Parameters<Outbox['change']>[1]): Promise<void> {
    const { outbox, log } = this.options
    // One that was given another URL meanwhile is not what failed.
    const url = target.url
    const same: typeof change = (record) => (record.url === url ? change(record) : undefined)
    try {
      await outbox.change(target.key, same, this.guard)
      target.owed = false
    } catch (err) {
      target.owed = true
      log.warn({ err, endpoint: target.key }, 'cannot keep the state of a webhook endpoint')
    }
  }

  private expire(target: TargetQueue): void {
    for (const item of target.takeExpired()) this.finish(target, item, 'expired')
  }

  private sweep(): void {
    for (const target of this.targets.values()) this.expire(target)
    this.cancelSweep = this.options.clock.after(SWEEP_MS, () => this.sweep())
  }

  private finish(target: TargetQueue, item: Item, result: Finished['result']): void {
    this.over.push({ target, item, finished: { endpoint: target.key, seq: item.seq, result } })
    this.committing ??= this.commit().finally(() => {
      this.committing = undefined
    })
  }

  private async commit(): Promise<void> {
    const { clock, log, metrics, outbox } = this.options
    await Promise.resolve()
    for (let failed = false; this.over.length > 0; ) {
      const batch = this.over.slice(0, BATCH)
      try {
        await outbox.finish(batch.map(({ finished }) => finished))
      } catch (err) {
        if (!failed) log.error({ err }, 'cannot take deliveries out of the outbox of webhooks; it is tried again')
        failed = true
        if (!this.sending) return // they are sent again after the next start
        await new Promise<void>((resolve) => clock.after(STORE_RETRY_MS, resolve))
        continue
      }
      this.over.splice(0, batch.length)
      for (const { target, item, finished } of batch) {
        target.remove(item.seq)
        metrics.left(finished.result)
        this.tell(target.ref, item, finished.result)
      }
    }
  }

  private tell(endpoint: WebhookRef, { id, at }: Waiting, result: WebhookReport['result']): void {
    this.options.report({ endpoint, id, result, seconds: (this.options.clock.now() - at) / 1000 })
  }

  /** Nothing is under way, and nothing can be sent at once. */
  private settled(): Promise<void> {
    if (this.lanes.inFlight === 0) return Promise.resolve()
    return new Promise((resolve) => this.idle.push(resolve))
  }
}
