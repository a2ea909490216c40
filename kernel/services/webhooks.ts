/**
 * Tells somebody outside: CloudEvents by HTTPS, signed as Standard Webhooks says. Whoever delivers them provides the service WEBHOOKS, a `Webhooks`; others
 * require it, define endpoints and hand deliveries over.
 */
export const WEBHOOKS = 'webhooks'

/** What an endpoint is known by. */
export interface WebhookRef {
  /** Id of the plugin that it belongs to. */
  owner: string
  /** Whose it is: what waits and what is sent is bounded for each namespace. */
  namespace: string
  /** 1 to 128 characters of letters, digits, `_`, `-`, `.` and `:`; the owner's choice, such as `cpu_hot:1`. */
  name: string
}

/** What is delivered: the attributes of CloudEvents 1.0. `source` and `id` together are its identity. */
export interface WebhookEvent {
  /** At most 256 characters. */
  id: string
  source: string
  /** Such as `io.svc.signal.fired`. */
  type: string
  /** When it happened, milliseconds since the Unix epoch. */
  time: number
  subject?: string
  /** JSON-like. */
  data: unknown
}

/** An event, and the endpoint that it is for. */
export interface WebhookDelivery {
  endpoint: WebhookRef
  event: WebhookEvent
}

/**
 * `queued`: it is kept, and will be delivered or reported as lost. `known`: it waits already, or was dealt with lately. `unrouted`: there is no such
 * endpoint. `too_large`: the body has more than `webhooks.max_event_bytes`, or more than there may be waiting, or the id is too long.
 */
export type WebhookAnswer = 'queued' | 'known' | 'unrouted' | 'too_large'

/** What became of a delivery. `retried`: an attempt failed and another one follows; `dropped`: the queue was full and it was the oldest; `expired`: nobody took it for too long. */
export interface WebhookReport {
  endpoint: WebhookRef
  /** Of the event. */
  id: string
  result: 'delivered' | 'retried' | 'dropped' | 'expired'
  /** Since it was queued. */
  seconds: number
}

/** How an endpoint stands: what waits, what was delivered, what was lost. */
export interface WebhookStatus extends WebhookRef {
  /** Scheme, host and port: paths of webhooks are often secrets. */
  origin: string
  /** `failing`: its last attempt failed; `parked`: nothing is sent until it is defined again or rearmed. */
  state: 'active' | 'failing' | 'parked'
  /** Why it is parked, or why the last attempt failed. */
  reason?: string
  /** Milliseconds since the Unix epoch: since when nothing was accepted. */
  failing_since?: number
  /** Deliveries, and the bytes that they count for: of the bodies, and 512 each. */
  waiting: number
  waiting_bytes: number
  /** Of the oldest that waits. */
  oldest_age_secs?: number
  delivered: number
  /** Deliveries that were lost, since it was defined first: dropped or expired. */
  lost: number
}

/** What one attempt came to. `refused`: it is of no use to try again; the receiver is gone, or its address is not allowed. */
export interface WebhookAttempt {
  result: 'taken' | 'failed' | 'refused'
  /** In one line; empty when it was taken. */
  reason: string
  /** Milliseconds that the receiver asks for. */
  retryAfterMs?: number
  /** Of HTTP; absent where it has not answered. */
  status?: number
}

/** The service WEBHOOKS. */
export interface Webhooks {
  /**
   * Says whether an endpoint may have this URL: https, no user, no internal host, and no address, literal or resolved, that is not public; and whether
   * there is a key to sign with. A name that does not resolve now may later: each connection is checked again.
   * @throws SvcError BAD_REQUEST saying what is wrong with it.
   */
  check(url: string): Promise<void>
  /**
   * Makes an endpoint, or gives one another URL; one that is parked is sent to again. Durable when it resolves: define first, then commit what uses it, and
   * when starting, remove those that nothing uses.
   * @throws SvcError BAD_REQUEST as of `check`; RATE_LIMITED when the namespace or the server has as many as it may.
   */
  define(endpoint: WebhookRef, url: string): Promise<void>
  /** With all that waits. Nothing happens when there is none. */
  remove(endpoint: WebhookRef): Promise<void>
  /** By namespace and name. @param namespace undefined = all. */
  list(owner: string, namespace?: string): Promise<WebhookStatus[]>
  /** Deliveries of an owner that wait, in the process that delivers them; others have none. For metrics: nothing is read. */
  waiting?(owner: string): number
  /**
   * Resolves when all are durable, with an answer for each, in order. A delivery that was handed over before is `known` and not sent twice, so whoever
   * crashes between this and a commit of its own does both again: give events the same id each time. @throws what the state store throws: do it again.
   */
  enqueue(deliveries: readonly WebhookDelivery[]): Promise<WebhookAnswer[]>
  /**
   * Sends an event once, at once, for callers that keep what they have to tell in a place of their own: signed, and guarded as all deliveries are. Nothing of it
   * is kept, and nothing is tried again. @param headers beside those of the delivery. Does not throw.
   */
  send(url: string, event: WebhookEvent, headers?: Readonly<Record<string, string>>): Promise<WebhookAttempt>
  /** Has an owner told what becomes of its deliveries, in the process that delivers them; what `listener` throws is ignored. */
  observe(owner: string, listener: (report: WebhookReport) => void): void
}
