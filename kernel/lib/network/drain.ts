/**
 * Milliseconds that requests in flight may take when the server stops: three quarters of the limit, since what is behind them, the storage above all,
 * needs the rest. @param server its `shutdown_timeout_secs`, seconds.
 */
export function drainMs({ shutdown_timeout_secs: secs }: { readonly shutdown_timeout_secs: number }): number {
  return secs * 750
}

/** Above that of requests, so that those which take all of theirs leave the others something. */
const DRAINS_SHARE = 0.8

/** What is known of a stop, as in `Svc`. */
export interface Stop {
  readonly clock: { monotonic(): number }
  readonly server: { readonly shutdown_timeout_secs: number }
  readonly stopping: AbortSignal
}

/**
 * Time to drain in: plugins drain one after the other, behind requests in flight, and each with a limit of its own alone they would take more than the node has.
 * Make it in setup. @returns of the milliseconds that a drain would take what is left until four fifths of the limit are over, counted from the begin of the stop.
 */
export function drainTime({ clock, server, stopping }: Stop): (ms: number) => number {
  let begin: number | undefined
  const note = (): void => {
    begin = clock.monotonic()
  }
  if (stopping.aborted) note()
  else stopping.addEventListener('abort', note, { once: true })
  return (ms) => {
    const passed = begin === undefined ? 0 : clock.monotonic() - begin
    return Math.max(0, Math.min(ms, server.shutdown_timeout_secs * 1000 * DRAINS_SHARE - passed))
  }
}
