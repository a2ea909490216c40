/** Compressed bodies to messages, in bounded memory. */

import { SvcError } from 'svcdb/lib/errors'
import { decompress } from 'svcdb/lib/network'
import { decodeSnappy, type SlotMemory, SnappyBlockDecoder, SnappyThread, snappyLength } from 'svcdb/lib/snappy'
import { encodingOf } from './content.ts'

/** Too large for the thread's slots, and too long for the main thread: the library's thread pool does it, in memory that it takes anew. */
const LARGE = 4 * 1024 * 1024

/** Who has sent a body. */
interface Sender {
  namespace?: string
  /** Why nobody waits for it any more. */
  ended?(): Error | undefined
  /** Told of memory that is taken for the message alone; what it throws ends the reading. */
  hold?(bytes: number): void
}

export class Payloads {
  private readonly limit: number
  private readonly here = new SnappyBlockDecoder()
  private readonly beside: SnappyThread
  /** `here` is in use. */
  private reading = false

  /** @param limit bytes after decompression. @param slots large snappy blocks that a thread decodes at a time. @param gone told when that thread fails. */
  constructor(limit: number, slots: number, gone: (error: Error) => void) {
    this.limit = limit
    this.beside = new SnappyThread(slots, gone)
  }

  /** Where large messages lie, once there is such a memory. */
  get memory(): SlotMemory | undefined {
    return this.beside.memory
  }

  /**
   * Snappy, zstd or gzip, told apart by their bytes and not by the header: vmagent has sent zstd blocks under the name of snappy.
   * @param read called with the message, which is good until what it returns is settled. @throws PAYLOAD_TOO_LARGE, BAD_REQUEST, what `read` throws.
   * @param inRuns the message is read faster in the memory of large ones: worth a copy.
   */
  async read<T>(body: Buffer, read: (message: Uint8Array) => T | Promise<T>, inRuns = true, sender: Sender = {}): Promise<T> {
    if (body.length === 0) return read(body)
    const encoding = encodingOf(body)
    if (encoding !== 'snappy') {
      const message = await decode(body, encoding, this.limit, sender)
      sender.hold?.(message.length)
      return (inRuns ? this.beside.place(message, read) : undefined) ?? read(message)
    }
    const length = snappyLength(body)
    if (length > this.limit) throw tooLarge(this.limit)
    if (length > LARGE) {
      sender.hold?.(length)
      return read(await decodeSnappy(body, this.limit))
    }
    return this.beside.decode(body, read) ?? this.readHere(body, read, sender)
  }

  /** The buffer that is kept is for one message at a time: while one is being read, others have memory of their own. */
  private async readHere<T>(body: Buffer, read: (message: Uint8Array) => T | Promise<T>, sender: Sender): Promise<T> {
    if (this.reading) {
      sender.hold?.(snappyLength(body))
      return read(new SnappyBlockDecoder().decode(body))
    }
    this.reading = true
    try {
      return await read(this.here.decode(body))
    } finally {
      this.reading = false
    }
  }

  stop(): Promise<void> {
    return this.beside.stop()
  }
}

async function decode(body: Buffer, encoding: 'zstd' | 'gzip', limit: number, { namespace, ended }: Sender): Promise<Uint8Array> {
  try {
    return await decompress(body, encoding, limit, { owner: namespace, ...(ended && { ended }) })
  } catch (error) {
    throw error instanceof SvcError && error.code === 'PAYLOAD_TOO_LARGE' ? tooLarge(limit) : error
  }
}

function tooLarge(limit: number): SvcError {
  return new SvcError(
    'PAYLOAD_TOO_LARGE',
    `cannot read a body of more than ${limit} bytes after decompression; send smaller batches or raise remote_write.max_decompressed_bytes`,
  )
}
