/** Rows as they are: the fields side by side, sorted and cut. */
import type { SqlChunk, SqlColumn, SqlVector } from 'svcdb'
import { Turn } from 'svcdb/lib/event-loop'
import { IntList } from '../../memtable/int-list.ts'
import { RUN } from '../../memtable/runs.ts'
import { areSettled, areSooner, ComputingBlocks, fieldsNamed, isComputed, stepsFor } from './computed-fields.ts'
import { comparedFields } from './conditions.ts'
import { areExact, boundsOf, integerValues } from './exact-integers.ts'
import type { LaneBlock, LaneRows, LaneValues } from './host.ts'
import { type OrderTerm, sortedPositions, tagRanks } from './order.ts'
import type { ColumnPlan, RowsPlan } from './plan.ts'
import { isInteger, RowFilters } from './row-filters.ts'
import { seriesRuns } from './runs.ts'
import { TagConditions } from './tag-conditions.ts'
import { CHUNK_ROWS, NUMBER_NAMES, textVector, timeVector } from './vectors.ts'

/** More are left to DuckDB, which streams them. */
const MAX_VALUES = 1 << 20

/** Rows found: the position of the series, milliseconds, and the values of the fields. */
interface Found {
  rows: number
  series: Int32Array
  times: Float64Array
  values: Float64Array[]
}

export function rowColumns({ outputs }: RowsPlan): SqlColumn[] {
  return outputs.map(({ name, role, type }) => ({ name, type: type === undefined ? (role === 'time' ? 'Timestamp(ns)' : 'Utf8') : NUMBER_NAMES[type] }))
}

/** Undefined where samples do not tell all that the statement asks for. */
export async function selectRows(plan: RowsPlan, rows: LaneRows, textBytes: boolean, signal: AbortSignal | undefined): Promise<Iterable<SqlChunk> | undefined> {
  const { outputs, order } = plan
  const named = [...outputs, ...order.map(({ column }) => column)].flatMap(({ role, column }) => (role === 'field' ? column : []))
  const { stored, computed } = fieldsNamed([...comparedFields(plan), ...named], plan.computed)
  const any = stored.length > 0 ? undefined : rows.anyField()
  if (any !== undefined) stored.push(any)
  if (stored.length === 0) return undefined
  if (rows.span() === undefined) return []
  if (stored.some((field) => rows.lacks(field)) || !areSooner(computed, rows, stored.length)) return undefined
  const fields = [...stored, ...computed.map(({ name }) => name)]
  const computing = new ComputingBlocks(computed, stored, (field) => isInteger(plan, field))
  const found = await find(plan, rows, { stored, fields, named, steps: stepsFor(computed), computing }, new Turn(signal))
  return found === undefined ? undefined : chunks(plan, rows, fields, found, textBytes)
}

interface Fields {
  stored: readonly string[]
  /** Those, and computed ones behind them. */
  fields: readonly string[]
  /** By the columns of the answer, and by its order. */
  named: readonly string[]
  /** To compute those that are computed. */
  steps: number
  computing: ComputingBlocks
}

async function find(plan: RowsPlan, rows: LaneRows, { stored, fields, named, steps, computing }: Fields, turn: Turn): Promise<Found | undefined> {
  const groupOf = await new TagConditions(rows, turn).seriesOf(plan)
  if (groupOf === undefined) return undefined
  const filters = new RowFilters(plan, plan, fields)
  const integers = fields.flatMap((field, i) => (isInteger(plan, field) ? i : []))
  const shown = fields.map((field) => named.includes(field))
  const enough = plan.order.length === 0 ? plan.offset + plan.limit : Number.POSITIVE_INFINITY
  const max = MAX_VALUES / (fields.length + 2)
  const found: Found = { rows: 0, series: new Int32Array(1024), times: new Float64Array(1024), values: fields.map(() => new Float64Array(1024)) }
  let runs = new IntList(1024)
  let whole = true
  const told = await rows.scan(
    stored,
    { sparse: comparedFields(plan).length > 0 && stored.length === 1, passes: fields.length + steps + comparedFields(plan).length },
    (stored) => {
      const block = computing.of(stored)
      seriesRuns(block, groupOf, runs)
      const left = filters.apply(block, runs, false)
      runs = left.runs
      cut(runs, enough - found.rows)
      const first = found.rows
      const inside = addRows(found, runs, block, max)
      whole = left.exact && inside && integers.every((field) => addsExact(block, runs, field))
      // Fields are read where rows are left, and those that are shown.
      if (whole && found.rows > first)
        for (let f = 0; f < fields.length; f++) {
          if (!shown[f]) continue
          const values = block.values(f)
          if (isComputed(fields[f]) && !areSettled(runs, values)) whole = false
          else addValues(found.values[f], first, runs, values)
        }
      whole &&= computing.isExact
      return whole && found.rows < enough
    },
  )
  return told && whole ? found : undefined
}

/** Leaves the first so many rows. */
function cut(runs: IntList, rows: number): void {
  let left = rows
  for (let r = 0; r < runs.length; r += RUN) {
    const [from, to] = [runs.values[r + 1], runs.values[r + 2]]
    if (to - from >= left) {
      runs.values[r + 2] = from + left
      runs.length = r + RUN
    }
    left -= to - from
  }
}

/** @returns false once there are more than `max`. */
function addRows(found: Found, { values: runs, length }: IntList, { times }: LaneBlock, max: number): boolean {
  let rows = found.rows
  for (let r = 0; r < length; r += RUN) rows += runs[r + 2] - runs[r + 1]
  if (rows > max) return false
  grow(found, rows)
  for (let r = 0; r < length; r += RUN) {
    for (let i = runs[r + 1]; i < runs[r + 2]; i++) {
      found.series[found.rows] = runs[r]
      found.times[found.rows++] = times[i]
    }
  }
  return true
}

function addValues(out: Float64Array, first: number, { values: runs, length }: IntList, { values, divisor = 1 }: LaneValues): void {
  let n = first
  for (let r = 0; r < length; r += RUN) for (let i = runs[r + 1]; i < runs[r + 2]; i++) out[n++] = values[i] / divisor
}

function addsExact(block: LaneBlock, runs: IntList, field: number): boolean {
  return runs.length === 0 || areExact(block.bounds(field) ?? boundsOf(runs, block.values(field)))
}

function grow(found: Found, rows: number): void {
  if (rows <= found.series.length) return
  const room = Math.max(rows, found.series.length * 2)
  const series = new Int32Array(room)
  series.set(found.series)
  found.series = series
  const wider = (array: Float64Array): Float64Array => {
    const out = new Float64Array(room)
    out.set(array)
    return out
  }
  found.times = wider(found.times)
  found.values = found.values.map(wider)
}

function* chunks(plan: RowsPlan, rows: LaneRows, fields: readonly string[], found: Found, textBytes: boolean): Generator<SqlChunk> {
  const terms = plan.order.map(({ column, descending, nullsFirst }) => termOf(column, descending, nullsFirst, rows, fields, found))
  const all = terms.length === 0 ? Uint32Array.from({ length: found.rows }, (_, i) => i) : sortedPositions(terms, found.rows)
  const order = all.subarray(plan.offset, Math.min(found.rows, plan.offset + plan.limit))
  for (let from = 0; from < order.length; from += CHUNK_ROWS) {
    const positions = order.subarray(from, from + CHUNK_ROWS)
    yield { rows: positions.length, columns: plan.outputs.map((column) => vectorOf(column, rows, fields, found, positions, textBytes)) }
  }
}

function termOf(column: ColumnPlan, descending: boolean, nullsFirst: boolean, rows: LaneRows, fields: readonly string[], found: Found): OrderTerm {
  const n = found.rows
  const ranks = new Float64Array(n)
  if (column.role === 'tag') {
    const { codes, texts } = rows.tag(column.column)
    const ofCode = tagRanks({ codes, texts }, descending, nullsFirst)
    for (let i = 0; i < n; i++) ranks[i] = ofCode[Math.max(-1, codes[found.series[i]]) + 1]
    return { ranks, size: texts.length + 2 }
  }
  if (column.role === 'time') {
    let [min, max] = [Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY]
    for (let i = 0; i < n; i++) {
      if (found.times[i] < min) min = found.times[i]
      if (found.times[i] > max) max = found.times[i]
    }
    for (let i = 0; i < n; i++) ranks[i] = descending ? max - found.times[i] : found.times[i] - min
    return { ranks, size: n === 0 ? 1 : max - min + 1 }
  }
  const values = found.values[fields.indexOf(column.column)]
  const last = nullsFirst ? Number.NEGATIVE_INFINITY : Number.POSITIVE_INFINITY
  for (let i = 0; i < n; i++) ranks[i] = values[i] - values[i] !== 0 ? last : descending ? -values[i] : values[i]
  return { ranks, size: undefined }
}

function vectorOf(
  { role, column, type }: ColumnPlan,
  rows: LaneRows,
  fields: readonly string[],
  found: Found,
  positions: Uint32Array,
  textBytes: boolean,
): SqlVector {
  if (role === 'time') return timeVector(positions, (position) => found.times[position])
  if (role === 'tag') {
    const { codes, texts } = rows.tag(column)
    const own = new Int32Array(positions.length)
    for (let i = 0; i < own.length; i++) own[i] = codes[found.series[positions[i]]]
    return textVector(own, texts, textBytes)
  }
  const of = found.values[fields.indexOf(column)]
  const values = new Float64Array(positions.length)
  let validity: Uint8Array | undefined
  for (let i = 0; i < values.length; i++) {
    const value = of[positions[i]]
    if (value - value === 0) values[i] = value
    else (validity ??= new Uint8Array(values.length).fill(1))[i] = 0
  }
  if (type !== undefined && type !== 'float64') return { values: integerValues(type, values) }
  return validity === undefined ? { values } : { values, validity }
}
