/** `date_trunc` over nanoseconds: fixed units are one division, months and years the calendar in UTC. */
import { civilFromDays, daysFromCivil, floorDiv } from 'svcdb/lib/time-buckets'
import { foldName } from './names.ts'

const DAY = 86_400_000_000_000n
/** 1970-01-05, a Monday. */
const MONDAY = 4n * DAY

export type Truncation =
  /** Start: t - floorMod(t - anchor, step). */
  { kind: 'fixed'; step: bigint; anchor: bigint; name: string } | { kind: 'months'; count: number; name: string } | { kind: 'isoyear'; name: string }

const UNITS = new Map<string, Truncation>()
const define = (truncation: Truncation, names: string): void => {
  for (const name of names.split(' ')) UNITS.set(name, truncation)
}
const fixed = (name: string, step: bigint, names: string, anchor = 0n): void => define({ kind: 'fixed', step, anchor, name }, names)
const months = (name: string, count: number, names: string): void => define({ kind: 'months', count, name }, names)
// The names are those of DuckDB, and nanoseconds, which it has not.
fixed('nanosecond', 1n, 'nanosecond nanoseconds ns')
fixed('microsecond', 1_000n, 'microsecond microseconds us usec usecs usecond useconds')
fixed('millisecond', 1_000_000n, 'millisecond milliseconds ms msec msecs')
fixed('second', 1_000_000_000n, 'second seconds s sec secs epoch')
fixed('minute', 60_000_000_000n, 'minute minutes m min mins')
fixed('hour', 3_600_000_000_000n, 'hour hours h hr hrs')
fixed('day', DAY, 'day days d dayofmonth dow dayofweek weekday isodow doy dayofyear julian')
fixed('week', 7n * DAY, 'week weeks w weekofyear yearweek', MONDAY)
months('month', 1, 'month months mon mons')
months('quarter', 3, 'quarter quarters')
months('year', 12, 'year years yr yrs y')
months('decade', 120, 'decade decades dec decs')
months('century', 1200, 'century centuries cent c')
months('millennium', 12_000, 'millennium millenniums millennia mil mils')
define({ kind: 'isoyear', name: 'isoyear' }, 'isoyear')

/** @returns undefined for a unit that is none. */
export function truncationOf(unit: string | undefined): Truncation | undefined {
  return unit === undefined ? undefined : UNITS.get(foldName(unit))
}

/** The latest start of a unit at or before t, both in ns since the epoch. */
export function truncate(t: bigint, truncation: Truncation): bigint {
  if (truncation.kind === 'fixed') return floorDiv(t - truncation.anchor, truncation.step) * truncation.step + truncation.anchor
  const today = Number(floorDiv(t, DAY))
  if (truncation.kind === 'isoyear') return BigInt(isoYearStart(today)) * DAY
  const { year, month } = civilFromDays(today)
  const start = Math.floor((year * 12 + month - 1) / truncation.count) * truncation.count
  return BigInt(daysFromCivil(Math.floor(start / 12), (((start % 12) + 12) % 12) + 1, 1)) * DAY
}

/** The Monday of the week with 4 January, of the ISO year that holds the day. */
function isoYearStart(day: number): number {
  const { year } = civilFromDays(day)
  for (const y of [year + 1, year]) {
    const start = mondayBefore(daysFromCivil(y, 1, 4))
    if (start <= day) return start
  }
  return mondayBefore(daysFromCivil(year - 1, 1, 4))
}

const mondayBefore = (day: number): number => day - ((((day + 3) % 7) + 7) % 7)

/** No unit is longer, ns. */
export function longest(truncation: Truncation): bigint {
  if (truncation.kind === 'fixed') return truncation.step
  return truncation.kind === 'isoyear' ? 371n * DAY : BigInt(truncation.count) * 31n * DAY
}
