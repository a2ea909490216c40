/** LZ4 frames (lz4_Frame_format.md 1.6): independent or linked blocks. Checksums are not looked at: what frames come in has its own. */
import { Turn } from '../event-loop/index.ts'

const MAGIC = 0x184d2204
const VERSION = 0b01
const STORED = 0x8000_0000
const MIN_MATCH = 4
const FIRST_BYTES = 65_536
/** Below, a loop is faster. */
const MIN_COPY = 32
/** Of a block, decoded, at most. */
const BLOCK_BYTES = 4 * 1024 * 1024

/**
 * In turns, between blocks. @param limit bytes, decoded. @param expected so many bytes, if they are known: memory is taken for them at once.
 * @throws RangeError for bytes that are no frame, and for those that have more than `limit` when decoded.
 */
export async function decodeLz4(bytes: Buffer, limit: number, expected = FIRST_BYTES): Promise<Buffer> {
  const out = new Output(limit, Math.min(limit, expected))
  const turn = new Turn()
  for (let at = 0; at < bytes.length; ) {
    if (at + 7 > bytes.length || bytes.readUInt32LE(at) !== MAGIC) throw corrupt('it does not begin as one')
    const flags = bytes[at + 4]
    if (flags >> 6 !== VERSION || (flags & 1) === 1) throw corrupt('it is of another version, or has a dictionary')
    const blockChecksum = (flags & 16) !== 0
    at += 7 + ((flags & 8) !== 0 ? 8 : 0)
    for (;;) {
      if (at + 4 > bytes.length) throw corrupt('it is cut')
      const size = bytes.readUInt32LE(at)
      at += 4
      if (size === 0) break
      const length = size & ~STORED
      const end = at + length
      if (end > bytes.length) throw corrupt('it is cut')
      out.beginBlock()
      if (size >>> 31 === 1) out.append(bytes, at, end)
      else block(bytes, at, end, out)
      at = end + (blockChecksum ? 4 : 0)
      if (turn.isOver) await turn.next()
    }
    if ((flags & 4) !== 0) at += 4
  }
  return out.taken()
}

/** A frame with its blocks as they are: what every reader of frames reads. */
export function storeLz4(bytes: Buffer): Buffer {
  // Independent blocks of up to 4 MiB, without checksums; the last byte of the header is that of its own.
  const parts: Buffer[] = [Buffer.from([0x04, 0x22, 0x4d, 0x18, 0x60, 0x70, 0x73])]
  for (let at = 0; at < bytes.length; at += BLOCK_BYTES) {
    const part = bytes.subarray(at, at + BLOCK_BYTES)
    const head = Buffer.alloc(4)
    head.writeUInt32LE((part.length | STORED) >>> 0)
    parts.push(head, part)
  }
  parts.push(Buffer.alloc(4))
  return Buffer.concat(parts)
}

class Output {
  bytes: Buffer
  size = 0
  private readonly limit: number
  private block = 0

  constructor(limit: number, first: number) {
    this.limit = limit
    this.bytes = Buffer.allocUnsafeSlow(first)
  }

  beginBlock(): void {
    this.block = this.size
  }

  /** Makes room for so many bytes more. */
  reserve(more: number): void {
    const needed = this.size + more
    if (needed > this.limit) throw new RangeError(`cannot decompress an LZ4 frame: it has more than ${this.limit} bytes`)
    if (needed - this.block > BLOCK_BYTES) throw corrupt('a block has more than 4 MiB')
    if (needed <= this.bytes.length) return
    const larger = Buffer.allocUnsafeSlow(Math.max(needed, this.bytes.length * 2))
    this.bytes.copy(larger, 0, 0, this.size)
    this.bytes = larger
  }

  append(from: Buffer, start: number, end: number): void {
    this.reserve(end - start)
    from.copy(this.bytes, this.size, start, end)
    this.size += end - start
  }

  taken(): Buffer {
    return this.bytes.subarray(0, this.size)
  }
}

function block(from: Buffer, start: number, end: number, out: Output): void {
  let at = start
  while (at < end) {
    const token = from[at++]
    let literals = token >> 4
    if (literals === 15) {
      let more = 255
      while (more === 255 && at < end) literals += more = from[at++]
    }
    if (at + literals > end) throw corrupt('literals reach beyond their block')
    out.append(from, at, at + literals)
    at += literals
    if (at === end) return // the last sequence has literals only
    if (at + 2 > end) throw corrupt('it is cut')
    const distance = from[at] | (from[at + 1] << 8)
    at += 2
    let length = (token & 15) + MIN_MATCH
    if ((token & 15) === 15) {
      let more = 255
      while (more === 255 && at < end) length += more = from[at++]
    }
    if (distance === 0 || distance > out.size) throw corrupt('a match begins before it')
    out.reserve(length)
    repeat(out.bytes, out.size, distance, length)
    out.size += length
  }
}

/** Writes what lies `distance` before, also where that reaches into what is written. */
function repeat(bytes: Buffer, start: number, distance: number, length: number): void {
  const [from, end] = [start - distance, start + length]
  if (length < MIN_COPY) for (let to = start; to < end; to++) bytes[to] = bytes[to - distance]
  // What is there is written behind itself, so that it doubles.
  else for (let to = start; to < end; to += to - from) bytes.copyWithin(to, from, Math.min(to, from + end - to))
}

const corrupt = (reason: string): RangeError => new RangeError(`cannot decompress an LZ4 frame: ${reason}`)
