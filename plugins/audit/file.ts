/** The file of the audit log: appends that are there in full or not at all, and what others do to it meanwhile. */
import { open, rename, stat } from 'node:fs/promises'
import { dirname } from 'node:path'
import { SvcError } from 'svcdb/lib/errors'
import { makeDirectory } from 'svcdb/lib/files'

/** The calls that are made, so that tests can put faults in their place. */
export interface Files {
  open(path: string, flags: string, mode?: number): Promise<OpenFile>
  stat(path: string): Promise<FileStatus>
  rename(from: string, to: string): Promise<void>
  mkdir(path: string, options: { mode: number }): Promise<unknown>
}

export interface OpenFile {
  /** At the end of the file. */
  write(bytes: Uint8Array, offset: number, length: number): Promise<{ bytesWritten: number }>
  read(bytes: Uint8Array, offset: number, length: number, position: number): Promise<{ bytesRead: number }>
  datasync(): Promise<void>
  sync(): Promise<void>
  truncate(length: number): Promise<void>
  stat(): Promise<FileStatus>
  close(): Promise<void>
}

export interface FileStatus {
  dev: number
  ino: number
  size: number
  isFile(): boolean
}

export const realFiles: Files = { open, stat, rename, mkdir: makeDirectory }

/** What somebody else did to the file. */
type Change = { event: 'file_replaced' } | { event: 'file_changed'; expected_bytes: string; found_bytes: string }

const LINE_FEED = 0x0a

export class AuditFile {
  readonly path: string
  private readonly files: Files
  private handle: OpenFile | undefined
  private status: FileStatus | undefined
  /** Where the last whole line ends; nothing but a failed append lies behind it. */
  private end = 0
  private failedAppend = false
  private failedSync = false
  /** Others left a line without its end: ours begins a new one. */
  private halfLine = false
  /** Whether something was appended that is not synced. */
  dirty = false

  constructor(path: string, files: Files = realFiles) {
    this.path = path
    this.files = files
  }

  get size(): number {
    return this.end
  }

  /** Opens it, making it and its directory where there is none. @throws CONFIG_ERROR for what is no file. */
  async open(): Promise<void> {
    const { files, path } = this
    await files.mkdir(dirname(path), { mode: 0o700 })
    const handle = await files.open(path, 'a+', 0o600)
    try {
      const status = await handle.stat()
      if (!status.isFile()) throw new SvcError('CONFIG_ERROR', `cannot use audit.path "${path}": it is no file; name one, or one that is not there yet`)
      if (status.size === 0) await syncDirectory(files, dirname(path))
      await this.close()
      this.handle = handle
      this.status = status
      this.end = status.size
      this.failedAppend = false
    } catch (error) {
      await handle.close().catch(() => {})
      throw error
    }
  }

  /** Its last bytes. */
  async tail(length: number): Promise<Buffer> {
    const bytes = Buffer.alloc(Math.min(length, this.end))
    const from = this.end - bytes.length
    for (let done = 0; done < bytes.length; ) {
      const { bytesRead } = await this.opened.read(bytes, done, bytes.length - done, from + done)
      if (bytesRead === 0) throw new Error(`"${this.path}" became shorter while it was read`)
      done += bytesRead
    }
    return bytes
  }

  /** Takes bytes off its end. */
  async cut(bytes: number): Promise<void> {
    await this.opened.truncate(this.end - bytes)
    await this.opened.datasync()
    this.end -= bytes
  }

  /** Leaves it under another name, and goes on with an empty one. */
  async setAside(name: string): Promise<void> {
    await this.files.rename(this.path, name)
    await this.open()
  }

  /** Looks whether it is still the file that it was; goes on with the one that is there now. */
  async lookAfter(): Promise<Change | undefined> {
    if (this.failedAppend) await this.takeBack()
    const found = await this.files.stat(this.path).catch((error: NodeJS.ErrnoException) => {
      if (error.code === 'ENOENT') return undefined
      throw error
    })
    if (found === undefined || found.ino !== this.status?.ino || found.dev !== this.status.dev) {
      // It may have been moved away, and is then to be whole where it is. One that is gone for good must not hinder the new one.
      if (this.dirty) await this.sync().catch(() => {})
      await this.open()
      await this.findHalfLine()
      return { event: 'file_replaced' }
    }
    if (found.size === this.end) return undefined
    const change: Change = { event: 'file_changed', expected_bytes: String(this.end), found_bytes: String(found.size) }
    this.end = found.size
    await this.findHalfLine()
    return change
  }

  /**
   * Lines at its end, on the disk when it resolves if they are to be `durable`. @throws NodeJS.ErrnoException when they are not there: what was
   * written of them is taken back, at once or before the next append.
   */
  async append(lines: Buffer, durable: boolean): Promise<void> {
    if (this.failedAppend) await this.takeBack()
    if (this.failedSync) await this.sync()
    const bytes = this.halfLine ? Buffer.concat([Buffer.of(LINE_FEED), lines]) : lines
    try {
      for (let done = 0; done < bytes.length; ) {
        const { bytesWritten } = await this.opened.write(bytes, done, bytes.length - done)
        if (bytesWritten === 0) throw new Error('the file takes no more bytes')
        done += bytesWritten
      }
      if (durable) await this.opened.datasync()
    } catch (error) {
      this.failedAppend = true
      await this.takeBack().catch(() => {}) // tried again before the next one
      throw error
    }
    this.end += bytes.length
    this.halfLine = false
    this.dirty = !durable
  }

  async sync(): Promise<void> {
    try {
      await this.opened.datasync()
      this.dirty = false
      this.failedSync = false
    } catch (error) {
      this.failedSync = true
      throw error
    }
  }

  /** Safe twice. */
  async close(): Promise<void> {
    const { handle } = this
    this.handle = undefined
    await handle?.close()
  }

  private get opened(): OpenFile {
    if (this.handle === undefined) throw new Error(`"${this.path}" is not open`)
    return this.handle
  }

  private async takeBack(): Promise<void> {
    // Never longer than it is: somebody may have emptied it to make room.
    if ((await this.opened.stat()).size > this.end) await this.opened.truncate(this.end)
    this.failedAppend = false
  }

  private async findHalfLine(): Promise<void> {
    const last = await this.tail(1)
    this.halfLine = last.length === 1 && last[0] !== LINE_FEED
  }
}

async function syncDirectory(files: Files, path: string): Promise<void> {
  const directory = await files.open(path, 'r')
  try {
    await directory.sync()
  } finally {
    await directory.close()
  }
}
