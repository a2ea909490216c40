/** Work that this process could do, and what becomes of it here. */
import type { Logger } from '../log.ts'
import type { Clock } from '../plugin.ts'
import type { StateStore } from '../storage/state.ts'
import { type Claim, HeldClaim } from './claim.ts'

/** Begins when the claim is had, and ends when its signal is aborted. One that ends before is begun again after a pause. */
export type OwnedWork = (claim: Claim) => void | Promise<void>

export interface WantOptions {
  /** Each node does it that is not being decommissioned. */
  everywhere?: true
  /** Where the token is noted before the work begins, so that the one before can write there no more. */
  fence?: () => StateStore
  /** What runs cannot be aborted: it goes to another node when it has ended, however long that takes. */
  unbounded?: true
}

interface WantDependencies {
  clock: Clock
  log: Logger
  /** How long work may take to end, milliseconds. */
  graceMs: number
  pauseMs(): number
  /** For how long what is held is held still. */
  remainingMs(): number
}

interface Held {
  token: number
  over: AbortController
  ended: Promise<void>
}

export class Want {
  readonly work: string
  readonly options: WantOptions
  private readonly run: OwnedWork
  private readonly dependencies: WantDependencies
  private held: Held | undefined
  /** Since when it could be had, monotonic: whoever was to take it has let it pass if that is long. */
  freeSince: number | undefined

  constructor(work: string, run: OwnedWork, options: WantOptions, dependencies: WantDependencies) {
    this.work = work
    this.run = run
    this.options = options
    this.dependencies = dependencies
  }

  /** Of the claim that the work has here, also while it ends. */
  get token(): number | undefined {
    return this.held?.token
  }

  get ending(): boolean {
    return this.held?.over.signal.aborted === true
  }

  begin(token: number): void {
    const over = new AbortController()
    const remaining = (): number => (over.signal.aborted ? 0 : token === 0 ? Number.POSITIVE_INFINITY : this.dependencies.remainingMs())
    const claim = new HeldClaim(this.work, token, over.signal, remaining)
    const held: Held = { token, over, ended: Promise.resolve() }
    this.held = held
    this.freeSince = undefined
    held.ended = this.keepRunning(claim)
  }

  /** Never rejects. */
  private async keepRunning(claim: HeldClaim): Promise<void> {
    const { log, pauseMs } = this.dependencies
    while (!claim.signal.aborted) {
      try {
        const { fence } = this.options
        if (fence !== undefined) await claim.fence(fence())
        if (!claim.signal.aborted) await this.run(claim)
      } catch (err) {
        if (!claim.signal.aborted) log.error({ err, work: this.work }, 'work that this node owns has failed; it is begun again')
      }
      if (!claim.signal.aborted) await this.pause(pauseMs(), claim.signal)
    }
  }

  private pause(ms: number, signal: AbortSignal): Promise<void> {
    return new Promise((resolve) => {
      const done = (): void => {
        cancel()
        signal.removeEventListener('abort', done)
        resolve()
      }
      const cancel = this.dependencies.clock.after(ms, done)
      signal.addEventListener('abort', done, { once: true })
    })
  }

  /** Aborts what runs. Resolves when it has ended, or has had its time, if there is a bound: it can be begun again then. */
  async end(unbounded = false): Promise<void> {
    const { held } = this
    if (held === undefined) return
    held.over.abort()
    const { clock, graceMs, log } = this.dependencies
    const inTime = await new Promise<boolean>((resolve) => {
      const cancel = unbounded ? () => {} : clock.after(graceMs, () => resolve(false))
      void held.ended.then(() => {
        cancel()
        resolve(true)
      })
    })
    if (!inTime) log.warn({ work: this.work, after_secs: graceMs / 1000 }, 'work goes on though its signal was aborted; it is not waited for any longer')
    if (this.held === held) this.held = undefined
  }
}
