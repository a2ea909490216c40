/** Decompression of pages. zstd by node:zlib; frames whose blocks are all stored, as those of well-packed integers are, are read here: starting a decompressor costs more than they do. */
import { zstdDecompressSync } from 'node:zlib'
import { PageFault } from './page-fault.ts'

/** Ids of parquet.thrift. */
const Codec = { NONE: 0, ZSTD: 6, LZ4: 7 } as const

const ZSTD_MAGIC = 0xfd2fb528
const BLOCK_HEADER = 3
const Block = { RAW: 0, RLE: 1 } as const
const MIN_MATCH = 4

/** Memory for pages, used again: what `decompress` gives holds until its next call. */
export class Decompressor {
  private room = new Uint8Array(1 << 16)

  /** @param size bytes of the result. @throws PageFault for other than that, and for codecs it does not know. */
  decompress(codec: number, bytes: Uint8Array, from: number, to: number, size: number): Uint8Array {
    switch (codec) {
      case Codec.NONE:
        if (to - from !== size) throw new PageFault('a page has another size than its header says')
        return bytes.subarray(from, to)
      case Codec.ZSTD:
        return this.zstd(bytes, from, to, size)
      case Codec.LZ4:
        return lz4(bytes, from, to, this.roomFor(size), size)
      default:
        throw new PageFault(`a page is compressed by codec ${codec}`)
    }
  }

  private zstd(bytes: Uint8Array, from: number, to: number, size: number): Uint8Array {
    const stored = this.stored(bytes, from, to, size)
    if (stored !== undefined) return stored
    let out: Uint8Array
    try {
      out = zstdDecompressSync(bytes.subarray(from, to), { maxOutputLength: Math.max(1, size), chunkSize: Math.max(64, Math.min(size, 1 << 20)) })
    } catch (error) {
      throw new PageFault(`a page cannot be decompressed: ${(error as Error).message}`)
    }
    if (out.length !== size) throw new PageFault('a page has another size than its header says')
    return out
  }

  /** A zstd frame without compressed blocks (RFC 8878, 3.1.1); undefined for any other. */
  private stored(bytes: Uint8Array, from: number, to: number, size: number): Uint8Array | undefined {
    if (to - from < 9 || (bytes[from] | (bytes[from + 1] << 8) | (bytes[from + 2] << 16) | (bytes[from + 3] << 24)) !== (ZSTD_MAGIC | 0)) return undefined
    const descriptor = bytes[from + 4]
    const single = (descriptor & 0x20) !== 0
    // Neither a checksum nor a dictionary.
    if ((descriptor & 0x0f) !== 0) return undefined
    const flag = descriptor >> 6
    const sizeBytes = flag === 0 ? (single ? 1 : 0) : 1 << flag
    const first = from + 5 + (single ? 0 : 1) + sizeBytes
    let total = 0
    let blocks = 0
    let at = first
    for (let last = 0; last === 0; blocks++) {
      if (at + BLOCK_HEADER > to) return undefined
      const header = bytes[at] | (bytes[at + 1] << 8) | (bytes[at + 2] << 16)
      last = header & 1
      const type = (header >> 1) & 3
      if (type !== Block.RAW && type !== Block.RLE) return undefined
      total += header >> 3
      at += BLOCK_HEADER + (type === Block.RAW ? header >> 3 : 1)
    }
    if (at !== to || total !== size) return undefined
    if (blocks === 1 && ((bytes[first] >> 1) & 3) === Block.RAW) return bytes.subarray(first + BLOCK_HEADER, to)
    const out = this.roomFor(size)
    for (let block = 0, n = 0, at = first; block < blocks; block++) {
      const header = bytes[at] | (bytes[at + 1] << 8) | (bytes[at + 2] << 16)
      const length = header >> 3
      at += BLOCK_HEADER
      if (((header >> 1) & 3) === Block.RAW) {
        out.set(bytes.subarray(at, at + length), n)
        at += length
      } else out.fill(bytes[at++], n, n + length)
      n += length
    }
    return out
  }

  private roomFor(size: number): Uint8Array {
    if (this.room.length < size) this.room = new Uint8Array(size + (size >> 2))
    return this.room.subarray(0, size)
  }
}

/** A block of LZ4. Format: https://github.com/lz4/lz4/blob/dev/doc/lz4_Block_format.md */
function lz4(bytes: Uint8Array, from: number, to: number, out: Uint8Array, size: number): Uint8Array {
  let at = from
  let n = 0
  const extended = (length: number): number => {
    if (length !== 15) return length
    for (let byte = 255; byte === 255; length += byte) {
      if (at >= to) throw new PageFault('a page ends early')
      byte = bytes[at++]
    }
    return length
  }
  while (at < to) {
    const token = bytes[at++]
    const literals = extended(token >> 4)
    if (literals > to - at || literals > size - n) throw new PageFault('a page ends early')
    for (let i = 0; i < literals; i++) out[n++] = bytes[at++]
    if (at === to) break
    if (to - at < 2) throw new PageFault('a page ends early')
    const offset = bytes[at] | (bytes[at + 1] << 8)
    at += 2
    const length = extended(token & 15) + MIN_MATCH
    if (offset === 0 || offset > n || length > size - n) throw new PageFault('a page repeats what it does not have')
    for (let i = 0; i < length; i++, n++) out[n] = out[n - offset]
  }
  if (n !== size) throw new PageFault('a page has another size than its header says')
  return out
}
