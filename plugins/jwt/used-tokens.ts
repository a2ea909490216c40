/** Which tokens were used, by issuer and jti, until they expire: so that each is for one call. */
import { hash } from 'node:crypto'
import { TokenRefused } from './refusal.ts'

/** Tokens that each call looks at, in turn, for those that have expired; and that one looks at for which there is no room. */
const LOOKED = 16
const LOOKED_FOR_ROOM = 1000
const MAX_JTI_LENGTH = 1024

export class UsedTokens {
  private readonly used = new Map<string, { until: number; namespaces: readonly string[] }>()
  /** Of each namespace. */
  private readonly countOf = new Map<string, number>()
  private readonly clockSkewMs: number
  private readonly now: () => number
  private readonly max: number
  /** The next to be looked at. It moves with each call: V8 keeps all tables that a Map has had since an iterator was last moved. */
  private turn = this.used.entries()

  /** @param now wall clock, milliseconds. */
  constructor({ clockSkewMs, now, max }: { clockSkewMs: number; now(): number; max: number }) {
    this.clockSkewMs = clockSkewMs
    this.now = now
    this.max = max
  }

  get size(): number {
    return this.used.size
  }

  /**
   * @param namespaces that the token is for: each leaves a quarter of the room to the others.
   * @throws TokenRefused for a token that was used, that has no jti, or when there is no room to remember it: nothing is forgotten early.
   */
  use({ iss, jti }: Record<string, unknown>, expiresAt: number, namespaces: readonly string[] = []): void {
    if (typeof jti !== 'string' || jti === '' || jti.length > MAX_JTI_LENGTH)
      throw new TokenRefused('claims', `the claim jti must be a text of 1 to ${MAX_JTI_LENGTH} characters; have it issued so`)
    const key = hash('sha256', JSON.stringify([iss, jti]), 'base64')
    if (this.used.has(key)) throw new TokenRefused('replayed')
    this.look(LOOKED)
    if (!this.hasRoom(namespaces)) this.look(LOOKED_FOR_ROOM)
    if (!this.hasRoom(namespaces)) throw new TokenRefused('too_many')
    // The verifier looks at whole seconds, and takes a token until the next one begins.
    this.used.set(key, { until: Math.ceil((expiresAt + this.clockSkewMs) / 1000) * 1000, namespaces })
    for (const namespace of namespaces) this.countOf.set(namespace, (this.countOf.get(namespace) ?? 0) + 1)
  }

  private hasRoom(namespaces: readonly string[]): boolean {
    const share = Math.ceil(this.max * (3 / 4))
    return this.used.size < this.max && namespaces.every((namespace) => (this.countOf.get(namespace) ?? 0) < share)
  }

  /** A part of all: to look at a million, or to remove as many at once, takes a second. */
  private look(most: number): void {
    const now = this.now()
    for (let left = Math.min(most, this.used.size); left > 0; left--) {
      let next = this.turn.next()
      if (next.done) {
        this.turn = this.used.entries()
        next = this.turn.next()
      }
      if (next.done) return
      const [key, { until, namespaces }] = next.value
      if (until <= now) this.remove(key, namespaces)
    }
  }

  private remove(key: string, namespaces: readonly string[]): void {
    this.used.delete(key)
    for (const namespace of namespaces) {
      const left = (this.countOf.get(namespace) ?? 1) - 1
      if (left > 0) this.countOf.set(namespace, left)
      else this.countOf.delete(namespace)
    }
  }
}
