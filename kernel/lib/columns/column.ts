/** One field's values in a write. */
import type { FieldType } from './schema.ts'

const encoder = new TextEncoder()
const EMPTY_BUFFER = new ArrayBuffer(0)
const EMPTY_U8 = new Uint8Array(0)
const EMPTY_F64 = new Float64Array(0)
const EMPTY_I32 = new Int32Array(0)

/**
 * One field's values. `lanes` is the number of 32-bit halves a value takes: float64, int64, uint64 2; string and histogram 2
 * (offset and length in the heap); decimal 4 (128-bit two's complement, low first); bool 1 byte.
 */
export class Column {
  readonly name: string
  readonly nameBytes: Uint8Array
  readonly type: FieldType
  /** Decimals: the most fractional digits of any value so far; values are stored at their own scale in `scales`. */
  scale = 0
  buffer: ArrayBuffer
  f64: Float64Array
  i32: Int32Array
  u8: Uint8Array
  /** Decimals only: fractional digits of each value. */
  scales: Uint8Array | undefined
  /** Row after the last one that was set. Rows before it without a value have validity 0. */
  next = 0
  /** One byte a row, 1 = present; undefined while no row was left out. */
  validity: Uint8Array | undefined
  /** float64: some value may be NaN or infinite. Found out by the storage, not by who fills the column. */
  nonFinite = false
  /** Row of the first value, so that taking that value back leaves the column empty. */
  private first = 0
  private spareValidity: Uint8Array | undefined
  /** Of a wide table: where the column says that it was set. */
  listed: Column[] | undefined
  /** Its place in the table. */
  place = 0
  left = false // of an earlier write, and not asked for by this one: it does not grow with the rows

  constructor(name: string, type: FieldType, capacity: number) {
    this.name = name
    this.nameBytes = encoder.encode(name)
    this.type = type
    this.buffer = new ArrayBuffer(capacity * bytesPerValue(type))
    this.f64 = type === 'bool' ? EMPTY_F64 : new Float64Array(this.buffer)
    this.i32 = type === 'bool' ? EMPTY_I32 : new Int32Array(this.buffer)
    this.u8 = new Uint8Array(this.buffer)
    if (type === 'decimal') this.scales = new Uint8Array(capacity)
  }

  /** Call before storing the value of `row`; keeps validity when rows were left out. */
  mark(row: number): void {
    if (row !== this.next || this.listed !== undefined) this.markWithCare(row)
    else if (this.validity !== undefined) this.validity[row] = 1
    this.next = row + 1
  }

  setF64(row: number, value: number): void {
    this.mark(row)
    this.f64[row] = value
  }

  /** int64 and uint64 (two's complement halves), string and histogram (offset, length); float64 whose bits count: a NaN in a JavaScript number may lose its own. */
  setPair(row: number, low: number, high: number): void {
    this.mark(row)
    this.i32[row * 2] = low
    this.i32[row * 2 + 1] = high
  }

  setBool(row: number, value: boolean): void {
    this.mark(row)
    this.u8[row] = value ? 1 : 0
  }

  /** @param unscaled the digits without the point, within 128 bits (at most 38 digits). */
  setDecimal(row: number, unscaled: bigint, scale: number): void {
    this.mark(row)
    const at = row * 4
    this.i32[at] = Number(BigInt.asIntN(32, unscaled))
    this.i32[at + 1] = Number(BigInt.asIntN(32, unscaled >> 32n))
    this.i32[at + 2] = Number(BigInt.asIntN(32, unscaled >> 64n))
    this.i32[at + 3] = Number(BigInt.asIntN(32, unscaled >> 96n))
    ;(this.scales as Uint8Array)[row] = scale
    if (scale > this.scale) this.scale = scale
  }

  /** Sets `count` rows from `row` on to values as they lie in `buffer`: for all types but those with a part elsewhere (text, histograms, decimals). */
  setRun(row: number, values: Uint8Array, count: number): void {
    if (count === 0) return
    this.mark(row)
    this.validity?.fill(1, row, row + count)
    this.u8.set(values, row * bytesPerValue(this.type))
    this.next = row + count
  }

  has(row: number): boolean {
    return row < this.next && (this.validity === undefined || this.validity[row] === 1)
  }

  /** How many rows have a value. */
  get values(): number {
    const { validity, next } = this
    if (validity === undefined) return next
    let count = 0
    for (let row = 0; row < next; row++) count += validity[row]
    return count
  }

  /** Takes values back, so that there are none behind the first `rows`. */
  cut(rows: number): void {
    if (this.next <= rows) return
    this.next = this.first >= rows ? 0 : rows
    if (this.next === 0) this.first = 0
  }

  private markWithCare(row: number): void {
    this.listed?.push(this)
    if (row !== this.next) this.skipTo(row)
    else if (this.validity !== undefined) this.validity[row] = 1
  }

  private skipTo(row: number): void {
    if (row < this.next) return // the same field twice in one row: the later value replaces the earlier
    if (this.next === 0) this.first = row
    if (this.validity === undefined) {
      const { capacity, spareValidity } = this
      this.validity = spareValidity !== undefined && spareValidity.length >= capacity ? spareValidity : new Uint8Array(capacity)
      this.validity.fill(1, 0, this.next)
    }
    this.validity.fill(0, this.next, row)
    this.validity[row] = 1
  }

  grow(capacity: number): void {
    if (capacity <= this.capacity) return
    const grown = new ArrayBuffer(capacity * bytesPerValue(this.type))
    new Uint8Array(grown).set(this.u8)
    this.buffer = grown
    if (this.type !== 'bool') {
      this.f64 = new Float64Array(grown)
      this.i32 = new Int32Array(grown)
    }
    this.u8 = new Uint8Array(grown)
    if (this.scales !== undefined) this.scales = copyInto(new Uint8Array(capacity), this.scales)
    if (this.validity !== undefined) this.validity = copyInto(new Uint8Array(capacity), this.validity)
  }

  /** Rows that it has room for. */
  get capacity(): number {
    return this.u8.length / bytesPerValue(this.type)
  }

  /** Bytes that it takes, also when it is empty. */
  get reserved(): number {
    return this.u8.length + (this.scales?.length ?? 0) + ((this.validity ?? this.spareValidity)?.length ?? 0)
  }

  /** Lets go of its memory: decoders remember columns that are not used again. */
  free(): void {
    this.reset()
    this.listed = undefined
    this.buffer = EMPTY_BUFFER
    this.f64 = EMPTY_F64
    this.i32 = EMPTY_I32
    this.u8 = EMPTY_U8
    this.scales = undefined
    this.spareValidity = undefined
  }

  reset(): void {
    this.next = 0
    this.first = 0
    this.scale = 0
    this.nonFinite = false
    if (this.validity !== undefined) this.spareValidity = this.validity
    this.validity = undefined
  }
}

/** What a value takes in a column's buffer; texts and histograms take 8, and their bytes lie in the heap. */
export function bytesPerValue(type: FieldType): number {
  return type === 'bool' ? 1 : type === 'decimal' ? 16 : 8
}

export function copyInto<T extends Uint8Array | Int32Array>(target: T, source: T): T {
  target.set(source)
  return target
}
