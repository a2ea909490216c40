/** Groups as a result: the rows in their order, and columns as DuckDB's would come. */
import type { SqlChunk, SqlColumn, SqlVector } from 'svcdb'
import type { Cells } from './accumulate.ts'
import type { Evaluated } from './evaluate.ts'
import type { GroupTag } from './groups.ts'
import type { LanePlan, OrderPlan, ValueRef } from './plan.ts'

const NS_PER_MS = 1_000_000n
const CHUNK_ROWS = 8192
/** Above all values and their negatives: an aggregate that is not finite is no value. */
const LAST = Number.POSITIVE_INFINITY

export function columnsOf({ outputs, keys, aggregates }: LanePlan): SqlColumn[] {
  const type = (value: ValueRef): string => {
    if ('key' in value) return keys[value.key].kind === 'tag' ? 'Utf8' : 'Timestamp(ns)'
    const { kind } = aggregates[value.aggregate]
    return kind === 'rows' || kind === 'count' ? 'Int64' : 'Float64'
  }
  return outputs.map(({ name, value }) => ({ name, type: type(value) }))
}

export function* chunksOf(plan: LanePlan, evaluated: Evaluated, textBytes: boolean): Generator<SqlChunk> {
  const order = rowsInOrder(plan, evaluated)
  for (let from = 0; from < order.length; from += CHUNK_ROWS) {
    const cells = order.subarray(from, from + CHUNK_ROWS)
    yield { rows: cells.length, columns: plan.outputs.map(({ value }) => vectorOf(plan, evaluated, value, cells, textBytes)) }
  }
}

/** The cells that are rows of the answer. */
function rowsInOrder({ grouped, order, offset, limit }: LanePlan, evaluated: Evaluated): Uint32Array {
  const { presence } = evaluated
  const cells = new Uint32Array(presence.length)
  let n = 0
  for (let cell = 0; cell < presence.length; cell++) if (presence[cell] > 0 || !grouped) cells[n++] = cell
  const found = cells.subarray(0, n)
  return (order.length === 0 ? found : sorted(found, order, evaluated)).subarray(offset, Math.min(n, offset + limit))
}

function sorted(cells: Uint32Array, order: readonly OrderPlan[], evaluated: Evaluated): Uint32Array {
  const terms = order.map((term) => ({ ranks: ranksOf(term, evaluated, cells), size: 'key' in term.value ? sizeOf(term.value.key, evaluated) : undefined }))
  return positionsInOrder(terms, cells.length).map((position) => cells[position])
}

/** Numbers to sort by, smaller ones first; with a size they are whole numbers from 0 on below it. */
export interface OrderTerm {
  ranks: Float64Array
  size: number | undefined
}

/** Sorts by one number a row where the terms allow it: an array of numbers is sorted without calling back. */
export function positionsInOrder(terms: readonly OrderTerm[], n: number): Uint32Array {
  const room = terms.reduce((product, { size }) => product * (size ?? Number.POSITIVE_INFINITY), n)
  if (room <= Number.MAX_SAFE_INTEGER) {
    const numbers = new Float64Array(n)
    for (const { ranks, size } of terms) for (let i = 0; i < n; i++) numbers[i] = numbers[i] * (size as number) + ranks[i]
    for (let i = 0; i < n; i++) numbers[i] = numbers[i] * n + i
    numbers.sort()
    return Uint32Array.from(numbers, (number) => number % n)
  }
  const positions = Uint32Array.from({ length: n }, (_, i) => i)
  return positions.sort((a, b) => {
    for (const { ranks } of terms) if (ranks[a] !== ranks[b]) return ranks[a] < ranks[b] ? -1 : 1
    return a - b
  })
}

/** One more than the ranks of a key. */
function sizeOf(key: number, { grouping: { tags, buckets } }: Evaluated): number {
  return (tags[key]?.texts.length ?? buckets.count) + 2
}

/** Numbers in the order asked for; of keys from 0 on. */
function ranksOf({ value, descending, nullsFirst }: OrderPlan, evaluated: Evaluated, cells: Uint32Array): Float64Array {
  const { grouping, cells: aggregates } = evaluated
  const { buckets, tags } = grouping
  const out = new Float64Array(cells.length)
  if ('aggregate' in value) {
    for (let i = 0; i < out.length; i++) {
      const number = valueAt(aggregates[value.aggregate], cells[i])
      out[i] = number === undefined ? (nullsFirst ? -LAST : LAST) : descending ? -number : number
    }
    return out
  }
  const tag = tags[value.key]
  if (tag === undefined) {
    for (let i = 0; i < out.length; i++) out[i] = descending ? buckets.count - (cells[i] % buckets.count) : cells[i] % buckets.count
    return out
  }
  const ranks = textRanks(tag)
  const last = tag.texts.length
  for (let i = 0; i < out.length; i++) {
    const code = tag.codes[Math.floor(cells[i] / buckets.count)]
    out[i] = code < 0 ? (nullsFirst ? 0 : last + 1) : 1 + (descending ? last - 1 - ranks[code] : ranks[code])
  }
  return out
}

/** The place of each text in the order of their UTF-8 bytes. */
export function textRanks({ texts, codes }: Pick<GroupTag, 'texts' | 'codes'>): Int32Array {
  const used = new Uint8Array(texts.length)
  for (const code of codes) if (code >= 0) used[code] = 1
  const order: number[] = []
  for (let code = 0; code < texts.length; code++) if (used[code] === 1) order.push(code)
  order.sort((a, b) => compareBytes(texts[a], texts[b]))
  const ranks = new Int32Array(texts.length)
  for (let i = 0; i < order.length; i++) ranks[order[i]] = i
  return ranks
}

const SURROGATES = /[\ud800-\udfff]/

/** As their UTF-8 compares: that is how their units do, but for surrogates. */
function compareBytes(a: string, b: string): number {
  if (SURROGATES.test(a) || SURROGATES.test(b)) return Buffer.compare(Buffer.from(a), Buffer.from(b))
  return a < b ? -1 : a > b ? 1 : 0
}

/** Undefined for null. */
function valueAt({ kind, values, counts }: Cells, cell: number): number | undefined {
  const value = values[cell]
  if (counts !== undefined) return counts[cell] === 0 ? undefined : kind === 'avg' ? value / counts[cell] : value
  return Number.isFinite(value) ? value : undefined
}

function vectorOf(
  { aggregates: plans }: LanePlan,
  { grouping, cells: aggregates }: Evaluated,
  value: ValueRef,
  cells: Uint32Array,
  textBytes: boolean,
): SqlVector {
  const { tags, buckets } = grouping
  if ('aggregate' in value) {
    const { kind } = plans[value.aggregate]
    const of = aggregates[value.aggregate]
    return kind === 'rows' || kind === 'count' ? { values: BigInt64Array.from(cells, (cell) => BigInt(of.values[cell])) } : numbers(of, cells)
  }
  const tag = tags[value.key]
  if (tag !== undefined) {
    const texts = Array.from(cells, (cell) => tag.texts[tag.codes[Math.floor(cell / buckets.count)]] ?? null)
    return textBytes ? bytesOf(texts) : { values: texts }
  }
  return { values: BigInt64Array.from(cells, (cell) => BigInt(buckets.first + (cell % buckets.count) * buckets.step) * NS_PER_MS) }
}

function numbers(of: Cells, cells: Uint32Array): SqlVector {
  const values = new Float64Array(cells.length)
  let validity: Uint8Array | undefined
  for (let i = 0; i < cells.length; i++) {
    const value = valueAt(of, cells[i])
    if (value !== undefined) values[i] = value
    else (validity ??= new Uint8Array(cells.length).fill(1))[i] = 0
  }
  return validity === undefined ? { values } : { values, validity }
}

export function bytesOf(texts: readonly (string | null)[]): SqlVector {
  const ends = new Int32Array(texts.length + 1)
  const parts = texts.map((text) => Buffer.from(text ?? ''))
  for (let i = 0; i < parts.length; i++) ends[i + 1] = ends[i] + parts[i].length
  const vector = { values: ends, bytes: Buffer.concat(parts) as Uint8Array }
  return texts.includes(null) ? { ...vector, validity: Uint8Array.from(texts, (text) => (text === null ? 0 : 1)) } : vector
}
