/** Periods of a quota, in UTC. */
export type PeriodLength = 'month' | 'day'

/** `YYYY-MM` or `YYYY-MM-DD`. @param now milliseconds since the Unix epoch. */
export function periodOf(now: number, length: PeriodLength): string {
  return new Date(now).toISOString().slice(0, length === 'month' ? 7 : 10)
}
