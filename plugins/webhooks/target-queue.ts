/** One endpoint as the process that delivers knows it: what waits, when it may be sent to, and how it fared. Pure but for what is handed in. */
import type { WebhookRef } from 'svcdb'
import { FifoMap } from 'svcdb/lib/cache'
import type { Candidate } from 'svcdb/lib/lanes'
import type { Ages } from './ages.ts'
import type { Endpoint, Waiting } from './outbox.ts'

export interface Item extends Waiting {
  attempts: number
  /** By the monotonic clock, milliseconds: when it was queued, see `Ages`. */
  since: number
  /** By the monotonic clock, milliseconds. */
  notBefore: number
  /** It is being sent, or is over and not yet out of the outbox. */
  busy: boolean
}

export class TargetQueue implements Candidate {
  readonly key: string
  readonly ref: WebhookRef
  /** Its namespace. */
  readonly group: string
  url: string
  slow = true
  parked: string | undefined
  /** Wall clock. */
  failingSince: number | undefined
  /** The same by the monotonic clock, see `Ages`. */
  private failingFrom = 0
  /** Since when it fails, or that it does not, could not be kept in the outbox. */
  owed = false
  /** In a row. */
  failures = 0
  /** Of the last attempt, if that failed. */
  reason: string | undefined
  /** By the monotonic clock. */
  notBefore = 0
  inFlight = 0
  /** In the order of their numbers. */
  private readonly waiting = new FifoMap<number, Item>()
  /** What they take of the queue: of their bodies, and 512 each. */
  bytes = 0
  cancelTimer: () => void = () => {}
  private readonly ages: Ages

  constructor({ key, ref, record }: Endpoint, ages: Ages) {
    this.key = key
    this.ref = ref
    this.group = ref.namespace
    this.ages = ages
    this.url = record.url
    this.failsSince(record.failing_since)
    this.parked = record.parked?.reason
  }

  get items(): ReadonlyMap<number, Item> {
    return this.waiting
  }

  /**
   * As it is in the outbox. What is being sent stays, and so does what was queued since the endpoint was read.
   * @param waiting read after the endpoint.
   */
  refresh({ record }: Endpoint, waiting: readonly Waiting[]): void {
    const known = new Map(this.waiting)
    const newer = [...known.values()].filter(({ seq }) => seq >= record.next)
    this.clear()
    for (const each of waiting) if (each.seq < record.next) this.put(known.get(each.seq) ?? this.itemOf(each))
    for (const each of waiting) if (each.seq >= record.next && !known.has(each.seq)) newer.push(this.itemOf(each))
    for (const item of newer.sort((a, b) => a.seq - b.seq)) this.put(item)
    const { url, parked, failing_since: failingSince } = record
    const owed = this.owed && url === this.url
    const rearmed = this.parked !== undefined && parked === undefined
    const fresh = url !== this.url || rearmed || (!owed && this.failures > 0 && failingSince === undefined)
    this.url = url
    this.parked = parked?.reason
    if (!owed && failingSince !== this.failingSince) this.failsSince(failingSince)
    if (fresh) this.renew()
  }

  /** It is sent to at once. */
  private renew(): void {
    this.failures = 0
    this.notBefore = 0
    this.reason = undefined
    for (const item of this.waiting.values()) item.notBefore = 0
  }

  add(waiting: Waiting): void {
    if (!this.waiting.has(waiting.seq)) this.put(this.itemOf(waiting))
  }

  remove(seq: number): void {
    this.bytes -= this.waiting.get(seq)?.bytes ?? 0
    this.waiting.delete(seq)
  }

  clear(): void {
    this.waiting.clear()
    this.bytes = 0
  }

  private put(item: Item): void {
    this.waiting.set(item.seq, item)
    this.bytes += item.bytes
  }

  /** Those that are too old; they are busy from then on. */
  takeExpired(): Item[] {
    const old: Item[] = []
    for (const item of this.waiting.values()) {
      if (!this.ages.isTooOld(item.since)) break
      if (item.busy) continue
      item.busy = true
      old.push(item)
    }
    return old
  }

  /** The oldest that may be sent, or the time of the next one; undefined = nothing waits, or not until something happens. @param limit attempts at one time. */
  next(now: number, limit: number): Item | number | undefined {
    if (this.parked !== undefined || this.inFlight >= (this.slow ? 1 : limit)) return undefined
    let soonest = Number.POSITIVE_INFINITY
    for (const item of this.waiting.values()) {
      if (item.busy) continue
      const at = Math.max(item.notBefore, this.notBefore)
      if (at <= now) return item
      if (at < soonest) soonest = at
      if (this.notBefore > now && item.notBefore <= this.notBefore) break
    }
    return soonest === Number.POSITIVE_INFINITY ? undefined : soonest
  }

  /** An attempt has failed. @param now wall clock. @returns whether that is news. */
  failed(now: number): boolean {
    const news = this.failingSince === undefined
    if (news) this.failsSince(now)
    return news
  }

  /** It has taken nothing for as long as it may. */
  get failsTooLong(): boolean {
    return this.failingSince !== undefined && this.ages.failsTooLong(this.failingFrom)
  }

  /** An attempt was good. @returns whether that is news. */
  succeeded(): boolean {
    const news = this.failingSince !== undefined
    this.failures = 0
    this.notBefore = 0
    this.reason = undefined
    this.failingSince = undefined
    return news
  }

  oldest(): Item | undefined {
    return this.waiting.get(this.waiting.oldest() ?? -1)
  }

  private failsSince(time: number | undefined): void {
    this.failingSince = time
    if (time !== undefined) this.failingFrom = this.ages.failingFrom(time)
  }

  private itemOf(waiting: Waiting): Item {
    return { ...waiting, since: this.ages.waitingFrom(waiting.at), attempts: 0, notBefore: 0, busy: false }
  }
}
