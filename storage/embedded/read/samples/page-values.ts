/** The values of a row group's column, out of its page. */
import { narrowIntegers } from 'svcdb/lib/columns'
import { ColumnDecoder } from '../../parquet/column-decoder.ts'
import type { ParquetFile } from '../../parquet/parquet-file.ts'
import { blockOf, compactBlock, type Frame, type PageBlock, withKinds } from './page-block.ts'
import type { Scratch } from './scratch.ts'
import { isNull, type StoredColumn, valueWidth } from './stored-column.ts'

/** Kept, for its memory. */
export class PageValues {
  private readonly decoder = new ColumnDecoder()
  private numbers = new Int32Array(0)
  private pairs = new Int32Array(0)

  /** @param frame of the row group. @param scratch for what is not kept; absent: values take as few bytes as they can. @throws PageFault */
  of(file: ParquetFile, group: number, column: StoredColumn, frame: Frame, scratch: Scratch | undefined): PageBlock {
    const { footer } = file
    const rows = footer.rows[group]
    const bits = column.bits !== undefined && !isNull(footer, group, footer.column(column.bits)) ? column.bits : undefined
    const integers = bits === undefined && valueWidth(footer, group, column) < 8 ? this.integers(file, group, column, frame, scratch) : undefined
    if (integers !== undefined) return integers
    // Views of their own: what readers remember of an array's values must not be taken for that of others in the same memory.
    const values = scratch?.doubles(rows).subarray(0, rows) ?? new Float64Array(rows)
    let validity = this.doubles(file, group, footer.column(column.name), column, values)
    if (bits !== undefined) validity = this.addBits(file, group, bits, values, validity)
    const block = validity === undefined ? blockOf(frame, values, undefined) : compactBlock(frame, values, undefined, validity)
    return column.nonFinite ? withKinds(block) : block
  }

  /** Undefined where some value is no 32-bit integer, against what the file says. */
  private integers(file: ParquetFile, group: number, column: StoredColumn, frame: Frame, scratch: Scratch | undefined): PageBlock | undefined {
    const { footer } = file
    const rows = footer.rows[group]
    const at = footer.column(column.name)
    const bytes = file.chunk(group, at)
    const numbers = (scratch?.ints(rows) ?? this.numbersFor(rows)).subarray(0, rows)
    let validity: Uint8Array | undefined
    if (column.kind === 'scaled') validity = this.decoder.int32(footer, group, at, bytes, numbers)
    else {
      if (this.pairs.length < rows * 2) this.pairs = new Int32Array(rows * 2)
      validity = this.decoder.int64(footer, group, at, bytes, this.pairs)
      if (!lowHalves(this.pairs, validity, numbers)) return undefined
    }
    const block = validity === undefined ? blockOf(frame, numbers, column.divisor) : compactBlock(frame, numbers, column.divisor, validity)
    return scratch === undefined ? { ...block, values: narrowIntegers(block.values as Int32Array) } : block
  }

  private doubles(file: ParquetFile, group: number, at: number, { kind, divisor }: StoredColumn, out: Float64Array): Uint8Array | undefined {
    const { footer } = file
    const bytes = file.chunk(group, at)
    const rows = footer.rows[group]
    switch (kind) {
      case 'double':
        return this.decoder.double(footer, group, at, bytes, out)
      case 'bool': {
        const bools = new Uint8Array(rows)
        const validity = this.decoder.boolean(footer, group, at, bytes, bools)
        for (let i = 0; i < rows; i++) out[i] = bools[i]
        return validity
      }
      case 'scaled': {
        const numbers = this.numbersFor(rows)
        const validity = this.decoder.int32(footer, group, at, bytes, numbers)
        for (let i = 0; i < rows; i++) out[i] = numbers[i] / divisor
        return validity
      }
      default: {
        // Halves take the place of the doubles they become.
        const halves = new Int32Array(out.buffer, out.byteOffset, rows * 2)
        const validity = this.decoder.int64(footer, group, at, bytes, halves)
        const unsigned = kind === 'uint64'
        for (let i = 0; i < rows; i++) {
          const high = halves[i * 2 + 1]
          out[i] = ((unsigned ? high >>> 0 : high) * 4294967296 + (halves[i * 2] >>> 0)) / divisor
        }
        return validity
      }
    }
  }

  /** Puts NaN and infinities where their bits are. @returns which rows have a value then. */
  private addBits(file: ParquetFile, group: number, name: string, out: Float64Array, validity: Uint8Array | undefined): Uint8Array {
    const { footer } = file
    const rows = footer.rows[group]
    // The decoder's own array is overwritten by the next column.
    const set = validity === undefined ? new Uint8Array(rows).fill(1) : validity.slice()
    const bits = new Int32Array(rows * 2)
    const halves = new Int32Array(out.buffer, out.byteOffset, rows * 2)
    const column = footer.column(name)
    const own = this.decoder.int64(footer, group, column, file.chunk(group, column), bits)
    for (let i = 0; i < rows; i++) {
      if (set[i] === 1 || (own !== undefined && own[i] === 0)) continue
      halves[i * 2] = bits[i * 2]
      halves[i * 2 + 1] = bits[i * 2 + 1]
      set[i] = 1
    }
    return set
  }

  private numbersFor(rows: number): Int32Array {
    if (this.numbers.length < rows) this.numbers = new Int32Array(rows)
    return this.numbers
  }
}

/** @returns whether the high half of each value is its sign. */
function lowHalves(pairs: Int32Array, validity: Uint8Array | undefined, out: Int32Array): boolean {
  let beyond = 0
  for (let i = 0; i < out.length; i++) {
    out[i] = pairs[i * 2]
    if (validity === undefined || validity[i] === 1) beyond |= pairs[i * 2 + 1] ^ (out[i] >> 31)
  }
  return beyond === 0
}
