/** Calendars: what a description of a deadline comes to. What came out is kept, with the digest of the calendar, and never computed again. */
import { hash } from 'node:crypto'
import type { Calendar } from 'svcdb/agents'
import { SvcError } from 'svcdb/lib/errors'

const UNITS: Readonly<Record<string, number>> = { minutes: 60_000, hours: 3_600_000, days: 86_400_000 }
/** Of dates. */
const LAST = 8.64e15

/** Minutes, hours and days as the clock counts them: it knows no holidays, and says so rather than guess. */
export const wallClock: Calendar = {
  name: 'wall_clock',
  digest: hash('sha256', 'svc.calendar.wallclock.v1'),
  resolve(from, { unit, n }) {
    const refuse = (why: string) => new SvcError('BAD_REQUEST', `cannot resolve a deadline: ${why}`)
    if (!Object.hasOwn(UNITS, unit)) throw refuse(`the calendar wall_clock has no unit ${JSON.stringify(unit)}; it has ${Object.keys(UNITS).join(', ')}`)
    if (!Number.isSafeInteger(n) || (n as number) < 0) throw refuse('n is a number of units, 0 or more')
    const at = from + UNITS[unit] * (n as number)
    if (!(at < LAST)) throw refuse(`${n} ${unit} are beyond all dates`)
    return at
  },
}
