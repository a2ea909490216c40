/** That this process has work to itself. */
import { SvcError } from '../lib/errors/index.ts'
import type { StateStore, StateTransaction } from '../storage/state.ts'
import { fenceKey } from './records.ts'

/**
 * Held from the begin of the work until `signal` is aborted. The holder stops then: another node may have begun. One that stands still, and does not know that it
 * has lost it, is kept from writing by `guard`.
 */
export interface Claim {
  /** `<plugin>/<name>`. */
  readonly work: string
  /** Grows each time the work changes hands or begins anew: what was done under a smaller one is over. On a node that shares its state with nobody, 0. */
  readonly token: number
  /** Aborted when the claim is lost, when the work is to go to another node, and when the node stops. */
  readonly signal: AbortSignal
  /** Milliseconds for which no other node can have it, as long as the state store is not asked again; 0 = it is lost. Infinity where nobody else could. */
  remainingMs(): number
  /**
   * For each transaction, of any owner's state, that only the owner of the work may commit: notes the token in that state, under `fence/<work>`, and refuses
   * where a larger one has been there. Other systems that can compare numbers take `token` for the same.
   * @throws CONFLICT when the claim is lost.
   */
  guard(tx: StateTransaction): Promise<void>
}

export class HeldClaim implements Claim {
  readonly work: string
  readonly token: number
  readonly signal: AbortSignal
  private readonly remaining: () => number

  constructor(work: string, token: number, signal: AbortSignal, remaining: () => number) {
    this.work = work
    this.token = token
    this.signal = signal
    this.remaining = remaining
  }

  remainingMs(): number {
    return this.remaining()
  }

  async guard(tx: StateTransaction): Promise<void> {
    if (this.token === 0) return
    if (this.remaining() <= 0) throw lost(this.work)
    const key = fenceKey(this.work)
    const newest = (await tx.get<number>(key)) ?? 0
    if (newest > this.token) throw lost(this.work)
    if (newest < this.token) tx.put(key, this.token)
  }

  /** From when it resolves on nobody who had the work before writes to this state as its owner. */
  async fence(store: StateStore): Promise<void> {
    if (this.token !== 0) await store.transaction((tx) => this.guard(tx))
  }
}

const lost = (work: string): SvcError => new SvcError('CONFLICT', `cannot write as the owner of "${work}": another node has it now, or may have; stop the work`)
