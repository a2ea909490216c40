/** Settings of statements that read. Each has all of them: what it may not do, how much it may take, and that it ends with who asked. */
import type { ClickHouseSettings } from '@clickhouse/client'

/** In the URL: whether a statement ends with its connection is decided before it is parsed. 2, as with 1 it could not have settings of its own. */
export const READ_ONLY: ClickHouseSettings = { readonly: '2', cancel_http_readonly_queries_on_client_close: 1 }

/** A day is a function of the time, which is a part of the key: rows of two partitions are never one. */
export const WITHIN_DAYS = 'do_not_merge_across_partitions_select_final = 1'
/** Of tables of every server: one that is away is left out. */
export const WITHOUT_THE_AWAY = 'skip_unavailable_shards = 1'

interface ReadLimits {
  /** Bytes. */
  memory: number
  /** 0 = none. */
  timeoutMs: number
}

/** Behind the statement, beside READ_ONLY. @param more settings of the statement's own. */
export function readSettings({ memory, timeoutMs }: ReadLimits, more: readonly string[] = []): string {
  const time = timeoutMs > 0 ? [`max_execution_time = ${Math.ceil(timeoutMs / 1000)}`, "timeout_overflow_mode = 'throw'"] : []
  return ` SETTINGS ${[...more, `max_memory_usage = ${memory}`, ...time].join(', ')}`
}
