/** Newest times of series, as they are asked of segments (newest-rows.ts). Needs no DuckDB: the main loop has it, too. */
import { EMPTY_TIME } from '../memtable/series-times.ts'
import type { NewestRowsTask } from '../threads/messages.ts'

export type NewestTimes = Pick<NewestRowsTask, 'from' | 'times'>

/** A series has a row at a time. One that is not asked for is left out. */
export function raise({ from, times }: NewestTimes, series: number, time: bigint): void {
  const at = series - from
  if (at < 0 || at >= times.length) return
  // No row makes a series look empty.
  const known = time > EMPTY_TIME ? time : EMPTY_TIME + 1n
  if (known > times[at]) times[at] = known
}
