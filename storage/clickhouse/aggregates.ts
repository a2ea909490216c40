/**
 * Reader.aggregate: one statement, whose answer has a row a group. It is declined, before or behind the statement, where ClickHouse would not compute what an
 * evaluator does. See docs/decisions/094-promql-in-clickhouse.md.
 */
import type { AggregateRequest, AggregateSet } from 'svcdb/lib/columns'
import { SvcError } from 'svcdb/lib/errors'
import { type AggregateQuery, aggregateStatement, MILLISECONDS, type Precision, SECONDS, signed } from './aggregate-query.ts'
import type { Life, StoredField } from './catalog.ts'
import type { Client, QueryOptions } from './client.ts'
import { ALLOW_GRIDS, GridFunctions, LACKING } from './grid-functions.ts'
import type { ReadBlock, ReadColumn } from './native/decode.ts'
import type { RowsQuery } from './rows-query.ts'
import { type SeriesSource, type StoredSeries, StoredTags } from './series-store.ts'
import { WITHIN_DAYS } from './settings.ts'
import type { Place } from './statements.ts'

/** Code of ClickHouse: out of memory. */
const NO_ROOM = '241'
const DECLINED = new Set([NO_ROOM, ...LACKING])
/** Within ClickHouse's calendar. */
const FIRST_MS = Date.UTC(1910, 0)
const LAST_MS = Date.UTC(2200, 0)
/** The sum of the resets of a window is kept running over all windows: it is exact in whole numbers, and else loses digits to the largest reset that was in it. */
const MAX_WHOLE = 2 ** 46
const MAX_FRACTIONAL = 2 ** 30
/** Beyond, results might not be finite. */
const MAX_VALUE = 1e290
/** How much larger than a sum the values in it may be, their signs left out. */
const MAX_CANCELLED = 1e5
/** Whole numbers that add up to no more do so exactly, in any order. */
const EXACT = 2 ** 53

/** Whether it is worth looking for the series: declined by what is asked. */
export function canAggregate({ windows, maxCells }: AggregateRequest, { type }: StoredField): boolean {
  const { first, interval, count, range } = windows
  const last = first + (count - 1) * interval
  return (
    type !== 'string' &&
    type !== 'histogram' &&
    type !== 'decimal' &&
    [first, last, range].every(Number.isInteger) &&
    (count === 1 || (Number.isInteger(interval) && interval > 0)) &&
    range > 0 &&
    first - range >= FIRST_MS &&
    last <= LAST_MS &&
    count <= maxCells
  )
}

export class Aggregates {
  private readonly client: Client
  private readonly place: Place
  private readonly grids: GridFunctions
  /** What series hold goes to the disk of ClickHouse before it takes all memory, which costs a fifth. In their order series would hold little, but such a statement may hang when memory ends. */
  private readonly spilling: string
  /** How fine the times of measurements are, as far as they were looked at. */
  private readonly precisions = new WeakMap<Life, Precision>()

  /** @param memory of one read, bytes. @param told when ClickHouse lacks what it takes, once for each reason. */
  constructor(client: Client, place: Place, memory: number, told: (why: string) => void) {
    this.client = client
    this.place = place
    this.spilling = `max_bytes_before_external_group_by = ${Math.floor(memory / 4)}`
    this.grids = new GridFunctions(client, told)
  }

  async answer(request: AggregateRequest, rows: RowsQuery, series: SeriesSource, options: QueryOptions): Promise<AggregateSet | undefined> {
    if (!(await this.grids.available(options.signal))) return undefined
    const { windows, window, group, tags, without, maxCells } = request
    const inSeconds = [windows.first, windows.range, windows.count === 1 ? 0 : windows.interval].every((ms) => ms % 1000 === 0)
    const sorted = tags.toSorted((a, b) => (a < b ? -1 : 1)).filter((tag, i, all) => tag !== all[i - 1])
    const maxGroups = Math.floor(maxCells / windows.count)
    let precision: Precision = inSeconds ? SECONDS : MILLISECONDS
    let spills = false
    for (;;) {
      precision = Math.max(precision, this.precisions.get(rows.life) ?? SECONDS) as Precision
      const query: AggregateQuery = { windows, window, group, tags: sorted, without, rows, series, precision, maxGroups }
      const settings = spills ? [WITHIN_DAYS, ALLOW_GRIDS, this.spilling] : [WITHIN_DAYS, ALLOW_GRIDS]
      const answer = await answerOf(this.client, this.place, query, { ...options, settings })
      if (answer === 'no room' && !spills) {
        spills = true
        continue
      }
      if (answer === undefined || answer === 'no room') return undefined
      if (answer.precision <= precision) return isExact(answer, query) ? setOf(answer, query) : undefined
      // Times turn out to be finer: asked again in their unit.
      this.precisions.set(rows.life, answer.precision)
    }
  }
}

/** What a statement answers; lists have an entry a group, with an item a window. */
interface Answer {
  groups: StoredSeries[]
  values: Float64Array[]
  nulls: Uint8Array[]
  /** Of averages: how many values each sum has. */
  counts: BigUint64Array[]
  /** Where values may cancel each other out: sums without their signs. */
  sizes: Float64Array[]
  samples: number
  /** Whether any sample is not finite, has a fraction, is below zero; the largest without its sign. */
  nonFinite: boolean
  fractional: boolean
  negative: boolean
  largest: number
  precision: Precision
}

class Declined extends SvcError {}

async function answerOf(client: Client, place: Place, query: AggregateQuery, options: QueryOptions): Promise<Answer | 'no room' | undefined> {
  const { statement, params } = aggregateStatement(place, query)
  const answer: Answer = {
    ...{ groups: [], values: [], nulls: [], counts: [], sizes: [] },
    ...{ samples: 0, nonFinite: false, fractional: false, negative: false, largest: 0, precision: SECONDS },
  }
  const meaning = (code: string, message: string): SvcError | undefined =>
    DECLINED.has(code) ? new Declined(code === NO_ROOM ? 'OVERLOADED' : 'DATABASE_ERROR', message) : undefined
  try {
    for await (const block of client.blocks(statement, { ...options, params, meaning })) {
      take(answer, query, block)
      if (answer.groups.length > query.maxGroups) return undefined
    }
  } catch (error) {
    if (error instanceof Declined) return error.code === 'OVERLOADED' ? 'no room' : undefined
    throw error
  }
  return answer
}

function take(answer: Answer, { tags, without, windows: { count } }: AggregateQuery, { rows, columns }: ReadBlock): void {
  const [values, counts, sizes, samples, nonFinite, precision, fractional, negative, largest] = columns.slice(without ? 2 : tags.length)
  const items = values.items as ReadColumn
  const [all, numbers, unsigned] = [floats(items), uint64s(counts.items as ReadColumn), floats(sizes.items as ReadColumn)]
  const [nulls, read, magnitudes] = [items.nulls as Uint8Array, uint64s(samples), floats(largest)]
  for (let row = 0; row < rows; row++) {
    // Without tags there is a row even where there is no series.
    if (read[row] === 0n) continue
    const from = row * count
    answer.groups.push({ key: '', tags: without ? othersOf(columns[0], columns[1], row) : tagsOf(tags, columns, row) })
    answer.values.push(all.subarray(from, from + count))
    answer.nulls.push(nulls.subarray(from, from + count))
    answer.counts.push(numbers.subarray(from, from + count))
    answer.sizes.push(unsigned.subarray(from, from + count))
    answer.samples += Number(read[row])
    answer.nonFinite ||= nonFinite.bytes[row] === 1
    answer.precision = Math.max(answer.precision, precision.bytes[row]) as Precision
    answer.fractional ||= fractional.bytes[row] === 1
    answer.negative ||= negative.bytes[row] === 1
    answer.largest = Math.max(answer.largest, magnitudes[row])
  }
}

/** Whether what ClickHouse has computed is what an evaluator would have, but for last digits. */
function isExact({ nonFinite, fractional, negative, largest, values, nulls, sizes }: Answer, query: AggregateQuery): boolean {
  if (nonFinite || largest > MAX_VALUE) return false
  if (query.window === 'rate' || query.window === 'increase') return !negative && largest <= (fractional ? MAX_FRACTIONAL : MAX_WHOLE)
  if (!signed(query)) return true
  const whole = !fractional && query.window !== 'delta'
  return sizes.every((size, i) => size.every((all, k) => nulls[i][k] === 1 || all <= MAX_CANCELLED * Math.abs(values[i][k]) || (whole && all <= EXACT)))
}

function setOf({ groups, values, nulls, counts, samples }: Answer, { window, group, windows: { count, range } }: AggregateQuery): AggregateSet {
  const out = new Float64Array(groups.length * count)
  const present = new Uint8Array(out.length)
  const factor = window === 'increase' && group !== 'count' ? range / 1000 : 1
  for (const [i, own] of values.entries())
    for (let k = 0; k < count; k++) {
      if (nulls[i][k] === 1 || (group === 'count' && own[k] === 0)) continue
      out[i * count + k] = (own[k] * factor) / (group === 'avg' ? Number(counts[i][k]) : 1)
      present[i * count + k] = 1
    }
  return { groups: new StoredTags(groups), values: out, present, samples }
}

function tagsOf(keys: readonly string[], columns: readonly ReadColumn[], row: number): string[] {
  return keys.flatMap((key, i) => {
    const text = decoder.decode(columns[i].texts?.[row])
    return text === '' ? [] : [key, text]
  })
}

function othersOf(keys: ReadColumn, values: ReadColumn, row: number): string[] {
  return (keys.lists?.[row] ?? []).flatMap((key, i) => [decoder.decode(key), decoder.decode(values.lists?.[row][i])])
}

const decoder = new TextDecoder('utf-8', { ignoreBOM: true })
const floats = ({ bytes }: ReadColumn): Float64Array => new Float64Array(bytes.buffer)
const uint64s = ({ bytes }: ReadColumn): BigUint64Array => new BigUint64Array(bytes.buffer)
