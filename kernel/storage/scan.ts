/** Rows of a measurement by time and tags: what is asked for, what comes, and how. */
import type { Matcher, SeriesChunk } from '../lib/columns/index.ts'

/** Which rows of a measurement are wanted. Times in nanoseconds since the Unix epoch, start included, end not; absent = unbounded. */
export interface ScanRequest {
  namespace: string
  measurement: string
  matchers?: Matcher[]
  /** Fields wanted; all when absent. Unknown names are ignored. */
  fields?: string[]
  start?: bigint
  end?: bigint
  /**
   * Only so many rows are wanted, the earliest of all series together; of one time those of the series that come first. An engine may leave out what lies behind them, and then go through the
   * series more than once, with rows of later times each time. `TimeMerge` of `svcdb/lib/columns` puts them in order.
   */
  earliest?: number
}

/** Rows of a scan, as they are asked for. */
export interface Scan extends AsyncIterable<SeriesChunk> {
  /** What it takes in memory from its beginning to its end, about, beside the chunks that were handed out. Absent: little. */
  readonly bytes?: number
}

/** How a scan would be answered: for explain and for tests. */
export interface ScanPlan {
  measurement: string
  series: number
  time: { start: string; end: string }
  /** Segments are what an engine stores rows in and may leave out by time: files, parts, shards. */
  segments: { total: number; read: number }
  /** Rows that would be looked at and are in no segment yet. */
  bufferedRows: number
  deduplicated: boolean
}
