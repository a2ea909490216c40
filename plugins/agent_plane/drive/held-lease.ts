/** The lease under which a pass goes on, as far as this process knows of it. */
import type { StateStore } from 'svcdb'
import { Fenced, leaseOf, renewLease } from '../store/leases.ts'

interface LeaseTools {
  state: StateStore
  leaseMs: number
  now(): number
}

export class HeldLease {
  private readonly run: string
  private readonly epoch: number
  private readonly tools: LeaseTools
  private until: number

  private constructor(run: string, epoch: number, tools: LeaseTools, until: number) {
    this.run = run
    this.epoch = epoch
    this.tools = tools
    this.until = until
  }

  static async of(run: string, epoch: number, tools: LeaseTools): Promise<HeldLease> {
    const row = await leaseOf(tools.state, run)
    return new HeldLease(run, epoch, tools, row?.epoch === epoch ? row.until : 0)
  }

  /** @returns whether it is still this process's. */
  async renew(): Promise<boolean> {
    const { state, leaseMs, now } = this.tools
    // As of before it is asked for: an answer may come late.
    const at = now()
    const isHeld = await state.transaction((tx) => renewLease(tx, this.run, this.epoch, at, leaseMs))
    if (isHeld) this.until = at + leaseMs
    return isHeld
  }

  /**
   * For what nobody else can take back once it is done: until a lease has lapsed, no other process goes on with its run. @returns undefined where it has not,
   * which is as good as always. @throws Fenced.
   */
  required(): Promise<void> | undefined {
    return this.tools.now() < this.until ? undefined : this.renewed()
  }

  private async renewed(): Promise<void> {
    while (this.tools.now() >= this.until) if (!(await this.renew())) throw new Fenced(this.run, this.epoch)
  }
}
