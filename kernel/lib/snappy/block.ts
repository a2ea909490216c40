/**
 * Snappy blocks into memory that is used again.
 *
 * The library's decoder takes new memory for each block, which for blocks of a megabyte costs more in page faults and collections than
 * the decoding (block.bench.ts). This one keeps one buffer; what it returns is good until the next call.
 */
import { checkedLength, fill, SLACK } from './fill.ts'

/** A block that decodes to more than this gets memory of its own. */
const MAX_KEPT = 8 * 1024 * 1024

/** Decodes blocks one after the other into one buffer: what it returns is good until the next call. */
export class SnappyBlockDecoder {
  private buffer = new Uint8Array(0)
  private view = new DataView(this.buffer.buffer)

  /** @param limit bytes after decoding, to be checked by the caller before: `snappyLength`. @throws BAD_REQUEST. */
  decode(block: Uint8Array): Uint8Array {
    const length = checkedLength(block)
    const kept = this.buffer
    this.reserve(length + SLACK)
    const { buffer } = this
    try {
      // Always the same class of array: a Buffer is another, and would make every access polymorphic.
      fill(new Uint8Array(block.buffer, block.byteOffset, block.length), buffer, this.view, length)
    } finally {
      if (length > MAX_KEPT) {
        this.buffer = kept
        this.view = new DataView(kept.buffer)
      }
    }
    return buffer.subarray(0, length)
  }

  private reserve(size: number): void {
    if (size <= this.buffer.length) return
    this.buffer = new Uint8Array(size > MAX_KEPT ? size : 2 ** Math.ceil(Math.log2(size)))
    this.view = new DataView(this.buffer.buffer)
  }
}
