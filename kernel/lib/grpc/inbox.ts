/**
 * The messages of one call as they arrive: frames of a flag, a length and the message (gRPC over HTTP/2, "Length-Prefixed-Message").
 * While a message waits to be taken the stream is paused, so that a client is held back by HTTP/2's flow control. Nothing is reserved for a
 * message before its bytes are there. What arrives is copied: it lies in the 64 KiB that the socket received at once, all of which would be kept
 * with a part of them, and a client may send anything beside its message.
 */
import type { ServerHttp2Stream } from 'node:http2'
import { SvcError } from '../errors/index.ts'
import { countShortLived } from '../heap/index.ts'
import { decompress } from '../network/index.ts'
import { GrpcStatusError, UNIMPLEMENTED } from './status.ts'

export const ACCEPTED_ENCODINGS = 'identity,gzip,deflate,zstd'
const HEADER_BYTES = 5
/** Parts below this are gathered, as each by itself costs some hundred bytes: frames of HTTP/2 may have a single one. */
const SMALL_BYTES = 4096
const GATHER_BYTES = 16_384
/** What one call may take before others get their turn: a window full of tiny messages would be a second of work. */
const TURN_MESSAGES = 128
const TURN_BYTES = 1_048_576

export interface InboxOptions {
  /** Bytes of one message, before and after decompression. */
  maxBytes: number
  /** The key to name when a message is larger; undefined = none raises it. */
  setting: string | undefined
  /** Of the request's grpc-encoding. */
  encoding: string
  /** Bytes more, or less, are held for messages that are not done with. */
  hold(bytes: number): void
  /** Bytes that the method has begun to keep since it was asked last. */
  kept(): number
}

interface Frame {
  compressed: boolean
  bytes: Buffer
}

export class Inbox {
  private readonly stream: ServerHttp2Stream
  private readonly options: InboxOptions
  private readonly ready: Frame[] = []
  private wake: (() => void) | undefined
  private failure: Error | undefined
  /** All was received. */
  ended = false
  private readonly header = Buffer.alloc(HEADER_BYTES)
  private headerLength = 0
  private chunks: Buffer[] = []
  private missing = 0
  /** Small parts, the last of `chunks` once it is full. */
  private gathered: Buffer | undefined
  private gatheredLength = 0
  /** Of this turn. */
  private taken = 0
  private takenBytes = 0

  constructor(stream: ServerHttp2Stream, options: InboxOptions) {
    this.stream = stream
    this.options = options
  }

  /** Begins to read; before it the client is held back. */
  open(): void {
    const { stream } = this
    stream.on('data', (chunk: Buffer) => {
      countShortLived(chunk.length)
      if (this.failure !== undefined) return
      try {
        this.take(chunk)
      } catch (error) {
        this.fail(error as Error)
      }
    })
    stream.on('end', () => {
      // A client that cancels the call, or goes away, ends the stream as well: that is no end of its messages.
      if (stream.aborted) return
      this.ended = true
      if (this.headerLength > 0) this.fail(new SvcError('BAD_REQUEST', 'cannot read the message: the call ends in the middle of it'))
      this.notify()
    })
  }

  /** Whoever waits for a message is told that none will come. */
  fail(error: Error): void {
    this.failure ??= error
    this.ready.length = 0
    this.chunks = []
    this.gathered = undefined
    // A stream whose input is not read to its end is kept, closed or not, for as long as its connection.
    if (!this.ended) this.stream.resume()
    this.notify()
  }

  /** The client is what it waits for: the rest of a message, the next one, or word that there is none. */
  get waits(): boolean {
    return this.wake !== undefined || (this.headerLength > 0 && this.ready.length === 0)
  }

  /** A message of so many bytes is not used any more. */
  done(bytes: number): void {
    this.options.hold(this.options.kept() - bytes)
  }

  /** The next message, undefined after the last one. @throws SvcError, GrpcStatusError. */
  async next(): Promise<Uint8Array | undefined> {
    while (this.ready.length === 0) {
      if (this.failure !== undefined) throw this.failure
      if (this.ended) return undefined
      if (this.stream.isPaused()) this.stream.resume()
      await new Promise<void>((resolve) => {
        this.wake = resolve
      })
    }
    const { compressed, bytes } = this.ready.shift() as Frame
    if (++this.taken > TURN_MESSAGES || (this.takenBytes += bytes.length) > TURN_BYTES) {
      this.taken = this.takenBytes = 0
      // What was received is at hand without looking at the network, where the other calls wait.
      await new Promise((resolve) => setImmediate(resolve))
    }
    return compressed ? this.plain(bytes) : bytes
  }

  private notify(): void {
    const { wake } = this
    this.wake = undefined
    wake?.()
  }

  private take(chunk: Buffer): void {
    let at = 0
    while (at < chunk.length) {
      if (this.headerLength < HEADER_BYTES) {
        const read = chunk.copy(this.header, this.headerLength, at, at + HEADER_BYTES - this.headerLength)
        this.headerLength += read
        at += read
        if (this.headerLength < HEADER_BYTES) return
        this.missing = this.header.readUInt32BE(1)
        if (this.missing > this.options.maxBytes) throw this.tooLarge()
      }
      const end = Math.min(chunk.length, at + this.missing)
      const part = chunk.subarray(at, end)
      this.missing -= part.length
      at = end
      this.options.hold(part.length)
      // What is held by all calls may be so much that this one has ended.
      if (this.failure !== undefined) return
      if (this.missing > 0) {
        this.keep(part)
        return
      }
      const whole = this.chunks.length === 0 && this.gathered === undefined ? Buffer.from(part) : this.joined(part)
      this.headerLength = 0
      this.ready.push({ compressed: this.header[0] !== 0, bytes: whole })
    }
    if (this.ready.length > 0) {
      this.stream.pause()
      this.notify()
    }
  }

  private keep(part: Buffer): void {
    if (part.length >= SMALL_BYTES) {
      this.closeGathered()
      this.chunks.push(Buffer.from(part))
      return
    }
    if (this.gathered !== undefined && this.gatheredLength + part.length > GATHER_BYTES) this.closeGathered()
    this.gathered ??= Buffer.allocUnsafeSlow(GATHER_BYTES)
    this.gatheredLength += part.copy(this.gathered, this.gatheredLength)
  }

  private closeGathered(): void {
    if (this.gathered !== undefined) this.chunks.push(this.gathered.subarray(0, this.gatheredLength))
    this.gathered = undefined
    this.gatheredLength = 0
  }

  private joined(last: Buffer): Buffer {
    this.closeGathered()
    const whole = Buffer.concat([...this.chunks, last])
    this.chunks = []
    return whole
  }

  private async plain(bytes: Buffer): Promise<Uint8Array> {
    const { encoding, maxBytes, hold } = this.options
    if (encoding === 'identity')
      throw new SvcError('BAD_REQUEST', 'cannot read the message: it is marked as compressed, and grpc-encoding names no compression')
    try {
      const plain = await decompress(bytes, encoding, maxBytes, { owner: this.stream.session ?? this.stream })
      hold(plain.length - bytes.length)
      if (this.failure !== undefined) throw this.failure
      return plain
    } catch (error) {
      throw error instanceof SvcError && error.code === 'PAYLOAD_TOO_LARGE' ? this.tooLarge() : error
    }
  }

  private tooLarge(): SvcError {
    const { maxBytes, setting } = this.options
    const hint = setting === undefined ? 'no request of this method is' : `send smaller ones or raise ${setting}`
    return new SvcError('PAYLOAD_TOO_LARGE', `cannot read the message: it is larger than ${maxBytes} bytes; ${hint}`)
  }
}

/** The compression of a request's messages. @throws GrpcStatusError UNIMPLEMENTED. */
export function encodingOf(given: string | undefined): string {
  const encoding = given ?? 'identity'
  if (ACCEPTED_ENCODINGS.split(',').includes(encoding)) return encoding
  throw new GrpcStatusError(UNIMPLEMENTED, `cannot read messages of grpc-encoding "${encoding.slice(0, 64)}": this server takes ${ACCEPTED_ENCODINGS}`)
}

/** The message of a call that has one. @throws BAD_REQUEST for none and for more. */
export async function onlyMessage(inbox: Inbox): Promise<Uint8Array> {
  const request = await inbox.next()
  if (request === undefined) throw new SvcError('BAD_REQUEST', 'cannot answer the call: it has no request message')
  if ((await inbox.next()) !== undefined) throw new SvcError('BAD_REQUEST', 'cannot answer the call: it has more than one request message')
  return request
}

/** The messages of a call; each is not used any more when the next one is asked for. */
export async function* messagesOf(inbox: Inbox): AsyncGenerator<Uint8Array> {
  for (let message = await inbox.next(); message !== undefined; message = await inbox.next()) {
    // Its memory may have been handed on by then, which leaves it without a length.
    const { length } = message
    yield message
    inbox.done(length)
  }
}
