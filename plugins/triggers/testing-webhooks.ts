/** The service that delivers webhooks, as tests have it: it keeps what it is given. */
import { definePlugin, WEBHOOKS, type WebhookDelivery, type WebhookRef, type WebhookReport, type Webhooks } from 'svcdb'
import { SvcError } from 'svcdb/lib/errors'

export class FakeWebhooks implements Webhooks {
  readonly endpoints = new Map<string, string>()
  readonly deliveries = new Map<string, WebhookDelivery>()
  readonly listeners: ((report: WebhookReport) => void)[] = []
  /** Calls that fail before the next one works. */
  failures = 0

  async check(url: string): Promise<void> {
    if (!url.startsWith('https://')) throw new SvcError('BAD_REQUEST', `cannot send to "${url}": it is not https`)
  }
  async send() {
    return { result: 'taken' as const, reason: '' }
  }
  async define({ owner, namespace, name }: WebhookRef, url: string): Promise<void> {
    await this.check(url)
    this.endpoints.set(`${namespace}/${owner}/${name}`, url)
  }
  async remove({ owner, namespace, name }: WebhookRef): Promise<void> {
    this.endpoints.delete(`${namespace}/${owner}/${name}`)
  }
  async list() {
    return [...this.endpoints.keys()].map((key) => {
      const [namespace, owner, name] = key.split('/')
      return { namespace, owner, name, origin: '', state: 'active' as const, waiting: 0, waiting_bytes: 0, delivered: 0, lost: 0 }
    })
  }
  async enqueue(deliveries: readonly WebhookDelivery[]) {
    if (this.failures > 0) {
      this.failures--
      throw new SvcError('STORAGE_FULL', 'no space')
    }
    return deliveries.map((delivery) => {
      const { owner, namespace, name } = delivery.endpoint
      if (!this.endpoints.has(`${namespace}/${owner}/${name}`)) return 'unrouted' as const
      const known = this.deliveries.has(delivery.event.id)
      this.deliveries.set(delivery.event.id, delivery)
      return known ? ('known' as const) : ('queued' as const)
    })
  }
  observe(_owner: string, listener: (report: WebhookReport) => void): void {
    this.listeners.push(listener)
  }
}

export const webhooksPlugin = (service: Webhooks) =>
  definePlugin({ id: 'fake', summary: 'Takes deliveries', stability: 'experimental', provides: [WEBHOOKS], setup: (svc) => svc.provide(WEBHOOKS, service) })
