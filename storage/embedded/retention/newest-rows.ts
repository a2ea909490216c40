/** Reads out of a segment which series have rows in it, and until when: for a start, which knows neither (seeded-times.ts). Runs on the maintenance thread. */
import { join } from 'node:path'
import { SERIES_COLUMN, TIME_COLUMN } from '../memtable/memtable-source.ts'
import { EMPTY_TIME } from '../memtable/series-times.ts'
import { readSql } from '../read/sources.ts'
import type { SegmentTarget } from '../segment/segment-writer.ts'
import type { NewestRowsTask } from '../threads/messages.ts'
import type { SegmentMeta } from '../threads/segment-entry.ts'

/** In larger segments the times are not read, which take far more than the numbers of series: those reach over a short time, and their newest row stands for all. */
const EXACT_ROWS = 4_000_000

type Target = Pick<NewestRowsTask, 'from' | 'times'>

export async function raiseToNewest(segment: SegmentMeta, target: Target, { duck, dataDir }: Pick<SegmentTarget, 'duck' | 'dataDir'>): Promise<void> {
  const { from, times } = target
  const newest = BigInt(segment.maxTime)
  const exact = segment.rows <= EXACT_ROWS ? `, epoch_ns(max(${TIME_COLUMN})) AS t` : ''
  const rows = await duck.run(
    `SELECT ${SERIES_COLUMN} AS s${exact} FROM ${readSql([join(dataDir, segment.file)])} ` +
      `WHERE ${SERIES_COLUMN} >= ${from} AND ${SERIES_COLUMN} < ${from + times.length} GROUP BY ${SERIES_COLUMN}`,
  )
  for (const { s, t = newest } of rows) raise(target, s as number, t as bigint)
}

/** A series has a row at a time. One that is not asked for is left out. */
export function raise({ from, times }: Target, series: number, time: bigint): void {
  const at = series - from
  if (at < 0 || at >= times.length) return
  // No row makes a series look empty.
  const known = time > EMPTY_TIME ? time : EMPTY_TIME + 1n
  if (known > times[at]) times[at] = known
}
