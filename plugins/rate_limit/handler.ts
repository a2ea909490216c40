/** The routes of operators: who is shut out, and letting in again. */
import type { CallContext, Clock } from 'svcdb'
import { SvcError } from 'svcdb/lib/errors'
import { readCaller } from './address.ts'
import type { Guard } from './guard.ts'

export class BanHandler {
  private readonly guard: Guard
  private readonly clock: Clock

  constructor(guard: Guard, clock: Clock) {
    this.guard = guard
    this.clock = clock
  }

  list({ offset = 0, limit = 100 }: { offset?: number; limit?: number }) {
    const { lockout } = this.guard
    const now = this.clock.monotonic()
    const items = lockout.list(now, offset, limit).map(({ caller, failures, until }) => ({
      address: caller,
      failures,
      expires_at: new Date(this.clock.now() + until - now).toISOString(),
      remaining_secs: Math.ceil((until - now) / 1000),
    }))
    return { items, total: lockout.banned(now), offset, limit }
  }

  /** @throws BAD_REQUEST for what is no address, NOT_FOUND for one that is not shut out. */
  async lift(address: string, by: CallContext) {
    const caller = readCaller(address)
    const shown = JSON.stringify(address.slice(0, 64))
    if (caller === undefined) throw new SvcError('BAD_REQUEST', `cannot lift the ban of ${shown}: it is no address; write one such as 192.0.2.1 or 2001:db8::1`)
    if (!(await this.guard.lift(caller, by)))
      throw new SvcError('NOT_FOUND', `cannot lift the ban of ${shown}: it is not shut out; GET /api/v1/admin/rate-limit/bans lists those that are`)
    return { ok: true, message: `the ban of ${caller} is lifted` }
  }
}
