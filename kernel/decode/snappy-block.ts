/**
 * Snappy blocks into memory that is used again (github.com/google/snappy, format_description.txt).
 *
 * The library's decoder takes new memory for each block, which for blocks of a megabyte costs more in page faults and collections than
 * the decoding (snappy-block.bench.ts). This one keeps one buffer; what it returns is good until the next call.
 */
import { SvcError } from '../errors.ts'
import { snappyLength } from './snappy.ts'

const LITERAL = 0
const COPY_1 = 1
const COPY_2 = 2
/** Copies go by words and may write so many bytes beyond their end, which the next element overwrites. */
const SLACK = 16
/** Literals and copies of at least so many bytes are left to the engine's own copying. */
const LONG = 64
/** A block that decodes to more than this gets memory of its own. */
const MOST_KEPT = 8 * 1024 * 1024

export class SnappyBlockDecoder {
  private buffer = new Uint8Array(0)
  private view = new DataView(this.buffer.buffer)

  /** @param limit bytes after decoding, to be checked by the caller before: `snappyLength`. @throws BAD_REQUEST. */
  decode(block: Uint8Array): Uint8Array {
    const length = snappyLength(block)
    if (length < 0) throw damaged('it does not begin with a length', 0)
    // A copy makes at most 64 bytes of 2 (of a literal's byte comes one).
    if (length > block.length * 32) throw damaged(`it names a length of ${length} bytes, which ${block.length} cannot hold`, 0)
    const kept = this.buffer
    this.reserve(length + SLACK)
    const { buffer } = this
    try {
      fill(new Uint8Array(block.buffer, block.byteOffset, block.length), buffer, this.view, length)
    } finally {
      if (length > MOST_KEPT) {
        this.buffer = kept
        this.view = new DataView(kept.buffer)
      }
    }
    return buffer.subarray(0, length)
  }

  private reserve(size: number): void {
    if (size <= this.buffer.length) return
    this.buffer = new Uint8Array(size > MOST_KEPT ? size : 2 ** Math.ceil(Math.log2(size)))
    this.view = new DataView(this.buffer.buffer)
  }
}

/** Decodes the elements of `block` into out[0, length). */
function fill(block: Uint8Array, out: Uint8Array, view: DataView, length: number): void {
  const source = new DataView(block.buffer, block.byteOffset, block.length)
  const end = block.length
  let at = 0
  while (block[at++] >= 0x80);
  let to = 0
  while (at < end) {
    const tag = block[at++]
    const kind = tag & 3
    if (kind === LITERAL) {
      let size = (tag >>> 2) + 1
      if (size > 60) {
        const bytes = size - 60
        if (at + bytes > end) throw damaged('it ends in the middle of a length', at)
        size = 1
        for (let i = 0; i < bytes; i++) size += block[at + i] * 2 ** (8 * i)
        at += bytes
      }
      if (size > end - at || size > length - to) throw damaged('a literal is longer than what is left', at)
      if (size >= LONG) out.set(block.subarray(at, at + size), to)
      else if (at + size + SLACK <= end) for (let i = 0; i < size; i += 4) view.setInt32(to + i, source.getInt32(at + i, true), true)
      else for (let i = 0; i < size; i++) out[to + i] = block[at + i]
      at += size
      to += size
      continue
    }
    let size: number
    let back: number
    if (kind === COPY_2) {
      if (at + 2 > end) throw damaged('it ends in the middle of a copy', at)
      size = (tag >>> 2) + 1
      back = block[at] | (block[at + 1] << 8)
      at += 2
      // Encoders cut a long match into copies of at most 64 bytes: make it whole.
      while (at + 2 < end && (block[at] & 3) === COPY_2 && (block[at + 1] | (block[at + 2] << 8)) === back) {
        size += (block[at] >>> 2) + 1
        at += 3
      }
    } else if (kind === COPY_1) {
      if (at >= end) throw damaged('it ends in the middle of a copy', at)
      size = ((tag >>> 2) & 7) + 4
      back = ((tag & 0xe0) << 3) | block[at++]
    } else {
      if (at + 4 > end) throw damaged('it ends in the middle of a copy', at)
      size = (tag >>> 2) + 1
      back = source.getUint32(at, true)
      at += 4
    }
    if (back === 0 || back > to || size > length - to) throw damaged('a copy reaches out of what there is', at)
    const stop = to + size
    let from = to - back
    if (size >= LONG && back >= size) out.copyWithin(to, from, from + size)
    else if (back >= 16) {
      for (; to < stop; to += 16, from += 16) {
        const first = view.getInt32(from, true)
        const second = view.getInt32(from + 4, true)
        const third = view.getInt32(from + 8, true)
        const fourth = view.getInt32(from + 12, true)
        view.setInt32(to, first, true)
        view.setInt32(to + 4, second, true)
        view.setInt32(to + 8, third, true)
        view.setInt32(to + 12, fourth, true)
      }
    } else if (back >= 4) for (; to < stop; to += 4, from += 4) view.setInt32(to, view.getInt32(from, true), true)
    else for (; to < stop; to++, from++) out[to] = out[from]
    to = stop
  }
  if (to !== length) throw damaged(`it has ${to} bytes, not the ${length} it names`, at)
}

function damaged(reason: string, at: number): SvcError {
  return new SvcError('BAD_REQUEST', `cannot decompress the body as snappy (block format): ${reason}, at byte ${at}`)
}
