/** Beside the data: the newest rows of the measurements that signals of others are kept in. */
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
}

/** Measurements that are looked at. */
const MEASUREMENTS = 100

export interface MeasurementRows {
  measurement: string
  /** Milliseconds, oldest first. */
  times: number[]
}

const newestRows: Job<AnnotationsArgs, MeasurementRows[]> = async (reader, { namespace, rows, start, end }, { signal }) => {
  const names = (await reader.schema(namespace)).map(({ name }) => name).filter(isAnnotated)
  const found: MeasurementRows[] = []
  for (const measurement of names.slice(0, MEASUREMENTS)) {
    const newest = new NewestRows(rows)
    const range = { ...(start === undefined ? {} : { start }), ...(end === undefined ? {} : { end }) }
    for await (const { times } of reader.scan({ namespace, measurement, ...range })) {
      signal.throwIfAborted()
      // Ascending: what is before the last of them is no newer.
      for (let i = Math.max(0, times.length - rows); i < times.length; i++) newest.add(times[i])
    }
    const sorted = newest.sorted()
    if (sorted.length > 0) found.push({ measurement, times: sorted.map((time) => Number(time / 1_000_000n)) })
  }
  return found
}

export default newestRows
