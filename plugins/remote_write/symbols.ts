/**
 * The symbols of one request of version 2, and numbers for their texts that stay the same from request to request: the labels of a
 * series become a short row of such numbers. Only symbols that labels or metadata use get one; those of exemplars are all different.
 */
import { KeyTable } from 'svcdb/lib/columns'

const UNKNOWN = -2
/** The text cannot be kept: the table has no place for it. */
export const NO_NUMBER = -1
const NO_BYTES = new Uint8Array(0)

export class Symbols {
  count = 0
  bytes: Uint8Array = NO_BYTES
  starts = new Int32Array(256)
  ends = new Int32Array(256)
  /** Of each symbol; negative = ask `number`. */
  numbers = new Int32Array(256)
  private total = 0
  private view: DataView = new DataView(NO_BYTES.buffer)
  private readonly table: KeyTable

  constructor(maxBytes: number, seed: number) {
    this.table = new KeyTable(maxBytes, seed)
  }

  begin(bytes: Uint8Array, view: DataView): void {
    this.bytes = bytes
    this.view = view
    this.count = this.total = 0
  }

  push(start: number, end: number): void {
    const place = this.count++
    if (place === this.starts.length) {
      this.starts = grown(this.starts)
      this.ends = grown(this.ends)
      this.numbers = grown(this.numbers)
    }
    this.starts[place] = start
    this.ends[place] = end
    this.numbers[place] = UNKNOWN
    this.total += end - start
  }

  /** Whether all numbers had to be given up to have room for this request's. Call when all symbols are there. */
  makeRoom(): boolean {
    if (this.table.hasRoom(this.count, this.total)) return false
    this.table.clear()
    return true
  }

  /** The number of symbol `place`, or NO_NUMBER. */
  number(place: number): number {
    const known = this.numbers[place]
    if (known !== UNKNOWN) return known
    const start = this.starts[place]
    const end = this.ends[place]
    const hash = this.table.hashOf(this.view, start, end)
    let number = this.table.find(this.view, start, end, hash)
    if (number < 0 && this.table.hasRoom(1, end - start)) number = this.table.add(this.bytes, start, end, hash, 0, 0)
    this.numbers[place] = number
    return number
  }

  /** @param most bytes: what is longer is cut, perhaps within a character. */
  text(place: number, most = Number.POSITIVE_INFINITY): string {
    const { bytes } = this
    return Buffer.from(bytes.buffer, bytes.byteOffset + this.starts[place], Math.min(this.ends[place] - this.starts[place], most)).toString('utf8')
  }

  release(): void {
    this.begin(NO_BYTES, new DataView(NO_BYTES.buffer))
  }
}

function grown(from: Int32Array): Int32Array<ArrayBuffer> {
  const to = new Int32Array(from.length * 2)
  to.set(from)
  return to
}
