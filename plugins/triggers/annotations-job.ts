/**
 * Beside the data: the newest rows of the measurements that signals of others are kept in. Time is gone through backwards, in windows that grow: where the newest rows
 * are recent, what is older is not read.
 */
import type { Job } from 'svcdb'
import { isAnnotated } from './annotations.ts'
import { NewestRows } from './newest-rows.ts'

export interface AnnotationsArgs {
  namespace: string
  /** Rows of each. */
  rows: number
  /** Nanoseconds; end excluded. */
  start?: bigint
  end?: bigint
  now: bigint
}

/** Measurements that are looked at. */
const MEASUREMENTS = 100
const FIRST_WINDOW = 3_600_000_000_000n
const GROWTH = 8n
/** The last has all that is older. */
const WINDOWS = 6

export interface MeasurementRows {
  measurement: string
  /** Milliseconds, oldest first. */
  times: number[]
}

const newestRows: Job<AnnotationsArgs, MeasurementRows[]> = async (reader, { namespace, rows, start, end, now }, { signal }) => {
  const names = (await reader.schema(namespace)).map(({ name }) => name).filter(isAnnotated)
  const found: MeasurementRows[] = []
  for (const measurement of names.slice(0, MEASUREMENTS)) {
    const newest = new NewestRows(rows)
    for (const range of windows(start, end, now)) {
      for await (const { times } of reader.scan({ namespace, measurement, ...range })) {
        signal.throwIfAborted()
        // Ascending: what is before the last of them is no newer.
        for (let i = Math.max(0, times.length - rows); i < times.length; i++) newest.add(times[i])
      }
      if (newest.size >= rows) break
    }
    const sorted = newest.sorted()
    if (sorted.length > 0) found.push({ measurement, times: sorted.map((time) => Number(time / 1_000_000n)) })
  }
  return found
}

/** Newest first, without holes. Points may lie in the future. */
function* windows(start: bigint | undefined, end: bigint | undefined, now: bigint): Generator<{ start?: bigint; end?: bigint }> {
  let before = end
  let from = end !== undefined && end < now ? end : now
  let width = FIRST_WINDOW
  for (let i = 1; i < WINDOWS; i++) {
    from -= width
    width *= GROWTH
    if (start !== undefined && from <= start) break
    yield { start: from, ...(before === undefined ? {} : { end: before }) }
    before = from
  }
  yield { ...(start === undefined ? {} : { start }), ...(before === undefined ? {} : { end: before }) }
}

export default newestRows
