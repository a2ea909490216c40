/** Rows of a result as bytes of JSON, the text that json.ts has: of the types that large results are made of no string is made for a value. */
import { JsonBytes, NUMBER_BYTES } from '../json/index.ts'
import { billionsOf, restOf } from './billions.ts'
import { cellTexts } from './cells.ts'
import type { SqlChunk, SqlColumn, SqlVector } from './chunk.ts'
import { type Encode, jsonEncoderOf } from './json.ts'

/** Writes the value of a row that has one. */
type WriteCell = (row: number) => void

const OPEN = 0x5b
const CLOSE = 0x5d
const COMMA = 0x2c
/** Bytes of UTF-8 that a character of a JavaScript string takes at most. */
const CHARACTER_BYTES = 3
const encoder = new TextEncoder()
const NULL = encoder.encode('null')
const MINUS_ZERO = encoder.encode('-0.0')

/** Writes rows, a chunk at a time. Of text the vectors of `textBytes` are written fastest. */
export class JsonRowBytes extends JsonBytes {
  private readonly types: readonly string[]
  private readonly encoders: readonly Encode[]

  constructor(columns: readonly SqlColumn[]) {
    super()
    this.types = columns.map(({ type }) => type)
    this.encoders = columns.map(({ type }) => jsonEncoderOf(type))
  }

  /** Rows [from, to) as `[..],[..]`. */
  rows(chunk: SqlChunk, from: number, to: number): void {
    const cells = chunk.columns.map((vector, i) => this.cellsOf(this.types[i], vector, this.encoders[i]))
    for (let row = from; row < to; row++) {
      if (row > from) this.byte(COMMA)
      this.byte(OPEN)
      for (let i = 0; i < cells.length; i++) {
        if (i > 0) this.byte(COMMA)
        cells[i](row)
      }
      this.byte(CLOSE)
    }
  }

  private byte(byte: number): void {
    this.room(1)
    this.bytes[this.at++] = byte
  }

  private cellsOf(type: string, vector: SqlVector, encode: Encode): WriteCell {
    const { validity } = vector
    const write = this.numberCells(type, vector) ?? this.textCells(vector) ?? this.otherCells(type, vector, encode)
    return validity === undefined ? write : (row) => (validity[row] === 0 ? this.null() : write(row))
  }

  private numberCells(type: string, { values }: SqlVector): WriteCell | undefined {
    if (values instanceof Float64Array && type === 'Float64') return (row) => this.double(values[row])
    if (!(values instanceof BigInt64Array && (type === 'Int64' || type.startsWith('Time')))) return undefined
    const halves = new Int32Array(values.buffer, values.byteOffset, values.length * 2)
    return (row) => {
      const low = halves[row * 2]
      const high = halves[row * 2 + 1]
      this.room(NUMBER_BYTES)
      if (high >= 0) this.positive(low, high)
      else this.ascii(high === low >> 31 ? String(low) : String(values[row]))
    }
  }

  /** Of text as `textBytes` has it. */
  private textCells({ values, dictionary, bytes }: SqlVector): WriteCell | undefined {
    const numbers = values as ArrayLike<number>
    if (dictionary !== undefined) return (row) => this.string(dictionary[numbers[row]])
    return bytes === undefined ? undefined : (row) => this.text(bytes, numbers[row], numbers[row + 1])
  }

  private otherCells(type: string, vector: SqlVector, encode: Encode): WriteCell {
    const { values } = vector
    const text = cellTexts(type, vector)
    if (text !== undefined) return (row) => this.json(text(row))
    return (row) => {
      const value = values[row]
      if (value === null || value === undefined) this.null()
      else this.json(encode(value))
    }
  }

  private null(): void {
    this.room(NULL.length)
    this.put(NULL)
  }

  private json(text: string): void {
    this.room(text.length * CHARACTER_BYTES)
    this.at += encoder.encodeInto(text, this.bytes.subarray(this.at)).written
  }

  /** NaN and infinities have no number in JSON. */
  private double(value: number): void {
    this.room(NUMBER_BYTES)
    if (value - value !== 0) this.put(NULL)
    else if (value === 0 && 1 / value < 0) this.put(MINUS_ZERO)
    else this.float(value)
  }

  /** The two halves of an integer that is not negative: its upper digits are those of a double, and the lower nine of 32 bits. Needs room. */
  private positive(low: number, high: number): void {
    const billions = billionsOf(low, high)
    const rest = restOf(low, billions)
    if (billions === 0) return this.integer(rest)
    this.integer(billions)
    this.digits(rest, 9)
  }
}
