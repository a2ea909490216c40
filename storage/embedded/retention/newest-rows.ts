/** Reads out of a segment which series have rows in it, and until when: for a start, which knows neither (seeded-times.ts). Runs on the maintenance thread. */
import { join } from 'node:path'
import { SERIES_COLUMN, TIME_COLUMN } from '../memtable/memtable-source.ts'
import { readSql } from '../read/sources.ts'
import type { SegmentTarget } from '../segment/segment-writer.ts'
import type { SegmentMeta } from '../threads/segment-entry.ts'
import { type NewestTimes, raise } from './newest-times.ts'

/** In larger segments the times are not read, which take far more than the numbers of series: those reach over a short time, and their newest row stands for all. */
const EXACT_ROWS = 4_000_000

export async function raiseToNewest(segment: SegmentMeta, target: NewestTimes, { duck, dataDir }: Pick<SegmentTarget, 'duck' | 'dataDir'>): Promise<void> {
  const { from, times } = target
  const newest = BigInt(segment.maxTime)
  const exact = segment.rows <= EXACT_ROWS ? `, epoch_ns(max(${TIME_COLUMN})) AS t` : ''
  const rows = await duck.run(
    `SELECT ${SERIES_COLUMN} AS s${exact} FROM ${readSql([join(dataDir, segment.file)])} ` +
      `WHERE ${SERIES_COLUMN} >= ${from} AND ${SERIES_COLUMN} < ${from + times.length} GROUP BY ${SERIES_COLUMN}`,
  )
  for (const { s, t = newest } of rows) raise(target, s as number, t as bigint)
}
