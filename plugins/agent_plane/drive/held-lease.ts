/** The lease under which a pass goes on, as far as this process knows of it. */
import type { StateStore } from 'svcdb'
import { Fenced, leaseOf, renewLease } from '../store/leases.ts'

export interface LeaseTools {
  state: StateStore
  leaseMs: number
  /** Milliseconds since the Unix epoch. */
  now(): number
  /** Milliseconds that never go back; default `now`. */
  monotonic?(): number
}

export class HeldLease {
  private readonly run: string
  private readonly epoch: number
  private readonly tools: LeaseTools
  /** By the wall clock, as others read it. */
  private until: number
  /** By a clock that is not set back. */
  private lapses: number

  private constructor(run: string, epoch: number, tools: LeaseTools, until: number, at: number) {
    this.run = run
    this.epoch = epoch
    this.tools = tools
    this.until = until
    this.lapses = at + Math.min(tools.leaseMs, until - tools.now())
  }

  static async of(run: string, epoch: number, tools: LeaseTools): Promise<HeldLease> {
    const at = monotonic(tools)
    const row = await leaseOf(tools.state, run)
    return new HeldLease(run, epoch, tools, row?.epoch === epoch ? row.until : 0, at)
  }

  /** @returns whether it is still this process's. */
  async renew(): Promise<boolean> {
    const { state, leaseMs, now } = this.tools
    // As of before it is asked for: an answer may come late.
    const at = now()
    const since = monotonic(this.tools)
    const isHeld = await state.transaction((tx) => renewLease(tx, this.run, this.epoch, at, leaseMs))
    if (isHeld) {
      this.until = at + leaseMs
      this.lapses = since + leaseMs
    }
    return isHeld
  }

  /**
   * For what nobody else can take back once it is done: until a lease has lapsed, no other process goes on with its run. @returns undefined where it has not,
   * which is as good as always. @throws Fenced.
   */
  required(): Promise<void> | undefined {
    return this.isOver ? this.renewed() : undefined
  }

  private async renewed(): Promise<void> {
    while (this.isOver) if (!(await this.renew())) throw new Fenced(this.run, this.epoch)
  }

  private get isOver(): boolean {
    return this.tools.now() >= this.until || monotonic(this.tools) >= this.lapses
  }
}

const monotonic = (tools: LeaseTools): number => tools.monotonic?.() ?? tools.now()
