/** Jobs that nobody has asked for, so that their code is loaded and compiled before somebody waits for it. */

/** Jobs like those that a plugin will ask for. */
export interface WarmUp {
  /** As of `Storage.run`. */
  module: URL
  /** Arguments of the jobs of a round, counted from 0. What is kept from one query to the next should differ from round to round, as texts of statements do. */
  args(round: number): readonly unknown[]
}

/**
 * What these jobs find: made-up rows, of a namespace that no caller can name. `measurement` has the tags `host` (h0, h1, ... of `hosts`) and `zone` (z0 to z3) and
 * the fields `load` and `temperature` (float64), `bytes` (int64), `up` (bool) and `state` (string); `metric` has the same tags and the field `value` (float64). Each
 * series has a row every `interval` seconds from `start` to `end`, seconds since the Unix epoch, the end excluded.
 */
export const WARM_UP_ROWS = {
  namespace: 'warm up',
  measurement: 'readings',
  metric: 'requests',
  hosts: 24,
  interval: 10,
  start: 1_700_000_000,
  end: 1_700_004_800,
} as const
