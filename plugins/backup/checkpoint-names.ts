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
 * Which of the finished checkpoints go. The one made last stays whatever its name says. Those with a later name go first: they were made before the clock
 * was set back, and would else hold their places until it is there again, while each new one drives out the one before.
 */
export function surplus(names: readonly string[], keep: number, last: string): string[] {
  const others = names.filter((name) => name !== last).sort()
  const ahead = others.filter((name) => name > last)
  return [...ahead, ...others.filter((name) => name < last)].slice(0, Math.max(0, others.length - (keep - 1)))
}

/** Milliseconds until the next one: an interval after the newest. A name of a time to come counts as none: a server that restarts often would never make one. */
export function waitFor(names: readonly string[], intervalMs: number, now: number): number {
  const newest = Math.max(...names.map((name) => checkpointTime(name) ?? 0).filter((time) => time <= now))
  return Math.max(0, newest + intervalMs - now)
}
