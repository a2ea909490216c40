/**
 * Divides a measurement into slices that ClickHouse can merge and sort one by one in little memory: stretches of whole days first, as partitions are; in each,
 * ranges of ids of series, whose rows lie together; a series too large for one slice is divided by time once more. Slices are disjoint and hold everything that
 * there is when they are counted, so that rows which repeat one another meet in one slice. The answers are counts of bounded number, however many series there are.
 */
import type { FieldType } from 'svcdb'
import type { Client, QueryOptions } from '../client.ts'
import { timesOfDay } from '../measures.ts'
import type { ReadBlock } from '../native/decode.ts'
import { floats } from '../values.ts'
import { daysStatement, type ExportScope, extentStatement, type Ids, type Slice, seriesStatement, type TimeRange, timesStatement } from './statements.ts'

interface SliceRequest {
  client: Pick<Client, 'blocks'>
  bounds: QueryOptions
  scope: ExportScope
  time: TimeRange
  /** Of the tags of a row, about. */
  tagBytes: number
  /** Bytes of a slice's rows, more or less. */
  sliceBytes: number
}

/** A stretch of days has this many slices at least: each is counted by a statement. */
const STRETCH_SLICES = 16
/** Ids are counted by so many of their bits at once, a series' times by so many parts. */
const ID_BITS = 12
const TIME_PARTS = 256n
const ALL_ID_BITS = 128
/** What a row takes beside its values: its series twice, for the join, and its time. */
const ROW_BYTES = 40
const VALUE_BYTES: Record<FieldType, number> = { float64: 9, int64: 9, uint64: 9, bool: 2, decimal: 17, string: 17, histogram: 17 }

export async function* slices(request: SliceRequest): AsyncGenerator<Slice> {
  const { scope, time, sliceBytes } = request
  const days: DayRows[] = []
  for await (const { rows, columns } of ask(request, daysStatement(scope, time))) {
    const numbers = new BigInt64Array(columns[0].bytes.buffer)
    const counts = floats(columns[1])
    for (let row = 0; row < rows; row++) days.push({ day: numbers[row], rows: counts[row] })
  }
  for (const stretch of stretches(days, time, (STRETCH_SLICES * sliceBytes) / rowBytes(request)))
    yield* byIds(request, { ...stretch, between: [0n, (1n << BigInt(ALL_ID_BITS)) - 1n] }, ALL_ID_BITS)
}

interface DayRows {
  /** Whole days since the Unix epoch, rounded towards it. */
  day: bigint
  rows: number
}

/** Disjoint and ascending; together they are `time`. @param days ascending. @param rows a stretch has this many at least, as far as there are any. */
export function stretches(days: readonly DayRows[], time: TimeRange, rows: number): TimeRange[] {
  const out: TimeRange[] = []
  let { start } = time
  let held = 0
  for (const each of days) {
    if (held >= rows) {
      const next = timesOfDay(each.day).start
      out.push({ start, end: next })
      start = next
      held = 0
    }
    held += each.rows
  }
  if (held > 0) out.push({ start, end: time.end })
  return out
}

/** @param bits by which ids of the slice may differ. */
async function* byIds(request: SliceRequest, slice: Slice, bits: number): AsyncGenerator<Slice> {
  const { scope, sliceBytes } = request
  const left = Math.max(0, bits - ID_BITS)
  const parts: { between: Ids; bytes: number; single: boolean }[] = []
  for await (const { rows, columns } of ask(request, seriesStatement(scope, slice, left, 2 ** (bits - left) - 1, rowBytes(request)))) {
    const [numbers, bytes] = [new Uint32Array(columns[0].bytes.buffer), floats(columns[1])]
    for (let row = 0; row < rows; row++) {
      const first = slice.between[0] + (BigInt(numbers[row]) << BigInt(left))
      parts.push({ between: [first, first + (1n << BigInt(left)) - 1n], bytes: bytes[row], single: columns[2].bytes[row] === 1 })
    }
  }
  let open: { between: Ids; bytes: number } | undefined
  for (const { between, bytes, single } of parts) {
    if (open !== undefined && open.bytes + bytes > sliceBytes) {
      yield { ...slice, between: open.between }
      open = undefined
    }
    if (bytes > sliceBytes) yield* single ? byTimes(request, { ...slice, between }) : byIds(request, { ...slice, between }, left)
    else open = { between: [open?.between[0] ?? between[0], between[1]], bytes: (open?.bytes ?? 0) + bytes }
  }
  if (open !== undefined) yield { ...slice, between: open.between }
}

/** Of one series that is too large, stretches of its time that fit into a slice each, as far as times differ. */
async function* byTimes(request: SliceRequest, slice: Slice): AsyncGenerator<Slice> {
  const { scope, sliceBytes } = request
  const extent = await extentOf(request, slice)
  if (extent === undefined) return
  const [first, last] = extent
  if (first === last) return yield slice
  const width = (last - first) / TIME_PARTS + 1n
  const parts: { start: bigint; end: bigint; bytes: number }[] = []
  for await (const { rows, columns } of ask(request, timesStatement(scope, slice, first, width, rowBytes(request)))) {
    const [numbers, bytes] = [new Uint32Array(columns[0].bytes.buffer), floats(columns[1])]
    for (let row = 0; row < rows; row++) {
      const start = first + BigInt(numbers[row]) * width
      parts.push({ start, end: start + width, bytes: bytes[row] })
    }
  }
  let open: { start: bigint; end: bigint; bytes: number } | undefined
  for (const part of parts) {
    if (open !== undefined && open.bytes + part.bytes > sliceBytes) {
      yield { ...slice, start: open.start, end: open.end }
      open = undefined
    }
    if (part.bytes > sliceBytes && width > 1n) yield* byTimes(request, { ...slice, start: part.start, end: part.end })
    else open = { start: open?.start ?? part.start, end: part.end, bytes: (open?.bytes ?? 0) + part.bytes }
  }
  if (open !== undefined) yield { ...slice, start: open.start, end: open.end }
}

async function extentOf(request: SliceRequest, slice: Slice): Promise<readonly [first: bigint, last: bigint] | undefined> {
  for await (const { columns } of ask(request, extentStatement(request.scope, slice))) {
    const [first, last] = columns.map(({ bytes }) => new BigInt64Array(bytes.buffer, bytes.byteOffset, 1)[0])
    return floats(columns[2])[0] === 0 ? undefined : [first, last]
  }
  return undefined
}

function ask({ client, bounds }: SliceRequest, statement: string): AsyncIterable<ReadBlock> {
  return client.blocks(statement, bounds)
}

function rowBytes({ scope, tagBytes }: SliceRequest): number {
  return Math.ceil(scope.fields.reduce((sum, { type }) => sum + VALUE_BYTES[type], ROW_BYTES + tagBytes))
}
