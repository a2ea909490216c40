/** Where lines of the audit log go. One write at a time; a failed one may leave a torn line, which the next begins behind. */
import { write } from 'node:fs'
import { type FileHandle, open, rename, rm } from 'node:fs/promises'
import { dirname } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { makeFolder } from 'svcdb/lib/files'

export interface AuditSink {
  /** Resolves when the operating system has all of it. @throws NodeJS.ErrnoException */
  write(lines: string): Promise<void>
  close(): Promise<void>
}

const STDOUT = 1
/** A pipe whose reader is slow is tried again after this long, */
const AGAIN_MS = 10
/** and given up after so many times. */
const TRIES = 500

/** The standard output. Written in the thread pool: `process.stdout` would hold up the main thread while a pipe is full. */
export class StdoutSink implements AuditSink {
  private torn = false

  async write(lines: string): Promise<void> {
    const bytes = Buffer.from(this.torn ? `\n${lines}` : lines)
    let tries = 0
    for (let at = 0; at < bytes.length; ) {
      try {
        at += await writeSome(bytes.subarray(at))
        tries = 0
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code !== 'EAGAIN' || ++tries > TRIES) {
          this.torn ||= at > 0
          throw error
        }
        await sleep(AGAIN_MS, undefined, { ref: false })
      }
    }
    this.torn = false
  }

  async close(): Promise<void> {}
}

function writeSome(bytes: Buffer): Promise<number> {
  return new Promise((resolve, reject) => write(STDOUT, bytes, (error, written) => (error === null ? resolve(written) : reject(error))))
}

/** A file, readable by its owner only. At `maxBytes` it becomes NAME.1, what was NAME.1 becomes NAME.2, and so on; 0 = never. */
export class FileSink implements AuditSink {
  private readonly path: string
  private readonly maxBytes: number
  private readonly kept: number
  private file: FileHandle | undefined
  private size = 0
  private torn = false

  private constructor(path: string, maxBytes: number, kept: number) {
    this.path = path
    this.maxBytes = maxBytes
    this.kept = kept
  }

  /** Makes the folder where there is none. @throws NodeJS.ErrnoException */
  static async open(path: string, maxBytes: number, kept: number): Promise<FileSink> {
    const sink = new FileSink(path, maxBytes, kept)
    await makeFolder(dirname(path))
    await sink.opened()
    return sink
  }

  async write(lines: string): Promise<void> {
    let file = await this.opened()
    const bytes = Buffer.byteLength(lines)
    if (this.maxBytes > 0 && this.size > 0 && this.size + bytes > this.maxBytes) {
      await this.rotate()
      file = await this.opened()
    }
    const text = this.torn ? `\n${lines}` : lines
    try {
      await file.appendFile(text)
    } catch (error) {
      this.torn = true
      throw error
    }
    this.size += bytes + (this.torn ? 1 : 0)
    this.torn = false
  }

  async close(): Promise<void> {
    const { file } = this
    this.file = undefined
    await file?.close()
  }

  private async opened(): Promise<FileHandle> {
    if (this.file !== undefined) return this.file
    const file = await open(this.path, 'a+', 0o600)
    try {
      const { size } = await file.stat()
      this.size = size
      // A line that a crash or a full disk cut short.
      this.torn = size > 0 && (await file.read(Buffer.alloc(1), 0, 1, size - 1)).buffer[0] !== 0x0a
    } catch (error) {
      await file.close()
      throw error
    }
    this.file = file
    return file
  }

  private async rotate(): Promise<void> {
    await this.close()
    await rm(`${this.path}.${this.kept}`, { force: true })
    for (let i = this.kept - 1; i >= 1; i--) await renameIfThere(`${this.path}.${i}`, `${this.path}.${i + 1}`)
    await renameIfThere(this.path, `${this.path}.1`)
  }
}

async function renameIfThere(from: string, to: string): Promise<void> {
  try {
    await rename(from, to)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error
  }
}
