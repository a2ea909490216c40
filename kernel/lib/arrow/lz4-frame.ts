/**
 * LZ4 frames (LZ4 Frame Format 1.6), decoded into a buffer whose size is known. Checksums are not compared: the transport has its own, and the
 * sizes have to match.
 */

const MAGIC = 0x184d2204
const MIN_MATCH = 4

/** @throws RangeError for bytes that are no frame of exactly `size` bytes. */
export function decodeLz4Frame(source: Uint8Array, size: number): Uint8Array<ArrayBuffer> {
  const out = new Uint8Array(size)
  const view = new DataView(source.buffer, source.byteOffset, source.byteLength)
  const flags = view.getUint8(4)
  if (view.getUint32(0, true) !== MAGIC || flags >> 6 !== 1) throw new RangeError('it is no LZ4 frame')
  if ((flags & 1) === 1) throw new RangeError('an LZ4 frame needs a dictionary')
  const blockChecksum = (flags & 16) === 0 ? 0 : 4
  let at = 7 + ((flags & 8) === 0 ? 0 : 8)
  let length = 0
  for (;;) {
    const header = view.getUint32(at, true)
    at += 4
    if (header === 0) break
    const blockSize = header & 0x7fffffff
    if (blockSize > source.length - at) throw new RangeError('an LZ4 block is longer than its frame')
    const block = source.subarray(at, at + blockSize)
    if (header > 0x7fffffff) {
      if (blockSize > size - length) throw new RangeError('an LZ4 frame holds more than it says')
      out.set(block, length)
      length += blockSize
    } else length = decodeBlock(block, out, length)
    at += blockSize + blockChecksum
  }
  if (length !== size) throw new RangeError('an LZ4 frame holds less than it says')
  return out
}

/** @returns the length of the output after the block. */
function decodeBlock(block: Uint8Array, out: Uint8Array, length: number): number {
  for (let at = 0; at < block.length; ) {
    const token = block[at++]
    let literals = token >> 4
    if (literals === 15) {
      let more = 255
      while (more === 255) {
        if (at >= block.length) throw new RangeError('an LZ4 block ends too early')
        literals += more = block[at++]
      }
    }
    if (literals > block.length - at || literals > out.length - length) throw new RangeError('an LZ4 block has too long a literal')
    if (literals < 16) for (let i = 0; i < literals; i++) out[length + i] = block[at + i]
    else out.set(block.subarray(at, at + literals), length)
    at += literals
    length += literals
    if (at === block.length) break
    if (at + 2 > block.length) throw new RangeError('an LZ4 block ends too early')
    const offset = block[at] | (block[at + 1] << 8)
    at += 2
    let match = (token & 15) + MIN_MATCH
    if ((token & 15) === 15) {
      let more = 255
      while (more === 255) {
        if (at >= block.length) throw new RangeError('an LZ4 block ends too early')
        match += more = block[at++]
      }
    }
    if (offset === 0 || offset > length || match > out.length - length) throw new RangeError('an LZ4 block refers to what is not there')
    if (offset >= match && match >= 16) out.copyWithin(length, length - offset, length - offset + match)
    else for (let i = 0; i < match; i++) out[length + i] = out[length + i - offset]
    length += match
  }
  return length
}
