/** A column of a record batch into a field's column of a write: at once where all rows have a value and both lie alike in memory, else row by row. */
import type { Data, Decimal } from 'apache-arrow'
import type { Column, WriteBatch } from 'svcdb/lib/columns'
import type { Work } from 'svcdb/lib/event-loop'
import { pow10 } from './decimals.ts'
import type { TextColumn, TextRoom } from './texts.ts'

/** Values between two places where the work can be interrupted. */
const SLICE = 4096

/** Rows of a record batch that are written, and where the first of them goes. */
export interface Rows {
  /** Ascending; undefined = all. */
  chosen: Int32Array | undefined
  count: number
  first: number
}

export interface FieldValues {
  data: Data
  /** Of text. */
  texts: TextColumn | undefined
  /** One byte a row, 1 = there is a value to store; undefined = in all rows. */
  valid: Uint8Array | undefined
}

/** In turns. @param room of texts. @throws PAYLOAD_TOO_LARGE. */
export function* storeField(values: FieldValues, column: Column, rows: Rows, write: WriteBatch, room: TextRoom): Work<void> {
  const { data, valid } = values
  if (rows.chosen === undefined && valid === undefined && liesAlike(data, column)) {
    const bytes = data.values as ArrayBufferView
    column.setRun(rows.first, new Uint8Array(bytes.buffer, bytes.byteOffset, rows.count * 8), rows.count)
    return
  }
  const store = storeOf(values, column, write, room)
  for (let i = 0; i < rows.count; i++) {
    const from = rows.chosen === undefined ? i : rows.chosen[i]
    if (valid === undefined || valid[from] === 1) store(rows.first + i, from)
    if (i % SLICE === SLICE - 1) yield
  }
}

function liesAlike(data: Data, column: Column): boolean {
  if (column.type === 'float64') return data.values instanceof Float64Array
  if (column.type === 'int64') return data.values instanceof BigInt64Array
  return column.type === 'uint64' && data.values instanceof BigUint64Array
}

type Store = (row: number, from: number) => void

function storeOf({ data, texts }: FieldValues, column: Column, write: WriteBatch, room: TextRoom): Store {
  switch (column.type) {
    case 'float64': {
      const numbers = data.values as Float64Array
      return (row, from) => column.setF64(row, numbers[from])
    }
    case 'int64':
    case 'uint64':
      return storeInteger(data, column)
    case 'bool': {
      const bits = data.values as unknown as Uint8Array
      return (row, from) => column.setBool(row, ((bits[from >> 3] >> (from & 7)) & 1) === 1)
    }
    case 'decimal':
      return storeDecimal(data as Data<Decimal>, column)
    default: {
      const { heap, offsets, indices } = texts as TextColumn
      return (row, from) => {
        const value = indices === undefined ? from : indices[from]
        const length = offsets[value + 1] - offsets[value]
        room.take(length)
        const at = write.heap.reserve(length)
        write.heap.bytes.set(heap.subarray(offsets[value], offsets[value + 1]), at)
        column.setPair(row, at, length)
      }
    }
  }
}

function storeInteger({ values }: Data, column: Column): Store {
  if (values instanceof BigInt64Array || values instanceof BigUint64Array) {
    const halves = new Int32Array(values.buffer, values.byteOffset, values.length * 2)
    return (row, from) => column.setPair(row, halves[from * 2], halves[from * 2 + 1])
  }
  const numbers = values as Int32Array
  return column.type === 'int64'
    ? (row, from) => column.setPair(row, numbers[from], numbers[from] >> 31)
    : (row, from) => column.setPair(row, numbers[from] | 0, 0)
}

function storeDecimal(data: Data<Decimal>, column: Column): Store {
  const { scale } = data.type
  const halves = data.values as unknown as Uint32Array
  return (row, from) => {
    const unscaled = decimalAt(halves, from)
    if (scale < 0) column.setDecimal(row, unscaled * pow10(-scale), 0)
    else column.setDecimal(row, unscaled, scale)
  }
}

/** 128-bit two's complement in four 32-bit parts, low first. */
export function decimalAt(parts: Uint32Array, row: number): bigint {
  const at = row * 4
  const low = BigInt(parts[at]) | (BigInt(parts[at + 1]) << 32n)
  return (BigInt.asIntN(64, BigInt(parts[at + 2]) | (BigInt(parts[at + 3]) << 32n)) << 64n) | low
}
