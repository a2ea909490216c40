/** What is known of an attempt that failed. */
export type Disposition = 'did_not_happen' | 'in_doubt' | 'landed'

/**
 * Thrown by what performs an effect, to say what became of it; and by `effect`, when it has failed for good. Any other error of a mutating effect leaves it
 * in doubt, and one of an effect that changes nothing means that it did not happen.
 */
export class EffectError extends Error {
  readonly disposition: Disposition
  /** Another attempt would fail as well. */
  readonly permanent: boolean
  /** Milliseconds that the other side asks to wait. */
  readonly retryAfterMs: number | undefined

  constructor(message: string, { disposition, permanent = false, retryAfterMs }: { disposition: Disposition; permanent?: boolean; retryAfterMs?: number }) {
    super(message)
    this.name = 'EffectError'
    this.disposition = disposition
    this.permanent = permanent
    this.retryAfterMs = retryAfterMs
  }
}
