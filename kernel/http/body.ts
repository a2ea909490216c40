/**
 * Request bodies as bytes. A body is collected into one buffer of known size, taken from a pool where it pays, and decompressed off the
 * main thread. A pooled buffer belongs to the request until its answer was sent.
 */
import type { IncomingMessage } from 'node:http'
import { SvcError } from '../lib/errors/index.ts'
import { countShortLived } from '../lib/heap/index.ts'
import { type BodyLimit, decompress, tooLarge } from '../lib/network/index.ts'

/** Below this a fresh allocation costs less than the bookkeeping. */
const SMALLEST_POOLED = 64 * 1024
const POOL_BYTES = 64 * 1024 * 1024
/** Large bodies that do not come for so long are not waited for. */
export const REST_MS = 10_000

/** Free buffers by power of two. Megabyte bodies otherwise cost a page fault for every 4 KiB, at every request. */
export class BodyPool {
  private readonly free = new Map<number, Buffer[]>()
  private bytes = 0
  private taken = false

  take(length: number): Buffer {
    if (length < SMALLEST_POOLED) return Buffer.allocUnsafe(length)
    this.taken = true
    const size = 2 ** Math.ceil(Math.log2(length))
    const buffer = this.free.get(size)?.pop()
    if (buffer === undefined) return Buffer.allocUnsafeSlow(size)
    this.bytes -= size
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
    if (!this.taken) {
      this.free.clear()
      this.bytes = 0
    }
    this.taken = false
  }
}

export interface Body {
  bytes: Buffer
  /** What to give back to the pool when the request is over. */
  pooled: Buffer | undefined
}

/** @param encoded leaves the bytes as they were sent. @throws PAYLOAD_TOO_LARGE, UNSUPPORTED_MEDIA_TYPE, BAD_REQUEST. */
export async function readBody(request: IncomingMessage, limit: BodyLimit, pool: BodyPool, encoded = false): Promise<Body> {
  const encoding = (request.headers['content-encoding'] ?? 'identity').trim().toLowerCase()
  const declared = Number(request.headers['content-length'] ?? -1)
  if (declared > limit.bytes) throw tooLarge(limit)
  const collected = declared >= 0 ? await collectKnown(request, declared, pool) : await collectChunks(request, limit)
  if (encoded || encoding === 'identity' || encoding === '') return collected
  try {
    const bytes = await decompress(collected.bytes, encoding, limit.bytes, limit.setting)
    countShortLived(bytes.length)
    return { bytes, pooled: undefined }
  } finally {
    if (collected.pooled !== undefined) pool.give(collected.pooled)
  }
}

function collectKnown(request: IncomingMessage, length: number, pool: BodyPool): Promise<Body> {
  return new Promise((resolve, reject) => {
    const buffer = pool.take(length)
    let at = 0
    request.on('data', (chunk: Buffer) => {
      chunk.copy(buffer, at) // the HTTP parser ends the message at its content-length, so this never overflows
      at += chunk.length
      countShortLived(chunk.length)
    })
    request.on('end', () => resolve({ bytes: buffer.subarray(0, at), pooled: buffer.length >= SMALLEST_POOLED ? buffer : undefined }))
    whenCut(request, reject)
  })
}

function collectChunks(request: IncomingMessage, limit: BodyLimit): Promise<Body> {
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = []
    let length = 0
    request.on('data', (chunk: Buffer) => {
      length += chunk.length
      countShortLived(chunk.length)
      if (length <= limit.bytes) return void chunks.push(chunk)
      chunks.length = 0
      reject(tooLarge(limit))
    })
    request.on('end', () => resolve({ bytes: chunks.length === 1 ? chunks[0] : Buffer.concat(chunks, length), pooled: undefined }))
    whenCut(request, reject)
  })
}

function whenCut(request: IncomingMessage, reject: (error: Error) => void): void {
  const cut = () => reject(new SvcError('BAD_REQUEST', 'the connection closed before the whole body arrived'))
  request.on('error', cut)
  request.on('close', () => {
    if (!request.complete) cut()
  })
}
