/** The Subscribe calls of this node: how many there are, and what ends them. */
import { administersServer, type CallContext, type Counter, type Svc } from 'svcdb'
import { SvcError } from 'svcdb/lib/errors'
import type { GrpcCall, SendMessage } from 'svcdb/lib/grpc'
import { RowBatches } from './change-batches.ts'
import { ChangeMessages } from './change-messages.ts'
import type { GrpcPluginConfig } from './config.ts'
import { subscribeRequest } from './requests.ts'
import { Subscriber } from './subscriber.ts'
import { subscriptionOf } from './subscription.ts'

/** Clients take 4 MiB a message unless told otherwise. */
const MESSAGE_BYTES = 1 << 20

export class Subscriptions {
  private readonly svc: Svc
  private readonly config: GrpcPluginConfig
  private readonly path: string
  private readonly subscribers = new Set<Subscriber>()
  private readonly byNamespace = new Map<string, number>()
  private readonly batches = new RowBatches()
  private readonly rows: Counter
  private readonly gaps: Counter

  /** @param path of the method. */
  constructor(svc: Svc, config: GrpcPluginConfig, path: string) {
    this.svc = svc
    this.path = path
    this.config = config
    const { metrics } = svc
    metrics.gauge('grpc_subscribers', 'Subscribe calls under way', [], (gauge) => gauge.set({}, this.subscribers.size))
    metrics.gauge('grpc_subscriber_lag_commits', 'Commits that the subscriber furthest behind has not been told of', [], (gauge) =>
      gauge.set({}, Math.max(0, ...[...this.subscribers].map(({ behind }) => behind))),
    )
    this.rows = metrics.counter('grpc_subscribed_rows_total', 'Rows of changes sent to subscribers')
    this.gaps = metrics.counter('grpc_subscriber_gaps_total', 'Times that a subscriber was told of changes it has missed')
    svc.stopping.addEventListener('abort', () => this.end(), { once: true })
  }

  async subscribe(request: Uint8Array, call: GrpcCall<CallContext>, send: SendMessage): Promise<void> {
    const { svc, config, batches, rows, gaps } = this
    const { context, signal } = call
    const namespace = context.dataNamespace
    const asked = subscribeRequest(request, svc.server.max_body_members)
    const subscription = subscriptionOf(asked, namespace !== '' && !administersServer(context))
    this.admit(namespace)
    const { measurements, kinds, after } = subscription
    const cursor = svc.storage.changes({
      namespace,
      kinds,
      signal,
      ...(measurements === undefined ? {} : { measurements }),
      ...(after === undefined ? {} : { after }),
    })
    const messages = new ChangeMessages(batches, Math.min(MESSAGE_BYTES, config.max_send_bytes >> 1))
    const stands = svc.auth.standing(context, 'read', this.path)
    const subscriber = new Subscriber({ cursor, subscription, messages, send, stands, clock: svc.clock, config, counters: { rows, gaps } })
    this.subscribers.add(subscriber)
    this.byNamespace.set(namespace, (this.byNamespace.get(namespace) ?? 0) + 1)
    try {
      await subscriber.run()
    } finally {
      this.leave(subscriber, namespace)
    }
  }

  private admit(namespace: string): void {
    const { config, subscribers, svc } = this
    if (svc.stopping.aborted) throw stopping()
    if (subscribers.size >= config.max_subscribers)
      throw new SvcError(
        'RATE_LIMITED',
        `cannot subscribe: ${subscribers.size} calls are under way, as many as grpc.max_subscribers lets; end one, or raise it`,
      )
    const own = this.byNamespace.get(namespace) ?? 0
    if (namespace !== '' && own >= config.max_subscribers_per_namespace)
      throw new SvcError(
        'RATE_LIMITED',
        `cannot subscribe: ${own} calls of the namespace are under way, as many as grpc.max_subscribers_per_namespace lets; end one`,
      )
  }

  private leave(subscriber: Subscriber, namespace: string): void {
    this.subscribers.delete(subscriber)
    const left = (this.byNamespace.get(namespace) ?? 1) - 1
    if (left > 0) this.byNamespace.set(namespace, left)
    else this.byNamespace.delete(namespace)
    if (this.subscribers.size === 0) this.batches.clear()
  }

  private end(): void {
    for (const subscriber of this.subscribers) subscriber.fail(stopping())
  }
}

function stopping(): SvcError {
  return new SvcError('DATABASE_CLOSED', 'cannot go on with the subscription: the server is stopping; subscribe again after the last position when it is back')
}
