/** The service WEBHOOKS: what is handed over is checked, kept, and sent by whichever process delivers. */
import type { Clock, WebhookAnswer, WebhookAttempt, WebhookDelivery, WebhookEvent, WebhookRef, WebhookReport, WebhookStatus, Webhooks } from 'svcdb'
import { SvcError } from 'svcdb/lib/errors'
import { keyOf } from './endpoint.ts'
import { CONTENT_TYPE, envelope } from './envelope.ts'
import type { Guard } from './guard.ts'
import type { WebhooksMetrics } from './metrics.ts'
import type { Endpoint, NewDelivery, Outbox, Waiting } from './outbox.ts'
import type { Post } from './post.ts'
import type { Sender } from './sender.ts'
import { messageId, signedHeaders } from './signature.ts'
import { originOf } from './target.ts'

export interface WebhookPage {
  /** Absent: of all. */
  namespace?: string
  state?: WebhookStatus['state']
  offset: number
  limit: number
}

/** Characters of an event's id, which is kept in memory while it waits. */
const MAX_ID = 256

/** What takes the reports of endpoints, by their owner. */
export type Observers = Map<string, ((report: WebhookReport) => void)[]>

interface ServiceOptions {
  /** From the start phase on. */
  outbox(): Outbox
  sender(): Sender
  guard: Guard
  /** From the start phase on. */
  post(): Post
  keys: readonly Buffer[]
  /** Aborted when the server stops. */
  stopping: AbortSignal
  maxEventBytes: number
  clock: Clock
  metrics: WebhooksMetrics
  report(report: WebhookReport): void
  observers: Observers
}

export class WebhookService implements Webhooks {
  private readonly options: ServiceOptions

  constructor(options: ServiceOptions) {
    this.options = options
  }

  async check(url: string): Promise<void> {
    await this.checked(url)
  }

  async define(ref: WebhookRef, url: string): Promise<void> {
    keyOf(ref)
    const { href } = await this.checked(url)
    const endpoint = await this.options.outbox().define(ref, href)
    await this.options.sender().refresh(endpoint.key)
  }

  async remove(ref: WebhookRef): Promise<void> {
    const key = keyOf(ref)
    await this.options.outbox().remove(key)
    await this.options.sender().refresh(key)
  }

  async list(owner: string, namespace?: string): Promise<WebhookStatus[]> {
    return (await this.all(namespace)).filter((status) => status.owner === owner)
  }

  waiting(owner: string): number {
    let sum = 0
    for (const { ref, items } of this.options.sender().all()) if (ref.owner === owner) sum += items.size
    return sum
  }

  /** Of all owners. */
  async all(namespace?: string): Promise<WebhookStatus[]> {
    const endpoints = await this.options.outbox().endpoints(namespace)
    return Promise.all(endpoints.map((endpoint) => this.statusOf(endpoint)))
  }

  /** Some of all: others are counted, and nothing more is asked of them. @returns with how many there are in all. */
  async page({ namespace, state, offset, limit }: WebhookPage): Promise<{ items: WebhookStatus[]; total: number }> {
    const shown: Endpoint[] = []
    let total = 0
    for await (const some of this.options.outbox().slices(namespace)) {
      for (const endpoint of some) {
        if (state !== undefined && this.stateOf(endpoint) !== state) continue
        if (total >= offset && total < offset + limit) shown.push(endpoint)
        total++
      }
    }
    return { items: await Promise.all(shown.map((endpoint) => this.statusOf(endpoint))), total }
  }

  private stateOf({ key, record }: Endpoint): WebhookStatus['state'] {
    if (record.parked !== undefined) return 'parked'
    return (record.failing_since ?? this.options.sender().get(key)?.failingSince) === undefined ? 'active' : 'failing'
  }

  /** Sends to it again, at once. @throws NOT_FOUND. */
  async rearm(ref: WebhookRef): Promise<{ rearmed: boolean; status: WebhookStatus }> {
    const key = keyOf(ref)
    let rearmed = false
    const endpoint = await this.options.outbox().change(key, (record) => {
      rearmed = record.parked !== undefined
      delete record.parked
      delete record.failing_since
    })
    if (endpoint === undefined)
      throw new SvcError('NOT_FOUND', `cannot rearm webhook endpoint "${key}": there is none of this name; GET /api/v1/admin/webhooks lists them`)
    await this.options.sender().refresh(key)
    return { rearmed, status: await this.statusOf(endpoint) }
  }

  async enqueue(deliveries: readonly WebhookDelivery[]): Promise<WebhookAnswer[]> {
    const { metrics, maxEventBytes, outbox, sender } = this.options
    const answers: WebhookAnswer[] = new Array(deliveries.length).fill('too_large')
    const fitting: NewDelivery[] = []
    const places: number[] = []
    for (const [i, { endpoint, event }] of deliveries.entries()) {
      const delivery = { endpoint: keyOf(endpoint), message: messageId(event.source, event.id), id: event.id, body: envelope(event) }
      if (Buffer.byteLength(delivery.body) > maxEventBytes || event.id.length > MAX_ID) continue
      places.push(i)
      fitting.push(delivery)
    }
    const given = await outbox().enqueue(fitting, ({ added, dropped }) => {
      for (const each of dropped) this.tellDropped(each)
      sender().queued(added, dropped)
    })
    for (const [i, answer] of given.entries()) answers[places[i]] = answer
    for (const answer of ['queued', 'known', 'unrouted', 'too_large'] as const) {
      const count = answers.filter((each) => each === answer).length
      if (count > 0) metrics.answered(answer, count)
    }
    return answers
  }

  async send(url: string, event: WebhookEvent, headers: Readonly<Record<string, string>> = {}): Promise<WebhookAttempt> {
    const { keys, clock, post, stopping, maxEventBytes, metrics } = this.options
    const body = envelope(event)
    if (keys.length === 0) return { result: 'failed', reason: 'there is no key to sign deliveries with; set webhooks.signing_secrets' }
    if (Buffer.byteLength(body) > maxEventBytes) return { result: 'refused', reason: `the event has more than ${maxEventBytes} bytes` }
    const began = clock.monotonic()
    const signed = signedHeaders(keys, messageId(event.source, event.id), clock.now(), body)
    const { result, kind, reason, retryAfterMs, status } = await post()(url, { ...headers, ...signed, 'content-type': CONTENT_TYPE }, body, stopping)
    if (kind !== 'aborted') metrics.attempted(kind, (clock.monotonic() - began) / 1000, false)
    if (result === 'delivered') return { result: 'taken', reason: '' }
    return {
      result: result === 'gone' || kind === 'refused' ? 'refused' : 'failed',
      reason,
      ...(retryAfterMs === undefined ? {} : { retryAfterMs }),
      ...(status === undefined ? {} : { status }),
    }
  }

  observe(owner: string, listener: (report: WebhookReport) => void): void {
    const { observers } = this.options
    observers.set(owner, [...(observers.get(owner) ?? []), listener])
  }

  /** All of a namespace that is deleted. */
  async forget(namespace: string): Promise<void> {
    for (const { ref } of await this.options.outbox().endpoints(namespace)) await this.remove(ref)
  }

  private async checked(url: string): Promise<URL> {
    if (this.options.keys.length === 0)
      throw new SvcError('BAD_REQUEST', 'cannot use a webhook: there is no key to sign deliveries with; set webhooks.signing_secrets')
    return this.options.guard.check(url)
  }

  private tellDropped({ endpoint, id, at }: Waiting): void {
    const [namespace, owner, name] = endpoint.split('/')
    this.options.report({ endpoint: { namespace, owner, name }, id, result: 'dropped', seconds: (this.options.clock.now() - at) / 1000 })
  }

  private async statusOf(endpoint: Endpoint): Promise<WebhookStatus> {
    const { key, ref, record } = endpoint
    const target = this.options.sender().get(key)
    const oldest = target === undefined ? (await this.options.outbox().waiting(key, 1))[0] : target.oldest()
    const failing = record.failing_since ?? target?.failingSince
    const reason = record.parked?.reason ?? target?.reason
    return {
      ...ref,
      origin: originOf(new URL(record.url)),
      state: this.stateOf(endpoint),
      ...(reason === undefined ? {} : { reason }),
      ...(failing === undefined ? {} : { failing_since: failing }),
      waiting: record.waiting,
      waiting_bytes: record.bytes,
      ...(oldest === undefined ? {} : { oldest_age_secs: Math.max(0, (this.options.clock.now() - oldest.at) / 1000) }),
      delivered: record.delivered,
      lost: record.lost,
    }
  }
}
