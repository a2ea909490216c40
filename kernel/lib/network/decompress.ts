/** Bodies and messages that clients have compressed, off the main thread and never beyond a limit. */
import { promisify } from 'node:util'
import { gunzip, inflate, inflateRaw, zstdDecompress } from 'node:zlib'
import { SvcError } from '../errors/index.ts'
import { OwnerQueue } from '../event-loop/index.ts'

/** Deflate cannot expand further than this (zlib technical details); a larger size in a gzip trailer is not believed. */
const MAX_EXPANSION = 1032

/** At one time, of all listeners: threads of the pool are left for the disk, which each write waits for. There are four at least. */
const MAX_AT_ONCE = 3
/** Of one zstd body, each some 0.1 ms of work: encoders that write several have megabytes in each. */
const MAX_FRAMES = 1000
/** Of frames behind the first: what a chunk takes is taken for each. */
const FRAME_CHUNK = 262_144

const decoders = { gunzip: promisify(gunzip), inflate: promisify(inflate), inflateRaw: promisify(inflateRaw) }
const unzstd = promisify<Buffer, object, { buffer: Buffer; engine: { bytesWritten: number } }>(zstdDecompress as never)

/** How large a body may be. */
export interface BodyLimit {
  /** Before and after decompression. */
  bytes: number
  /** The key that sets it, for the message. */
  setting: string
}

/** Whose body is decompressed, and when it is not worth while any more. */
export interface DecompressOptions {
  /** The key that sets the limit, for the message; default server.max_body_size. */
  setting?: string
  /** Whose body it is: a namespace, or what stands for one caller. Owners take turns. */
  owner?: unknown
  /** Asked when its turn has come: why nobody waits for it any more. */
  ended?: () => Error | undefined
}

/** @param limit bytes, decompressed. @throws PAYLOAD_TOO_LARGE, UNSUPPORTED_MEDIA_TYPE, BAD_REQUEST, what `ended` returns. */
export async function decompress(bytes: Buffer, encoding: string, limit: number, options: DecompressOptions = {}): Promise<Buffer> {
  const { setting = 'server.max_body_size', owner, ended } = options
  if (bytes.length === 0) return bytes
  return inTurn(owner, async () => {
    const why = ended?.()
    if (why !== undefined) throw why
    return decompressNow(bytes, encoding, limit, setting)
  })
}

let running = 0
const waiting = new OwnerQueue<() => void, unknown>()

async function inTurn<T>(owner: unknown, work: () => Promise<T>): Promise<T> {
  if (running === MAX_AT_ONCE) await new Promise<void>((resolve) => waiting.push(owner, resolve))
  else running++
  try {
    return await work()
  } finally {
    const next = waiting.shift()
    if (next === undefined) running--
    else next()
  }
}

async function decompressNow(bytes: Buffer, encoding: string, limit: number, setting: string): Promise<Buffer> {
  const options = { maxOutputLength: limit, chunkSize: outputHint(bytes, encoding, limit) }
  try {
    switch (encoding) {
      case 'gzip':
      case 'x-gzip':
        return (await decoders.gunzip(bytes, options)) as Buffer
      case 'deflate':
        // RFC 9110 means zlib's frame by "deflate"; some clients send the bare stream.
        return (await ((bytes[0] & 0x0f) === 8 && bytes.length > 1 && bytes.readUInt16BE(0) % 31 === 0 ? decoders.inflate : decoders.inflateRaw)(
          bytes,
          options,
        )) as Buffer
      case 'zstd':
        return await allFrames(bytes, options.chunkSize, { bytes: limit, setting })
    }
  } catch (error) {
    if (error instanceof SvcError) throw error
    if ((error as NodeJS.ErrnoException).code === 'ERR_BUFFER_TOO_LARGE') throw tooLarge({ bytes: limit, setting })
    throw new SvcError('BAD_REQUEST', `cannot decompress the body as ${encoding}: ${causeOf(error as NodeJS.ErrnoException)}`, { cause: error })
  }
  throw new SvcError('UNSUPPORTED_MEDIA_TYPE', `cannot read a body of Content-Encoding "${encoding}": use gzip, deflate, zstd or identity`)
}

/** The library's own texts are about its tables: of what a sender can mend, they say only these. */
function causeOf({ code = '', message }: NodeJS.ErrnoException): string {
  if (code === 'Z_BUF_ERROR') return 'it ends early; send it whole'
  if (code === 'ZSTD_error_dictionary_wrong') return 'it was compressed with a dictionary; compress it without one'
  if (code === 'ZSTD_error_frameParameter_windowTooLarge') return 'it needs too large a window; compress it with a smaller one'
  if (code === 'ZSTD_error_prefix_unknown' || WRONG_START.test(message))
    return 'it does not begin as such data do; name in Content-Encoding what it is compressed with'
  return 'the compressed data are damaged; send it again'
}

const WRONG_START = /header check|compression method|header flags/

/** A zstd body is one frame or several (RFC 8878, section 3.1); Node.js stops behind the first. */
async function allFrames(bytes: Buffer, firstChunk: number, limit: BodyLimit): Promise<Buffer> {
  const parts: Buffer[] = []
  let left = limit.bytes
  for (let at = 0; at < bytes.length; ) {
    if (parts.length === MAX_FRAMES) throw new SvcError('BAD_REQUEST', `cannot decompress the body as zstd: it has more than ${MAX_FRAMES} frames`)
    const chunkSize = at === 0 ? firstChunk : Math.min(firstChunk, FRAME_CHUNK)
    const { buffer, engine } = await unzstd(bytes.subarray(at), { maxOutputLength: Math.max(1, left), chunkSize, info: true })
    left -= buffer.length
    if (left < 0) throw tooLarge(limit)
    at += engine.bytesWritten
    parts.push(buffer)
  }
  return parts.length === 1 ? parts[0] : Buffer.concat(parts)
}

/** One output chunk for the whole body means one job in the thread pool. A gzip stream ends with its length modulo 2^32. */
function outputHint(bytes: Buffer, encoding: string, limit: number): number {
  const guess = encoding.endsWith('gzip') && bytes.length >= 18 ? bytes.readUInt32LE(bytes.length - 4) + 1 : bytes.length * 8
  return Math.max(1024, Math.min(guess, limit + 1, bytes.length * MAX_EXPANSION))
}

/** The error for what exceeds a limit. */
export function tooLarge({ bytes, setting }: BodyLimit): SvcError {
  return new SvcError('PAYLOAD_TOO_LARGE', `the body is larger than ${bytes} bytes; send less at once or raise ${setting}`)
}
