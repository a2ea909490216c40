/** Groups as a result: the rows in their order, and columns as DuckDB's would come. */
import type { SqlChunk, SqlColumn, SqlVector } from 'svcdb'
import { HOLDS } from './conditions.ts'
import { isDeviation } from './deviations.ts'
import type { Evaluated } from './evaluate.ts'
import { integerValues } from './exact-integers.ts'
import { aggregateValue } from './expressions.ts'
import { sortedPositions, tagRanks } from './order.ts'
import type { AggregateKind, AggregatePlan, GroupsPlan, OrderPlan, ValueRef } from './plan.ts'
import { CHUNK_ROWS, NUMBER_NAMES, nanosecondValues, textVector, timeVector } from './vectors.ts'

/** Above all values and their negatives: an aggregate that is not finite is no value. */
const LAST = Number.POSITIVE_INFINITY

export function columnsOf({ outputs, keys, aggregates }: GroupsPlan): SqlColumn[] {
  const type = (value: ValueRef): string => {
    if ('key' in value) return keys[value.key].kind === 'tag' ? 'Utf8' : 'Timestamp(ns)'
    return 'expression' in value ? 'Float64' : aggregateName(aggregates[value.aggregate])
  }
  return outputs.map(({ name, value }) => ({ name, type: type(value) }))
}

function aggregateName({ kind, type }: AggregatePlan): string {
  if (COUNTS.has(kind)) return 'Int64'
  if (type === 'time') return 'Timestamp(ns)'
  if (type === undefined || type === 'float64' || isDouble(kind)) return 'Float64'
  return kind === 'sum' || type === 'ones' ? 'decimal(38, 0)' : NUMBER_NAMES[type]
}

const COUNTS: ReadonlySet<AggregateKind> = new Set(['rows', 'count', 'distinct'])
const isDouble = (kind: AggregateKind): boolean => kind === 'avg' || kind === 'quantile' || isDeviation(kind)

export function* chunksOf(plan: GroupsPlan, evaluated: Evaluated, textBytes: boolean): Generator<SqlChunk> {
  const order = rowsInOrder(plan, evaluated)
  for (let from = 0; from < order.length; from += CHUNK_ROWS) {
    const cells = order.subarray(from, from + CHUNK_ROWS)
    yield { rows: cells.length, columns: plan.outputs.map(({ value }) => vectorOf(plan, evaluated, value, cells, textBytes)) }
  }
}

/** The cells that are rows of the answer. */
function rowsInOrder({ grouped, having, order, offset, limit }: GroupsPlan, evaluated: Evaluated): Uint32Array {
  const { presence } = evaluated
  const cells = new Uint32Array(presence.length)
  let n = 0
  for (let cell = 0; cell < presence.length; cell++)
    if ((presence[cell] > 0 || !grouped) && having.every((condition) => satisfies(condition, evaluated, cell))) cells[n++] = cell
  const found = cells.subarray(0, n)
  return (order.length === 0 ? found : sorted(found, order, evaluated)).subarray(offset, Math.min(n, offset + limit))
}

function satisfies({ of, comparison, value }: GroupsPlan['having'][number], evaluated: Evaluated, cell: number): boolean {
  const found = valueAt(of, evaluated, cell)
  return found !== undefined && HOLDS[comparison](found, value)
}

function sorted(cells: Uint32Array, order: readonly OrderPlan[], evaluated: Evaluated): Uint32Array {
  const terms = order.map((term) => ({ ranks: ranksOf(term, evaluated, cells), size: 'key' in term.value ? sizeOf(term.value.key, evaluated) : undefined }))
  return sortedPositions(terms, cells.length).map((position) => cells[position])
}

/** One more than the ranks of a key. */
function sizeOf(key: number, { grouping: { tags, buckets } }: Evaluated): number {
  return (tags[key]?.texts.length ?? buckets.count) + 2
}

/** Numbers in the order asked for; of keys from 0 on. */
function ranksOf({ value, descending, nullsFirst }: OrderPlan, evaluated: Evaluated, cells: Uint32Array): Float64Array {
  const { buckets, tags } = evaluated.grouping
  const out = new Float64Array(cells.length)
  if (!('key' in value)) {
    for (let i = 0; i < out.length; i++) {
      const number = valueAt(value, evaluated, cells[i])
      out[i] = number === undefined ? (nullsFirst ? -LAST : LAST) : descending ? -number : number
    }
    return out
  }
  const tag = tags[value.key]
  if (tag === undefined) {
    for (let i = 0; i < out.length; i++) out[i] = descending ? buckets.count - (cells[i] % buckets.count) : cells[i] % buckets.count
    return out
  }
  const ranks = tagRanks(tag, descending, nullsFirst)
  for (let i = 0; i < out.length; i++) out[i] = ranks[tag.codes[Math.floor(cells[i] / buckets.count)] + 1]
  return out
}

/** Undefined for null. */
function valueAt(value: Exclude<ValueRef, { key: number }>, { cells, expressions }: Evaluated, cell: number): number | undefined {
  if ('aggregate' in value) return aggregateValue(cells[value.aggregate], cell)
  const number = expressions[value.expression][cell]
  return Number.isNaN(number) ? undefined : number
}

function vectorOf({ aggregates }: GroupsPlan, evaluated: Evaluated, value: ValueRef, cells: Uint32Array, textBytes: boolean): SqlVector {
  if (!('key' in value)) return numbers('aggregate' in value ? aggregates[value.aggregate] : undefined, value, evaluated, cells)
  const { tags, buckets } = evaluated.grouping
  const tag = tags[value.key]
  if (tag !== undefined) {
    const codes = new Int32Array(cells.length)
    for (let i = 0; i < codes.length; i++) codes[i] = tag.codes[Math.floor(cells[i] / buckets.count)]
    return textVector(codes, tag.texts, textBytes)
  }
  return timeVector(cells, (cell) => buckets.first + (cell % buckets.count) * buckets.step)
}

function numbers(aggregate: AggregatePlan | undefined, value: Exclude<ValueRef, { key: number }>, evaluated: Evaluated, cells: Uint32Array): SqlVector {
  const values = new Float64Array(cells.length)
  let validity: Uint8Array | undefined
  for (let i = 0; i < cells.length; i++) {
    const number = valueAt(value, evaluated, cells[i])
    if (number !== undefined) values[i] = number
    else (validity ??= new Uint8Array(cells.length).fill(1))[i] = 0
  }
  return { values: aggregate === undefined ? values : valuesOf(aggregate.kind, aggregate.type, values), ...(validity === undefined ? {} : { validity }) }
}

function valuesOf(kind: AggregateKind, type: AggregatePlan['type'], numbers: Float64Array): SqlVector['values'] {
  if (COUNTS.has(kind)) return integerValues('int64', numbers)
  if (type === 'time') return nanosecondValues(numbers)
  if (type === undefined || type === 'float64' || isDouble(kind)) return numbers
  return kind === 'sum' || type === 'ones' ? Array.from(numbers, BigInt) : integerValues(type, numbers)
}
