/**
 * Bytes that come in parts of any size, up to a limit. A part may have a single byte, and one that is kept as it came costs some two hundred: they are copied
 * into one buffer, which takes at most twice what has come.
 */
export class BoundedBytes {
  private readonly max: number
  private buffer: Buffer = Buffer.alloc(0)
  /** Bytes that have come, those that were not taken included. */
  length = 0

  /** @param max in bytes. */
  constructor(max: number) {
    this.max = max
  }

  /** @returns whether it is taken; beyond the limit nothing is, and what has come is let go. */
  add(part: Uint8Array): boolean {
    const at = this.length
    this.length += part.length
    if (this.length > this.max) {
      this.clear()
      return false
    }
    if (this.length > this.buffer.length) {
      const larger = Buffer.allocUnsafeSlow(Math.min(this.max, Math.max(this.length, 2 * this.buffer.length)))
      this.buffer.copy(larger, 0, 0, at)
      this.buffer = larger
    }
    this.buffer.set(part, at)
    return true
  }

  /** Lets go what has come. */
  clear(): void {
    this.buffer = Buffer.alloc(0)
  }

  /** All of them; nothing beyond the limit. */
  get bytes(): Buffer {
    return this.buffer.subarray(0, this.length)
  }
}
