/**
 * Reads Parquet files as our segments are, by the pages that are wanted: one read of the footer, kept by whoever asks, and one of each chunk.
 *
 *     const file = ParquetFile.open(path, bytes, room)        // reads the footer; `footer` says what there is where, with bounds of each chunk
 *     const chunk = file.chunk(group, file.footer.column('usage'))
 *     const validity = decoder.int32(file.footer, group, column, chunk, out)   // column-decoder.ts: values as they are stored, a row each
 *     file.close()
 *
 * `open(path, bytes, room, footer)` takes a footer that is known. What the reader does not understand is a PageFault, and read by DuckDB then.
 */
import { closeSync, openSync, readSync } from 'node:fs'
import { Footer } from './footer.ts'
import { PageFault } from './page-fault.ts'

const MAGIC = 0x31524150
/** Length of the footer and the magic. */
const TAIL = 8
/** Read at once from the end: the footers of small segments whole. */
const GUESS = 16_384

/** Memory for chunks, used again by all files of a reader. */
export class ChunkRoom {
  private bytes = new Uint8Array(1 << 16)

  take(length: number): Uint8Array {
    if (this.bytes.length < length) this.bytes = new Uint8Array(length + (length >> 2))
    return this.bytes.subarray(0, length)
  }
}

export class ParquetFile {
  readonly footer: Footer
  private readonly fd: number
  private readonly room: ChunkRoom

  private constructor(fd: number, footer: Footer, room: ChunkRoom) {
    this.fd = fd
    this.footer = footer
    this.room = room
  }

  /** @param size bytes of the file. @throws PageFault, or what the system says. */
  static open(path: string, size: number, room: ChunkRoom = new ChunkRoom(), footer?: Footer): ParquetFile {
    const fd = openSync(path, 'r')
    try {
      return new ParquetFile(fd, footer ?? readFooter(fd, size), room)
    } catch (error) {
      closeSync(fd)
      throw error
    }
  }

  /** The bytes of a chunk; valid until the next call for any file of the room. @throws PageFault also for column -1. */
  chunk(group: number, column: number): Uint8Array {
    const { footer } = this
    if (column < 0) throw new PageFault('a file does not have the column')
    const chunk = group * footer.columns.length + column
    const length = footer.lengths[chunk]
    const bytes = this.room.take(length)
    read(this.fd, bytes, footer.starts[chunk])
    return bytes
  }

  close(): void {
    closeSync(this.fd)
  }
}

function readFooter(fd: number, size: number): Footer {
  if (size < TAIL + 4) throw new PageFault('a file is too short')
  const guess = new Uint8Array(Math.min(size, GUESS))
  read(fd, guess, size - guess.length)
  const tail = new DataView(guess.buffer, guess.length - TAIL)
  const length = tail.getUint32(0, true)
  if (tail.getUint32(4, true) !== MAGIC || length > size - TAIL - 4) throw new PageFault('a file does not end as a Parquet file')
  if (length + TAIL <= guess.length) return new Footer(guess.subarray(guess.length - TAIL - length, guess.length - TAIL), size)
  const whole = new Uint8Array(length)
  read(fd, whole, size - TAIL - length)
  return new Footer(whole, size)
}

function read(fd: number, bytes: Uint8Array, from: number): void {
  for (let at = 0; at < bytes.length; ) {
    const n = readSync(fd, bytes, at, bytes.length - at, from + at)
    if (n === 0) throw new PageFault('a file is shorter than its footer says')
    at += n
  }
}

/** A footer alone. Undefined for what is not understood; DuckDB's own texts of statistics do not reach as far back as times do. @throws what the system says. */
export function footerOf(path: string, size: number): Footer | undefined {
  try {
    const file = ParquetFile.open(path, size)
    file.close()
    return file.footer
  } catch (error) {
    if (error instanceof PageFault) return undefined
    throw error
  }
}
