/** A rollup as listings show it. Times are nanoseconds, which JSON numbers of JavaScript do not hold: they are written digit by digit. */
import { jsonDigits } from 'svcdb/lib/json'
import type { Rollup } from './rollup.ts'

export function viewOf(rollup: Rollup, parked: boolean, lagSecs: number): Record<string, unknown> {
  const { definition, failure } = rollup
  const { name, source, target, every, timezone, origin, aggregations, groupBy, retentionSecs } = definition
  return {
    name,
    source_measurement: source,
    target_measurement: target,
    every,
    timezone,
    origin,
    aggregations,
    group_by_tags: groupBy,
    retention_seconds: retentionSecs === 0 ? null : retentionSecs,
    materialised_until: jsonDigits(rollup.until ?? 0n),
    lag_seconds: lagSecs,
    pending_repairs: rollup.dirty.map(([start, end]) => [jsonDigits(start), jsonDigits(end)]),
    status: parked ? 'parked' : failure !== undefined ? 'failing' : rollup.from === undefined ? 'waiting' : 'active',
    last_error: failure?.error ?? null,
  }
}
