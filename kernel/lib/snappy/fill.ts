/** The elements of a snappy block, taken apart (github.com/google/snappy, format_description.txt). Runs on any thread: it knows nothing but bytes. */
import { SvcError } from '../errors/index.ts'

const LITERAL = 0
const COPY_1 = 1
const COPY_2 = 2
/** Copies go by words and may write so many bytes beyond their end, which the next element overwrites. */
export const SLACK = 16
/** Literals and copies of at least so many bytes are left to the engine's own copying (block.bench.ts) ... */
const LONG = 128
/** ... but for copies in shared memory, which it does far slower than elsewhere. */
const NEVER = 0x7fffffff

/** The length that a block says it has when decoded, -1 when it does not begin with one. */
export function snappyLength(bytes: Uint8Array): number {
  let length = 0
  for (let i = 0; i < 5 && i < bytes.length; i++) {
    length += (bytes[i] & 0x7f) * 2 ** (7 * i)
    if (bytes[i] < 0x80) return length < 2 ** 32 ? length : -1
  }
  return -1
}

/** The same for a block that is about to be decoded. @throws BAD_REQUEST when it names none, or one that it cannot hold. */
export function checkedLength(block: Uint8Array): number {
  const length = snappyLength(block)
  if (length < 0) throw corrupt('it does not begin with a length', 0)
  // A copy makes at most 64 bytes of 2 (of a literal's byte comes one).
  if (length > block.length * 32) throw corrupt(`it names a length of ${length} bytes, which ${block.length} cannot hold`, 0)
  return length
}

/** Decodes the elements of `block` into out[0, length). @param view of `out`, which has SLACK bytes more. @throws BAD_REQUEST. */
export function fill(block: Uint8Array, out: Uint8Array, view: DataView, length: number): void {
  const source = new DataView(block.buffer, block.byteOffset, block.length)
  const end = block.length
  const long = out.buffer instanceof SharedArrayBuffer ? NEVER : LONG
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
        if (at + bytes > end) throw corrupt('it ends in the middle of a length', at)
        size = 1
        for (let i = 0; i < bytes; i++) size += block[at + i] * 2 ** (8 * i)
        at += bytes
      }
      if (size > end - at || size > length - to) throw corrupt('a literal is longer than what is left', at)
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
      if (at + 2 > end) throw corrupt('it ends in the middle of a copy', at)
      size = (tag >>> 2) + 1
      back = source.getUint16(at, true)
      at += 2
      // Encoders cut a long match into copies of at most 64 bytes: make it whole.
      while (at + 2 < end && (block[at] & 3) === COPY_2 && source.getUint16(at + 1, true) === back) {
        size += (block[at] >>> 2) + 1
        at += 3
      }
    } else if (kind === COPY_1) {
      if (at >= end) throw corrupt('it ends in the middle of a copy', at)
      size = ((tag >>> 2) & 7) + 4
      back = ((tag & 0xe0) << 3) | block[at++]
    } else {
      if (at + 4 > end) throw corrupt('it ends in the middle of a copy', at)
      size = (tag >>> 2) + 1
      back = source.getUint32(at, true)
      at += 4
    }
    if (back === 0 || back > to || size > length - to) throw corrupt('a copy reaches out of what there is', at)
    const stop = to + size
    let from = to - back
    if (size >= long && back >= size) out.copyWithin(to, from, from + size)
    else if (back >= 16) {
      do {
        // Two words of 64 bits: they stay in registers, no BigInt is made of them once this is compiled.
        const first = view.getBigInt64(from, true)
        const second = view.getBigInt64(from + 8, true)
        view.setBigInt64(to, first, true)
        view.setBigInt64(to + 8, second, true)
        to += 16
        from += 16
      } while (to < stop)
    } else if (back >= 4) for (; to < stop; to += 4, from += 4) view.setInt32(to, view.getInt32(from, true), true)
    else for (; to < stop; to++, from++) out[to] = out[from]
    to = stop
  }
  if (to !== length) throw corrupt(`it has ${to} bytes, not the ${length} it names`, at)
}

function corrupt(reason: string, at: number): SvcError {
  return new SvcError('BAD_REQUEST', `cannot decompress the body as snappy (block format): ${reason}, at byte ${at}`)
}
