/** Which checkpoint is which, by its name. Pure. */

const NAME = /^(\d{4})(\d{2})(\d{2})T(\d{2})(\d{2})(\d{2})Z$/

/** @param ms since the Unix epoch. @returns such as 20240101T120000Z. */
export function checkpointName(ms: number): string {
  return `${new Date(ms).toISOString().slice(0, 19).replaceAll(/[-:]/g, '')}Z`
}

/** Milliseconds since the Unix epoch; undefined for what is not a checkpoint's name. */
export function checkpointTime(name: string): number | undefined {
  const parts = NAME.exec(name)
  if (parts === null) return undefined
  const [year, month, day, hour, minute, second] = parts.slice(1).map(Number)
  const ms = Date.UTC(year, month - 1, day, hour, minute, second)
  return checkpointName(ms) === name ? ms : undefined
}

/**
 * Which of the finished checkpoints go. The one made last stays whatever its name says: after the clock was set back, older ones may have later names.
 */
export function surplus(names: readonly string[], keep: number, last: string): string[] {
  const others = names.filter((name) => name !== last).sort()
  return others.slice(0, Math.max(0, others.length - (keep - 1)))
}

/** Milliseconds until the next one: an interval after the newest, never more than an interval from now. */
export function waitFor(names: readonly string[], intervalMs: number, now: number): number {
  const newest = Math.max(...names.map((name) => checkpointTime(name) ?? 0))
  return names.length === 0 ? 0 : Math.min(intervalMs, Math.max(0, newest + intervalMs - now))
}
