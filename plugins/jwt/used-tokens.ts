/** Which tokens were used, by issuer and jti, until they expire: so that each is for one call. */
import { hash } from 'node:crypto'
import { TokenRefused } from './refusal.ts'

const MAX_USED = 100_000
/** Looking for expired ones goes through all. */
const SWEEP_MS = 1000
const MAX_JTI_LENGTH = 1024

export class UsedTokens {
  private readonly used = new Map<string, number>()
  private readonly clockSkewMs: number
  private readonly now: () => number
  private readonly max: number
  private sweptAt = Number.NEGATIVE_INFINITY

  /** @param now wall clock, milliseconds. */
  constructor({ clockSkewMs, now, max = MAX_USED }: { clockSkewMs: number; now(): number; max?: number }) {
    this.clockSkewMs = clockSkewMs
    this.now = now
    this.max = max
  }

  get size(): number {
    return this.used.size
  }

  /** @throws TokenRefused for a token that was used, that has no jti, or when there is no room to remember it: nothing is forgotten early. */
  use({ iss, jti }: Record<string, unknown>, expiresAt: number): void {
    if (typeof jti !== 'string' || jti === '' || jti.length > MAX_JTI_LENGTH)
      throw new TokenRefused('claims', `the claim jti must be a text of 1 to ${MAX_JTI_LENGTH} characters; have it issued so`)
    const key = hash('sha256', JSON.stringify([iss, jti]), 'base64')
    if (this.used.has(key)) throw new TokenRefused('replayed')
    if (this.used.size >= this.max) this.sweep()
    if (this.used.size >= this.max) throw new TokenRefused('too_many')
    this.used.set(key, expiresAt + this.clockSkewMs)
  }

  private sweep(): void {
    const now = this.now()
    if (Math.abs(now - this.sweptAt) < SWEEP_MS) return
    this.sweptAt = now
    for (const [key, until] of this.used) if (until <= now) this.used.delete(key)
  }
}
