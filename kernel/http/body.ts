/**
 * Request bodies as bytes. A body is collected into one buffer of known size, taken from a pool where it pays, and decompressed off the
 * main thread. A pooled buffer belongs to the request until its answer was sent.
 */
import type { IncomingMessage } from 'node:http'
import { SvcError } from '../lib/errors/index.ts'
import { countShortLived } from '../lib/heap/index.ts'
import { type BodyLimit, decompress, tooLarge } from '../lib/network/index.ts'
import { type BodyHold, SMALLEST_COUNTED } from './body-memory.ts'

/** Below this a fresh allocation costs less than the bookkeeping. */
const SMALLEST_POOLED = 64 * 1024
const POOL_BYTES = 64 * 1024 * 1024
/** Large bodies that do not come for so long are not waited for. */
export const REST_MS = 10_000
const NOTHING = Buffer.alloc(0)
/** A buffer has room for so many times what has arrived of a body, and no more than is announced: few copies, and next to nothing for who announces much and sends little. */
const AHEAD = 8
/** Less is not worth a copy. */
const FIRST_BYTES = 16 * 1024

/** Free buffers by power of two. Megabyte bodies otherwise cost a page fault for every 4 KiB, at every request. */
export class BodyPool {
  private readonly free = new Map<number, Buffer[]>()
  private bytes = 0
  private taken = false

  take(length: number): Buffer {
    if (length < SMALLEST_POOLED) return Buffer.allocUnsafe(length)
    return this.spare(length) ?? Buffer.allocUnsafeSlow(sizeFor(length))
  }

  /** One that is free; undefined where there is none. */
  spare(length: number): Buffer | undefined {
    if (length < SMALLEST_POOLED) return undefined
    this.taken = true
    const size = sizeFor(length)
    const buffer = this.free.get(size)?.pop()
    if (buffer !== undefined) this.bytes -= size
    return buffer
  }

  give(buffer: Buffer): void {
    const size = buffer.length
    if (size < SMALLEST_POOLED || this.bytes + size > POOL_BYTES) return
    this.bytes += size
    const list = this.free.get(size)
    if (list === undefined) this.free.set(size, [buffer])
    else list.push(buffer)
  }

  /** Call every `REST_MS`: when none was taken since the last call, those that are free are given up. */
  rest(): void {
    if (!this.taken) this.giveUp()
    this.taken = false
  }

  /** Those that are free. */
  giveUp(): void {
    this.free.clear()
    this.bytes = 0
  }
}

const sizeFor = (length: number): number => 2 ** Math.ceil(Math.log2(length))

interface Body {
  bytes: Buffer
  /** What to give back to the pool when the request is over. */
  pooled: Buffer | undefined
}

/**
 * @param encoded leaves the bytes as they were sent. @param hold counts what is there: what arrives, not what is announced.
 * @throws PAYLOAD_TOO_LARGE, UNSUPPORTED_MEDIA_TYPE, BAD_REQUEST, BACKPRESSURE; the caller gives back what `hold` has then.
 */
export async function readBody(request: IncomingMessage, limit: BodyLimit, pool: BodyPool, encoded = false, hold?: BodyHold): Promise<Body> {
  const encoding = (request.headers['content-encoding'] ?? 'identity').trim().toLowerCase()
  const declared = Number(request.headers['content-length'] ?? -1)
  if (declared > limit.bytes) throw tooLarge(limit)
  const collected = await collect(request, declared, limit, pool, hold)
  if (encoded) return collected
  if (encoding === 'identity' || encoding === '') {
    if (!isGzip(collected.bytes)) return collected
    if (collected.pooled !== undefined) pool.give(collected.pooled)
    throw new SvcError('BAD_REQUEST', 'cannot read the body: it is compressed with gzip, and no header says so; send Content-Encoding: gzip')
  }
  let bytes: Buffer
  try {
    bytes = await decompress(collected.bytes, encoding, limit.bytes, { setting: limit.setting, owner: hold?.namespace, ended: () => hold?.ended() })
    countShortLived(bytes.length)
  } finally {
    if (collected.pooled !== undefined) pool.give(collected.pooled)
  }
  if (hold !== undefined) {
    hold.give(hold.bytes)
    if (bytes.length >= SMALLEST_COUNTED) hold.take(bytes.length)
  }
  return { bytes, pooled: undefined }
}

/** No format that is read here begins so: it is neither text nor a field of protobuf. */
const isGzip = (bytes: Uint8Array): boolean => bytes[0] === 0x1f && bytes[1] === 0x8b

/**
 * One buffer, which grows with what arrives. Chunks are copied: small ones take more memory than their bytes.
 * What is refused for want of memory is let in to its end all the same and kept nowhere: a client that still sends would not read the answer.
 */
function collect(request: IncomingMessage, declared: number, limit: BodyLimit, pool: BodyPool, hold: BodyHold | undefined): Promise<Body> {
  return new Promise((resolve, reject) => {
    let buffer = pool.spare(declared) ?? NOTHING
    let at = 0
    let refusal: unknown
    /** Of no use any more: nothing is copied into it from here on. */
    const leave = (error: unknown): void => {
      refusal = error
      pool.give(buffer)
      buffer = NOTHING
      hold?.give(hold.bytes)
    }
    request.on('data', (chunk: Buffer) => {
      countShortLived(chunk.length)
      const end = at + chunk.length
      if (refusal === undefined && end <= limit.bytes) {
        try {
          count(hold, at, end, declared)
          if (end > buffer.length) buffer = grown(buffer, at, roomFor(end, declared, buffer.length), pool)
          chunk.copy(buffer, at)
        } catch (error) {
          leave(error)
        }
      }
      at = end
      if (at <= limit.bytes) return
      leave(tooLarge(limit))
      reject(refusal)
    })
    request.on('end', () => {
      if (refusal !== undefined) reject(refusal)
      else resolve({ bytes: buffer.subarray(0, at), pooled: buffer.length >= SMALLEST_POOLED ? buffer : undefined })
    })
    whenCut(request, reject)
  })
}

/** Counts bytes as they arrive, of bodies that are large enough: all at once where that shows late. */
function count(hold: BodyHold | undefined, at: number, end: number, declared: number): void {
  if (hold === undefined || Math.max(end, declared) < SMALLEST_COUNTED) return
  hold.take(Math.max(at, declared) < SMALLEST_COUNTED ? end : end - at)
}

/** @param declared negative = not known. */
function roomFor(end: number, declared: number, had: number): number {
  if (declared < end) return Math.max(end, had * 2)
  return Math.min(declared, Math.max(FIRST_BYTES, end * AHEAD))
}

function grown(buffer: Buffer, used: number, length: number, pool: BodyPool): Buffer {
  const larger = pool.take(length)
  buffer.copy(larger, 0, 0, used)
  pool.give(buffer)
  return larger
}

function whenCut(request: IncomingMessage, reject: (error: Error) => void): void {
  const cut = () => reject(new SvcError('BAD_REQUEST', 'the connection closed before the whole body arrived'))
  request.on('error', cut)
  request.on('close', () => {
    if (!request.complete) cut()
  })
}
