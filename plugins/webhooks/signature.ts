/** Signatures and ids of Standard Webhooks 1.0. */
import { createHash, createHmac } from 'node:crypto'
import type { Secret } from 'svcdb'

const PREFIX = 'whsec_'
/** As the specification asks. */
const MIN_KEY_BYTES = 24

/** @throws Error that says which one is wrong, and not what it is. */
export function signingKeys(secrets: readonly Secret[]): Buffer[] {
  return secrets.map((secret, i) => {
    const text = secret.reveal()
    const base64 = text.startsWith(PREFIX) ? text.slice(PREFIX.length) : text
    const key = Buffer.from(base64, 'base64')
    if (!/^[A-Za-z0-9+/]+={0,2}$/.test(base64) || key.length < MIN_KEY_BYTES)
      throw new Error(
        `cannot use webhooks.signing_secrets[${i}]: it is not the base64 of ${MIN_KEY_BYTES} bytes or more; make one with: echo "${PREFIX}$(openssl rand -base64 32)"`,
      )
    return key
  })
}

/** What receivers know a message by that comes again: the same for the same source and id. */
export function messageId(source: string, id: string): string {
  return `msg_${createHash('sha256').update(`${source}\n${id}`).digest('hex').slice(0, 32)}`
}

/** The three headers. @param now milliseconds since the Unix epoch, of the attempt: receivers refuse what is minutes old. */
export function signedHeaders(keys: readonly Buffer[], id: string, now: number, body: string): Record<string, string> {
  const timestamp = String(Math.floor(now / 1000))
  const signatures = keys.map((key) => `v1,${createHmac('sha256', key).update(`${id}.${timestamp}.${body}`).digest('base64')}`)
  return { 'webhook-id': id, 'webhook-timestamp': timestamp, 'webhook-signature': signatures.join(' ') }
}
