/** Endpoints as the state store has them (docs/formats/webhooks.md), and their names. */
import type { WebhookRef } from 'svcdb'
import { SvcError } from 'svcdb/lib/errors'

export interface EndpointRecord {
  url: string
  /** Milliseconds since the Unix epoch, of the first definition. */
  defined: number
  /** Number of the next delivery: they go up, also over a removal and a new definition, as the first is taken from the clock. */
  next: number
  /** Deliveries that wait, and their bytes. */
  waiting: number
  bytes: number
  delivered: number
  lost: number
  /** Milliseconds since the Unix epoch: since when nothing was accepted; absent = the last attempt was good. */
  failing_since?: number
  /** Nothing is sent. */
  parked?: { at: number; reason: string }
  /** It goes: what waited for it is being taken out, and nothing is sent. */
  removed?: true
}

/** One that waits; its body is apart. */
export interface WaitingEntry {
  /** `msg_` and hex. */
  message: string
  /** Of the event. */
  id: string
  /** Milliseconds since the Unix epoch, when it was queued. */
  at: number
  /** Of the body, and `ENTRY_BYTES`. */
  bytes: number
}

/** What a delivery counts for beside its body: its entries, in the store and in memory. */
export const ENTRY_BYTES = 512

const NAME = /^[A-Za-z0-9_.:-]{1,128}$/
const PART = /^[a-z][a-z0-9_-]{0,127}$/

/** `<namespace>/<owner>/<name>`: none of them has a "/". @throws BAD_REQUEST. */
export function keyOf({ namespace, owner, name }: WebhookRef): string {
  if (!PART.test(namespace) || !PART.test(owner) || !NAME.test(name))
    throw new SvcError(
      'BAD_REQUEST',
      `cannot use webhook endpoint "${`${namespace}/${owner}/${name}`.slice(0, 200)}": a name has 1 to 128 letters, digits, "_", ".", ":" and "-"; choose another`,
    )
  return `${namespace}/${owner}/${name}`
}

export function refOf(key: string): WebhookRef {
  const [namespace, owner, name] = key.split('/')
  return { namespace, owner, name }
}
