/**
 * A block that is encoded as its bytes come, so that of what is long only the encoded form waits. Blocks are sequences of elements that copy from what the same
 * sequence has made: one behind the other they are a block as well (github.com/google/snappy, format_description.txt).
 */
import { encodeSnappy } from './snappy.ts'

/** A literal has its length in its first byte. */
const LONGEST = 60

/** A block that is made bit by bit, and is kept encoded. */
export class SnappyParts {
  /** Bytes before they were encoded. */
  length = 0
  /** Encoded. */
  bytes = 0
  private readonly parts: Uint8Array[] = []

  /** The bytes may be written over once it resolves. */
  async add(bytes: Uint8Array): Promise<void> {
    if (bytes.length === 0) return
    const block = await encodeSnappy(bytes)
    let at = 0
    while (block[at] > 0x7f) at++
    this.push(Uint8Array.prototype.slice.call(block, at + 1), bytes.length)
  }

  /** At most 60 bytes, as they are. */
  literal(bytes: Uint8Array): void {
    if (bytes.length === 0 || bytes.length > LONGEST) throw new RangeError(`cannot write a literal of ${bytes.length} bytes: it has 1 to ${LONGEST}`)
    this.push(Uint8Array.of((bytes.length - 1) << 2, ...bytes), bytes.length)
  }

  /** All of another, which is not used any more. */
  append({ parts, length, bytes }: SnappyParts): void {
    for (const part of parts) this.parts.push(part)
    this.length += length
    this.bytes += bytes
  }

  /** The block, in order; each part is let go of as it is taken. */
  *take(): Generator<Uint8Array> {
    const head: number[] = []
    let rest = this.length
    for (; rest > 0x7f; rest = Math.floor(rest / 128)) head.push((rest % 128) | 0x80)
    yield Uint8Array.of(...head, rest)
    this.parts.reverse()
    for (let part = this.parts.pop(); part !== undefined; part = this.parts.pop()) yield part
  }

  private push(part: Uint8Array, length: number): void {
    this.parts.push(part)
    this.length += length
    this.bytes += part.length
  }
}
