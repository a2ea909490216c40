/**
 * Beside the data: the newest rows of the measurements that signals of others are kept in. Time is gone through backwards, in windows that grow: where the newest rows
 * are recent, what is older is not read. Their fields, which may be large texts, are not read at all where the engine has statements.
 */
import type { Job, Reader } from 'svcdb'
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
  /** Statements can be run; otherwise whole rows are read for their times. */
  sql: boolean
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

const newestRows: Job<AnnotationsArgs, MeasurementRows[]> = async (reader, { namespace, rows, start, end, now, sql }, { signal }) => {
  const names = (await reader.schema(namespace)).map(({ name }) => name).filter(isAnnotated)
  const found: MeasurementRows[] = []
  for (const measurement of names.slice(0, MEASUREMENTS)) {
    const newest = new NewestRows(rows)
    for (const range of windows(start, end, now)) {
      const request: RangeRequest = { namespace, measurement, ...range }
      for await (const time of sql ? selected(reader, request, rows) : scanned(reader, request, rows)) {
        signal.throwIfAborted()
        newest.add(time)
      }
      if (newest.size >= rows) break
    }
    const sorted = newest.sorted()
    if (sorted.length > 0) found.push({ measurement, times: sorted.map((time) => Number(time / 1_000_000n)) })
  }
  return found
}

interface RangeRequest {
  namespace: string
  measurement: string
  start?: bigint
  end?: bigint
}

/** Times of the newest rows. */
async function* selected(reader: Reader, { namespace, measurement, start, end }: RangeRequest, rows: number): AsyncGenerator<bigint> {
  const bounds = [
    { condition: '_time >= ?', timestamp: start },
    { condition: '_time < ?', timestamp: end },
  ].filter((bound): bound is { condition: string; timestamp: bigint } => bound.timestamp !== undefined)
  const where = bounds.length === 0 ? '' : ` WHERE ${bounds.map(({ condition }) => condition).join(' AND ')}`
  const query = `SELECT _time FROM "${measurement.replaceAll('"', '""')}"${where} ORDER BY _time DESC LIMIT ${rows}`
  for await (const chunk of await reader.sql({ namespace, query, parameters: bounds.map(({ timestamp }) => ({ timestamp })) })) {
    const [{ values }] = chunk.columns
    for (let i = 0; i < chunk.rows; i++) yield values[i] as bigint
  }
}

/** Times among which the newest rows' are. */
async function* scanned(reader: Reader, request: RangeRequest, rows: number): AsyncGenerator<bigint> {
  // Ascending: what is before the last of them is no newer.
  for await (const { times } of reader.scan(request)) yield* times.subarray(Math.max(0, times.length - rows))
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
