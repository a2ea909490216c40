/** Where signals go: the log of the server, and webhooks by the service that delivers them. */
import { setTimeout as sleep } from 'node:timers/promises'
import type { AuditLog, AuditRecord, Clock, Logger, SignalSink, TriggerSignal, WebhookDelivery, WebhookReport, Webhooks } from 'svcdb'
import { nextTurn } from 'svcdb/lib/event-loop'
import type { ChannelName, TriggersMetrics } from './metrics.ts'
import { millisOf, type Signal, signalData } from './signal.ts'
import type { Tenant } from './tenant.ts'
import type { Trigger } from './trigger.ts'

/** Lines between two turns of the event loop. */
const LINES = 50
/** Entries that wait for the audit log together. */
const RECORDED_AT_ONCE = 256

interface ChannelsOptions {
  id: string
  log: Logger
  metrics: TriggersMetrics
  clock: Clock
  logQueueSize: number
  webhooks(): Webhooks | undefined
  /** Who wants them inside the node, if anybody does. */
  sink(): SignalSink | undefined
  /** Where signals are recorded, if they are. */
  auditLog(): AuditLog | undefined
}

/** Without multi_tenancy there is one, which has no name in the data. */
export const webhookNamespace = (namespace: string): string => (namespace === '' ? 'default' : namespace)

/** What the service knows a trigger's n-th channel by. */
export const endpointName = (trigger: Pick<Trigger, 'id'>, channel: number): string => `${trigger.id}:${channel}`

interface Line {
  namespace: string
  signal: Signal
  at: number
}

export class Channels {
  private readonly options: ChannelsOptions
  private readonly lines: Line[] = []
  /** Of each namespace. */
  private readonly waiting = new Map<string, number>()
  private writing: Promise<void> | undefined

  constructor(options: ChannelsOptions) {
    this.options = options
  }

  /** Signals that wait, by channel. */
  get depth(): Record<ChannelName, number> {
    return { log: this.lines.length, webhook: this.options.webhooks()?.waiting?.(this.options.id) ?? 0 }
  }

  /** Has what becomes of deliveries counted. */
  observe(): void {
    const { metrics, id } = this.options
    this.options.webhooks()?.observe(id, ({ result, seconds }: WebhookReport) => {
      const channel = { channel: 'webhook' }
      if (result === 'delivered') {
        metrics.delivered.inc(channel)
        metrics.duration.observe(channel, Math.max(0, seconds))
      } else if (result === 'dropped') metrics.dropped.inc(channel)
      else metrics.failed.inc(channel)
    })
  }

  /** May be done again with the same signals: what can fail comes first, and knows what it has. */
  async handOver(tenant: Tenant, signals: readonly Signal[]): Promise<void> {
    const { metrics } = this.options
    const deliveries: WebhookDelivery[] = []
    const lines: Signal[] = []
    let unrouted = 0
    for (const signal of signals) {
      const trigger = tenant.byId.get(signal.trigger_id)
      if (trigger === undefined) continue
      if (trigger.delivery.length === 0) unrouted++
      for (const [i, channel] of trigger.delivery.entries()) {
        if (channel.kind === 'log') lines.push(signal)
        else deliveries.push(this.deliveryOf(tenant, trigger, i, signal))
      }
    }
    if (deliveries.length > 0) await this.deliver(deliveries)
    await this.options.sink()?.take(webhookNamespace(tenant.namespace), signals.map(handedOver))
    await this.record(tenant, signals)
    for (const signal of lines) this.queue(tenant.namespace, signal)
    metrics.unrouted.inc(unrouted)
  }

  /** Some at a time, which share a sync of the audit log: of a storm each would wait for one of its own. */
  private async record(tenant: Tenant, signals: readonly Signal[]): Promise<void> {
    const auditLog = this.options.auditLog()
    if (auditLog === undefined) return
    for (let i = 0; i < signals.length; i += RECORDED_AT_ONCE) {
      const entries = signals.slice(i, i + RECORDED_AT_ONCE).map((signal) => entryOf(tenant, signal))
      const outcomes = await Promise.allSettled(entries.map((entry) => auditLog.record(entry)))
      // Where so many find no room in its queue, there is room for one at a time.
      for (const [at, { status }] of outcomes.entries()) if (status === 'rejected') await auditLog.record(entries[at])
    }
  }

  private async deliver(deliveries: readonly WebhookDelivery[]): Promise<void> {
    const { metrics } = this.options
    const webhooks = this.options.webhooks()
    if (webhooks === undefined) return void metrics.unrouted.inc(deliveries.length)
    for (const answer of await webhooks.enqueue(deliveries)) {
      if (answer === 'queued') metrics.queued.inc({ channel: 'webhook' })
      else if (answer === 'unrouted') metrics.unrouted.inc()
      else if (answer === 'too_large') metrics.failed.inc({ channel: 'webhook' })
    }
  }

  /** Resolves when nothing waits for the log, or when the time is over. */
  async drained(ms: number): Promise<void> {
    await Promise.race([this.writing, sleep(ms, undefined, { ref: false })])
  }

  private deliveryOf(tenant: Tenant, trigger: Trigger, channel: number, signal: Signal): WebhookDelivery {
    return {
      endpoint: { owner: this.options.id, namespace: webhookNamespace(tenant.namespace), name: endpointName(trigger, channel) },
      event: {
        id: signal.event_id,
        source: `svc:trigger/${signal.trigger_name}`,
        type: 'io.svc.signal.fired',
        time: millisOf(signal.timestamp),
        data: signalData(signal),
      },
    }
  }

  private queue(namespace: string, signal: Signal): void {
    const { metrics, logQueueSize, clock } = this.options
    if (this.lines.length >= logQueueSize) {
      const [most] = [...this.waiting].reduce((a, b) => (b[1] > a[1] ? b : a))
      const oldest = this.lines.findIndex((line) => line.namespace === most)
      this.took(this.lines.splice(oldest, 1))
      metrics.dropped.inc({ channel: 'log' })
    }
    this.lines.push({ namespace, signal, at: clock.monotonic() })
    this.waiting.set(namespace, (this.waiting.get(namespace) ?? 0) + 1)
    metrics.queued.inc({ channel: 'log' })
    this.writing ??= this.write().finally(() => {
      this.writing = undefined
    })
  }

  /** They wait no more. */
  private took(lines: readonly Line[]): readonly Line[] {
    for (const { namespace } of lines) {
      const left = (this.waiting.get(namespace) ?? 1) - 1
      if (left > 0) this.waiting.set(namespace, left)
      else this.waiting.delete(namespace)
    }
    return lines
  }

  private async write(): Promise<void> {
    const { log, metrics, clock } = this.options
    while (this.lines.length > 0) {
      await nextTurn()
      for (const { signal, at } of this.took(this.lines.splice(0, LINES))) {
        // The time as text: loggers write numbers of so many digits in their own ways.
        log.info({ signal: { ...signalData(signal), timestamp: signal.timestamp } }, `trigger ${signal.trigger_name} has fired`)
        metrics.delivered.inc({ channel: 'log' })
        metrics.duration.observe({ channel: 'log' }, (clock.monotonic() - at) / 1000)
      }
    }
  }
}

function handedOver({ event_id, trigger_name, measurement, tags, timestamp, severity, value, metadata }: Signal): TriggerSignal {
  return { event_id, trigger_name, measurement, tags, timestamp, severity, value, condition: metadata.condition }
}

function entryOf({ namespace }: Tenant, { event_id, trigger_name, measurement, severity, value }: Signal): AuditRecord {
  const resource = namespace === '' ? trigger_name : `${namespace}/${trigger_name}`
  return { action: 'signal_fired', resource, decision: 'allow', metadata: { event_id, measurement, severity, value: String(value) } }
}
