/** What a run of rows of one column comes to, worked out once for all that add it. Loops over columns; nothing is made for a row. */
import type { ColumnChunk, FieldInfo } from 'svcdb'
import { type Aggregation, isExact } from './aggregations.ts'

const EXTREMES = ['min', 'max']
const NUMBERS = ['avg', 'sum', 'stddev', 'quantile', ...EXTREMES]

export class Run {
  /** Of the run read last, and in ascending time. */
  column!: ColumnChunk
  /** Rows that have a value, and places of the first and the last of them in the column. */
  rows = 0
  first = 0
  last = 0
  sum = 0
  low = 0
  high = 0
  /** About the run's mean. */
  squares = 0
  exactSum = 0n
  exactLow: bigint | undefined
  exactHigh: bigint | undefined
  /** Values of the rows that have one, as doubles, from `start` on. */
  values: Float64Array = new Float64Array(0)
  start = 0
  private readonly wantsNumbers: boolean
  private readonly wantsSquares: boolean
  private readonly wantsExact: boolean
  private readonly unit: number
  private scratch = new Float64Array(0)

  constructor(field: FieldInfo, aggregations: readonly Aggregation[]) {
    const wants = (kinds: readonly string[]): boolean => aggregations.some(({ kind }) => kinds.includes(kind))
    const exact = isExact(field.type)
    this.wantsNumbers = (field.type === 'float64' || exact) && wants(NUMBERS)
    this.wantsSquares = this.wantsNumbers && wants(['stddev'])
    this.wantsExact = exact && (wants(EXTREMES) || (field.type === 'decimal' && wants(['sum'])))
    this.unit = field.type === 'decimal' ? 10 ** -(field.scale ?? 0) : 1
  }

  /** Reads rows [from, to), at least one. @returns whether one of them has a value. */
  read(column: ColumnChunk, from: number, to: number): boolean {
    const { validity } = column
    this.column = column
    this.rows = to - from
    this.first = from
    this.last = to - 1
    if (validity !== undefined) {
      let rows = 0
      for (let i = from; i < to; i++) rows += validity[i]
      this.rows = rows
      if (rows === 0) return false
      while (validity[this.first] === 0) this.first++
      while (validity[this.last] === 0) this.last--
    }
    if (this.wantsNumbers) this.readNumbers(column, from, to)
    if (this.wantsExact) this.readExact(column)
    return true
  }

  private readNumbers(column: ColumnChunk, from: number, to: number): void {
    const dense = column.validity === undefined && column.type === 'float64'
    const values = dense ? (column.values as Float64Array) : this.numbers(column, from, to)
    const start = dense ? from : 0
    const end = start + this.rows
    let sum = 0
    let low = Number.POSITIVE_INFINITY
    let high = Number.NEGATIVE_INFINITY
    for (let i = start; i < end; i++) {
      const v = values[i]
      sum += v
      if (v < low) low = v
      if (v > high) high = v
    }
    this.values = values
    this.start = start
    this.sum = sum
    this.low = low
    this.high = high
    if (!this.wantsSquares) return
    const mean = sum / this.rows
    let squares = 0
    for (let i = start; i < end; i++) {
      const off = values[i] - mean
      squares += off * off
    }
    this.squares = squares
  }

  /** The values of the rows that have one, as doubles, from 0 on. */
  private numbers({ type, values, validity }: ColumnChunk, from: number, to: number): Float64Array {
    if (this.scratch.length < this.rows) this.scratch = new Float64Array(Math.max(this.rows, this.scratch.length * 2))
    const { scratch, unit } = this
    let n = 0
    if (type === 'float64') {
      const floats = values as Float64Array
      for (let i = from; i < to; i++) if ((validity as Uint8Array)[i] === 1) scratch[n++] = floats[i]
    } else if (type === 'decimal') {
      const digits = values as bigint[]
      for (let i = from; i < to; i++) if (validity === undefined || validity[i] === 1) scratch[n++] = Number(digits[i]) * unit
    } else {
      const { buffer, byteOffset, length } = values as BigInt64Array
      const halves = new Int32Array(buffer, byteOffset, length * 2)
      const signed = type === 'int64'
      for (let i = from; i < to; i++) {
        if (validity !== undefined && validity[i] === 0) continue
        const high = halves[i * 2 + 1]
        scratch[n++] = (signed ? high : high >>> 0) * 4294967296 + (halves[i * 2] >>> 0)
      }
    }
    return scratch
  }

  /** Integers beyond 2^53 and decimals are compared, and decimals added, digit by digit. */
  private readExact({ type, values, validity }: ColumnChunk): void {
    const decimal = type === 'decimal'
    // No double of these has been rounded.
    if (!decimal && this.low >= Number.MIN_SAFE_INTEGER && this.high <= Number.MAX_SAFE_INTEGER) {
      this.exactLow = BigInt(this.low)
      this.exactHigh = BigInt(this.high)
      return
    }
    const all = values as BigInt64Array | bigint[]
    const { first, last } = this
    let low = all[first]
    let high = low
    let sum = 0n
    for (let i = first; i <= last; i++) {
      if (validity !== undefined && validity[i] === 0) continue
      const v = all[i]
      if (v < low) low = v
      if (v > high) high = v
      if (decimal) sum += v
    }
    this.exactLow = low
    this.exactHigh = high
    this.exactSum = sum
  }
}
