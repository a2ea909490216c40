/** The body of a batch as its columns lay it out, and presence as Arrow keeps it. */

/** What one batch is made of: (length, nulls) of each array, and the buffers in order. The buffers belong to their writers and are copied. */
export class BatchParts {
  readonly nodes: number[] = []
  readonly buffers: Uint8Array[] = []

  node(length: number, nulls: number): void {
    this.nodes.push(length, nulls)
  }

  buffer(bytes: ArrayBufferView): void {
    this.buffers.push(new Uint8Array(bytes.buffer, bytes.byteOffset, bytes.byteLength))
  }
}

const EMPTY = new Uint8Array(0)

/** Whether rows have a value: a byte a row while a batch grows, bits once it is done, nothing while none is missing. */
export class Presence {
  private bytes = EMPTY
  private rows = 0
  private nulls = 0

  /** @param present one byte a row, 1 = present, from `from` on; undefined: all are. */
  append(present: Uint8Array | undefined, from: number, rows: number): void {
    const { rows: at } = this
    this.rows += rows
    if (present === undefined) {
      if (this.nulls > 0) this.room(this.rows).fill(1, at, this.rows)
      return
    }
    let missing = rows
    for (let i = 0; i < rows; i++) missing -= present[from + i]
    if (missing === 0) return this.allPresent(at)
    if (this.nulls === 0) this.room(this.rows).fill(1, 0, at)
    this.room(this.rows).set(present.subarray(from, from + rows), at)
    this.nulls += missing
  }

  finish(parts: BatchParts): void {
    parts.node(this.rows, this.nulls)
    parts.buffer(this.nulls === 0 ? EMPTY : packBits(this.bytes, this.rows))
  }

  reset(): void {
    this.rows = 0
    this.nulls = 0
  }

  private allPresent(at: number): void {
    if (this.nulls > 0) this.room(this.rows).fill(1, at, this.rows)
  }

  private room(rows: number): Uint8Array {
    if (rows > this.bytes.length) {
      const grown = new Uint8Array(Math.max(rows, 2 * this.bytes.length, 2048))
      grown.set(this.bytes)
      this.bytes = grown
    }
    return this.bytes
  }
}

/** Bytes that are 0 or 1 as bits, the first in the lowest. */
export function packBits(bytes: Uint8Array, rows: number): Uint8Array {
  const bits = new Uint8Array((rows + 7) >> 3)
  const whole = rows >> 3
  const words = new Int32Array(bytes.buffer, bytes.byteOffset, whole * 2)
  // The multiplication moves the lowest bits of the four bytes next to each other, to bits 24 to 27.
  for (let i = 0; i < whole; i++) bits[i] = ((Math.imul(words[2 * i], 0x01020408) >>> 24) & 15) | (((Math.imul(words[2 * i + 1], 0x01020408) >>> 24) & 15) << 4)
  for (let i = whole * 8; i < rows; i++) bits[i >> 3] |= bytes[i] << (i & 7)
  return bits
}
