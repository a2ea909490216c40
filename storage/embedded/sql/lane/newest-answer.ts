/** Answers a statement for newest rows from what is known of each series. */
import type { SqlChunk, SqlVector } from 'svcdb'
import { Turn } from 'svcdb/lib/event-loop'
import type { NewestCount, NewestPlan, NewestValue } from './newest.ts'
import { type OrderTerm, sortedPositions, textRanks } from './order.ts'
import { textVector } from './vectors.ts'

const CHUNK_ROWS = 8192
/** Values of a chunk: one is made in one turn of the thread. */
const CHUNK_CELLS = 65_536
const NONE = -1
/** All of an exponent's bits: a NaN or infinity. */
const EXPONENT = 0x7ff00000

/** The newest row of each series, or the newest with a value of a field. */
export interface NewestOfSeries {
  /** 1 = there is one in the statement's range. */
  known: Uint8Array
  times: BigInt64Array
  /** The value's 64 bits, in two halves; a boolean is 0 or 1. */
  bits: Int32Array
}

/** Series by position. */
export interface NewestTable {
  series: number
  tag(name: string): { codes: Int32Array; texts: readonly string[] }
  rows: NewestOfSeries
  /** Of each field that the plan names. */
  fields: ReadonlyMap<string, NewestOfSeries>
}

/** In turns of the thread: series may be very many, and so may values. Undefined where a value is not to be seen, so that an older one may be the answer. */
export async function newestChunks(
  plan: NewestPlan,
  table: NewestTable,
  textBytes: boolean,
  signal: AbortSignal | undefined,
): Promise<Iterable<SqlChunk> | AsyncIterable<SqlChunk> | undefined> {
  for (const { value } of [...plan.outputs, ...plan.order])
    if (value.kind === 'newest' && plan.fields.get(value.name) === 'Float64' && holdsNonFinite(table.fields.get(value.name) as NewestOfSeries)) return undefined
  const turn = new Turn(signal)
  if (plan.by.length === 0) return [await countsOf(plan, table, turn)]
  const groups = new Groups(plan, table)
  return chunksOf(plan, groups, await positionsOf(plan, groups, turn), textBytes, turn)
}

/** Of a plan without groups: all of its values are counts. */
async function countsOf({ outputs }: NewestPlan, { series, rows, tag }: NewestTable, turn: Turn): Promise<SqlChunk> {
  const count = (name: string): number => {
    const { codes, texts } = tag(name)
    const seen = new Uint8Array(texts.length)
    let found = 0
    for (let i = 0; i < series; i++)
      if (rows.known[i] === 1 && codes[i] >= 0 && seen[codes[i]] === 0) {
        seen[codes[i]] = 1
        found++
      }
    return found
  }
  const counts = new Map<string, bigint>()
  for (const { value } of outputs) {
    const { name } = value as NewestCount
    if (counts.has(name)) continue
    if (turn.isOver) await turn.next()
    counts.set(name, BigInt(count(name)))
  }
  return { rows: 1, columns: outputs.map(({ value }) => ({ values: BigInt64Array.of(counts.get((value as NewestCount).name) as bigint) })) }
}

/** The oldest of the times that a plan's values have; undefined where a value is not to be seen, so that an older one may be the answer, and where there are none. */
export function oldestNewest(plan: NewestPlan, { rows, fields }: NewestTable): bigint | undefined {
  let oldest: bigint | undefined
  for (const [name, { known, times, bits }] of [['', rows] as const, ...fields]) {
    const mayHide = plan.fields.get(name) === 'Float64'
    for (let i = 0; i < known.length; i++) {
      if (known[i] === 0) continue
      if (mayHide && isNonFinite(bits, i)) return undefined
      if (oldest === undefined || times[i] < oldest) oldest = times[i]
    }
  }
  return oldest
}

/** Groups in their order, those that are wanted. */
async function positionsOf({ order, offset, limit }: NewestPlan, groups: Groups, turn: Turn): Promise<Uint32Array> {
  const terms: OrderTerm[] = []
  for (const { value, descending, nullsFirst } of order) {
    if (turn.isOver) await turn.next()
    terms.push(groups.ranks(value, descending, nullsFirst))
  }
  const all = terms.length === 0 ? Uint32Array.from({ length: groups.count }, (_, i) => i) : sortedPositions(terms, groups.count)
  return all.subarray(offset, Math.min(all.length, offset + limit))
}

async function* chunksOf({ outputs }: NewestPlan, groups: Groups, order: Uint32Array, textBytes: boolean, turn: Turn): AsyncGenerator<SqlChunk> {
  const most = Math.max(1, Math.min(CHUNK_ROWS, Math.floor(CHUNK_CELLS / outputs.length)))
  for (let from = 0; from < order.length; from += most) {
    const rows = order.subarray(from, from + most)
    if (turn.isOver) await turn.next()
    yield { rows: rows.length, columns: outputs.map(({ value, type }) => groups.vector(value, type, rows, textBytes)) }
  }
}

class Groups {
  count = 0
  private readonly table: NewestTable
  private readonly types: NewestPlan['fields']
  /** The series of each group's newest row. */
  private readonly series: Int32Array
  /** By field, the series of each group's newest value. */
  private readonly fields = new Map<string, Int32Array>()
  private readonly groupOf: Int32Array

  constructor({ by, outputs, order, fields }: NewestPlan, table: NewestTable) {
    this.table = table
    this.types = fields
    this.groupOf = this.grouped(by)
    this.series = this.newest(table.rows)
    for (const { value } of [...outputs, ...order])
      if (value.kind === 'newest' && !this.fields.has(value.name)) this.fields.set(value.name, this.newest(table.fields.get(value.name) as NewestOfSeries))
  }

  /** The group of each series with a row, from 0 on. */
  private grouped(by: readonly string[]): Int32Array {
    const { series, rows, tag } = this.table
    const tags = by.map((name) => tag(name))
    const out = new Int32Array(series).fill(NONE)
    const room = tags.reduce((product, { texts }) => product * (texts.length + 1), 1)
    const numbers = room <= Number.MAX_SAFE_INTEGER
    const listed = tags.length === 1 ? new Int32Array(tags[0].texts.length + 1).fill(NONE) : undefined
    const found = new Map<number | string, number>()
    for (let i = 0; i < series; i++) {
      if (rows.known[i] === 0) continue
      if (listed !== undefined) {
        const code = tags[0].codes[i] + 1
        if (listed[code] === NONE) listed[code] = this.count++
        out[i] = listed[code]
        continue
      }
      const key = numbers ? tags.reduce((sum, { codes, texts }) => sum * (texts.length + 1) + codes[i] + 1, 0) : tags.map(({ codes }) => codes[i]).join(' ')
      let group = found.get(key)
      if (group === undefined) found.set(key, (group = this.count++))
      out[i] = group
    }
    return out
  }

  /** The series with the newest one of each group; NONE without any. */
  private newest({ known, times }: NewestOfSeries): Int32Array {
    const { groupOf } = this
    const out = new Int32Array(this.count).fill(NONE)
    for (let i = 0; i < known.length; i++) {
      const group = groupOf[i]
      if (known[i] === 0 || group === NONE) continue
      const best = out[group]
      if (best === NONE || times[i] > times[best]) out[group] = i
    }
    return out
  }

  ranks(value: NewestValue, descending: boolean, nullsFirst: boolean): OrderTerm {
    const { count, table } = this
    const out = new Float64Array(count)
    const series = this.seriesOf(value)
    if (value.kind === 'tag') {
      const { codes, texts } = table.tag(value.name)
      const ranks = textRanks({ texts, codes: codes.subarray(0, table.series) })
      for (let i = 0; i < count; i++) {
        const code = codes[series[i]]
        out[i] = code < 0 ? (nullsFirst ? 0 : texts.length + 1) : 1 + (descending ? texts.length - 1 - ranks[code] : ranks[code])
      }
      return { ranks: out, size: texts.length + 2 }
    }
    // 64 bits as their places among all: doubles would not tell them apart.
    const numbers = this.numbers(value)
    const sorted = numbers.filter((number) => number !== undefined).sort((a, b) => (a < b ? -1 : a > b ? 1 : 0))
    const places = new Map<number | bigint, number>()
    for (const number of sorted) if (!places.has(number)) places.set(number, places.size)
    for (let i = 0; i < count; i++) {
      const number = numbers[i]
      const place = number === undefined ? undefined : (places.get(number) as number)
      out[i] = place === undefined ? (nullsFirst ? 0 : places.size + 1) : 1 + (descending ? places.size - 1 - place : place)
    }
    return { ranks: out, size: places.size + 2 }
  }

  vector(value: NewestValue, type: string, groups: Uint32Array, textBytes: boolean): SqlVector {
    const { table } = this
    const series = this.seriesOf(value)
    if (value.kind === 'tag') {
      const { codes, texts } = table.tag(value.name)
      const own = new Int32Array(groups.length)
      for (let i = 0; i < groups.length; i++) own[i] = codes[series[groups[i]]]
      return textVector(own, texts, textBytes)
    }
    if (value.kind === 'time') {
      const times = new BigInt64Array(groups.length)
      for (let i = 0; i < groups.length; i++) times[i] = table.rows.times[series[groups[i]]]
      return { values: times }
    }
    const { bits } = table.fields.get(value.name) as NewestOfSeries
    const pairs = new Int32Array(groups.length * 2)
    let validity: Uint8Array | undefined
    for (let i = 0; i < groups.length; i++) {
      const at = series[groups[i]]
      if (this.has(value, at) && !(type === 'Float64' && isNonFinite(bits, at))) {
        pairs[i * 2] = bits[at * 2]
        // What DuckDB picks by the time goes through its sort keys, which know one zero.
        pairs[i * 2 + 1] = value.kind === 'newest' && type === 'Float64' && isNegativeZero(bits, at) ? 0 : bits[at * 2 + 1]
      } else (validity ??= new Uint8Array(groups.length).fill(1))[i] = 0
    }
    return { values: valuesOf(type, pairs), ...(validity === undefined ? {} : { validity }) }
  }

  private seriesOf(value: NewestValue): Int32Array {
    return value.kind === 'newest' ? (this.fields.get(value.name) as Int32Array) : this.series
  }

  /** Whether a series has the value: that of a row is of the row's time. */
  private has(value: NewestValue, series: number): boolean {
    if (series === NONE) return false
    if (value.kind !== 'newest' && value.kind !== 'of-row') return true
    const { known, times } = this.table.fields.get(value.name) as NewestOfSeries
    return known[series] === 1 && (value.kind === 'newest' || times[series] === this.table.rows.times[series])
  }

  /** Of each group; undefined for null. */
  private numbers(value: Exclude<NewestValue, { kind: 'tag' }>): (number | bigint | undefined)[] {
    const type = value.kind === 'time' ? '' : (this.types.get(value.name) as string)
    const all = Uint32Array.from({ length: this.count }, (_, i) => i)
    const { values, validity } = this.vector(value, type, all, false)
    return Array.from(values as ArrayLike<number | bigint>, (number, i) => (validity?.[i] === 0 ? undefined : number))
  }
}

function valuesOf(type: string, pairs: Int32Array): SqlVector['values'] {
  switch (type) {
    case 'Float64':
      return new Float64Array(pairs.buffer)
    case 'Int64':
      return new BigInt64Array(pairs.buffer)
    case 'UInt64':
      return new BigUint64Array(pairs.buffer)
    default:
      return Uint8Array.from({ length: pairs.length / 2 }, (_, i) => pairs[i * 2])
  }
}

function holdsNonFinite({ known, bits }: NewestOfSeries): boolean {
  for (let i = 0; i < known.length; i++) if (known[i] === 1 && isNonFinite(bits, i)) return true
  return false
}

function isNonFinite(bits: Int32Array, at: number): boolean {
  return (bits[at * 2 + 1] & EXPONENT) === EXPONENT
}

function isNegativeZero(bits: Int32Array, at: number): boolean {
  return bits[at * 2] === 0 && bits[at * 2 + 1] === -0x80000000
}
