/**
 * Milliseconds that requests in flight may take when the server stops: three quarters of the limit, since what is behind them, the storage above all,
 * needs the rest. @param server its `shutdown_timeout_secs`, seconds.
 */
export function drainMs({ shutdown_timeout_secs: secs }: { readonly shutdown_timeout_secs: number }): number {
  return secs * 750
}
