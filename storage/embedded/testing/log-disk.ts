/**
 * A directory of log files on a disk that forgets. Bytes written, bytes synced and directory entries synced are three states: a power cut keeps any
 * subset, by sector, of what was not synced. A failed sync leaves pages that are read as before, count as clean, and may not be on the disk.
 *
 * Calls with a callback end when the test runs them (`step`), in any order; their effect on the page cache is there at once, as the kernel's is.
 */
import { basename } from 'node:path'
import type { Random } from 'svcdb/lib/random'
import type { LogFileSystem } from '../../common/log/file-system.ts'
import type { Timers } from '../../common/timers.ts'

const SECTOR = 512
/** Turns of the microtask queue after which a promise that nothing waits for is given up. */
const MAX_IDLE = 1000

export const failure = (code: string): Error => Object.assign(new Error(code), { code })

/** A write, or a truncation. */
type Op = { at: number; bytes: Uint8Array } | { length: number }

class LogFile {
  /** What a reader sees. */
  seen: Uint8Array = new Uint8Array(0)
  /** What is on the disk for sure. */
  private disk: Uint8Array = new Uint8Array(0)
  /** What a reader saw before `ops`. */
  private before: Uint8Array = new Uint8Array(0)
  /** What no sync has confirmed. */
  private ops: Op[] = []
  /** How many ops there were before those. */
  private first = 0

  static of(bytes: Uint8Array): LogFile {
    const file = new LogFile()
    file.seen = bytes
    file.before = bytes
    file.disk = bytes
    return file
  }

  change(op: Op): void {
    this.ops.push(op)
    this.seen = applied(this.seen, op)
  }

  get changes(): number {
    return this.first + this.ops.length
  }

  /** @param changes those that were there when the sync began. */
  synced(changes: number, ok: boolean, random: Random): void {
    const count = changes - this.first
    if (count <= 0) return
    this.disk = this.image(count, () => ok || random() >= 0.5)
    for (const op of this.ops.splice(0, count)) this.before = applied(this.before, op)
    this.first = changes
  }

  /** What a power cut may leave. */
  left(random: Random): Uint8Array {
    const count = Math.floor(random() * (this.ops.length + 1))
    const kept = (): boolean => random() < 0.5
    if (count === 0) return this.disk
    // The size is not always that of a whole write.
    const [before, after] = [this.image(count - 1, kept), this.image(count, kept)]
    return random() < 0.5 || after.length < before.length ? after : sized(after, before.length + Math.floor(random() * (after.length - before.length + 1)))
  }

  /** The disk after the first `count` ops, of whose sectors only those are written that `kept` lets through. */
  private image(count: number, kept: () => boolean): Uint8Array {
    let { disk, before: seen } = this
    for (const op of this.ops.slice(0, count)) {
      seen = applied(seen, op)
      if ('length' in op) {
        disk = sized(disk, op.length)
        continue
      }
      const end = op.at + op.bytes.length
      disk = sized(disk, Math.max(disk.length, end))
      for (let sector = op.at - (op.at % SECTOR); sector < end; sector += SECTOR) if (kept()) disk.set(seen.subarray(sector, sector + SECTOR), sector)
    }
    return disk
  }
}

function sized(bytes: Uint8Array, length: number): Uint8Array {
  const copy = new Uint8Array(length)
  copy.set(bytes.subarray(0, length))
  return copy
}

function applied(bytes: Uint8Array, op: Op): Uint8Array {
  if ('length' in op) return sized(bytes, op.length)
  const changed = sized(bytes, Math.max(bytes.length, op.at + op.bytes.length))
  changed.set(op.bytes, op.at)
  return changed
}

interface Open {
  name: string
  file: LogFile | undefined
}

export class LogDisk {
  /** Asked before each call. @returns what it fails with. */
  fault: (call: keyof LogFileSystem, name: string) => Error | undefined = () => undefined
  /** Calls of the interval. */
  tick: () => void = () => {}
  private names = new Map<string, LogFile>()
  private durable = new Map<string, LogFile>()
  private renamed: { name: string; file: LogFile | undefined }[] = []
  private readonly open = new Map<number, Open>()
  private nextFd = 3
  private tasks: (() => void)[] = []
  private readonly random: Random

  constructor(random: Random) {
    this.random = random
  }

  /** Runs one thing that waits, or the newest. @returns whether there was one. */
  step(newest = false): boolean {
    const [task] = this.tasks.splice(newest ? -1 : Math.floor(this.random() * this.tasks.length), 1)
    task?.()
    return task !== undefined
  }

  /** Runs everything that waits, and what comes of it, until the promise has settled. */
  async run<T>(promise: Promise<T>): Promise<T> {
    let settled = false
    const done = promise.finally(() => {
      settled = true
    })
    done.catch(() => {})
    for (let idle = 0; !settled; await Promise.resolve()) {
      idle = this.step() ? 0 : idle + 1
      if (idle > MAX_IDLE) throw new Error('it waits for something that nobody does')
    }
    return done
  }

  /** The process is gone, what it wrote is not. */
  kill(): void {
    this.tasks = []
    this.open.clear()
    this.tick = () => {}
  }

  powerCut(): void {
    this.kill()
    for (const { name, file } of this.renamed) if (this.random() >= 0.5) named(this.durable, name, file)
    this.names = new Map([...this.durable].map(([name, file]) => [name, LogFile.of(file.left(this.random))]))
    this.durable = new Map(this.names)
    this.renamed = []
  }

  /** Names and bytes of the files as they are read. */
  get files(): ReadonlyMap<string, Uint8Array> {
    return new Map([...this.names].map(([name, { seen }]) => [name, seen]))
  }

  /** Puts a file there, durable. */
  put(name: string, bytes: Uint8Array): void {
    const file = LogFile.of(bytes)
    this.names.set(name, file)
    this.durable.set(name, file)
  }

  readonly timers: Timers = {
    setTimeout: () => never(),
    clearTimeout: () => never(),
    setInterval: (callback) => {
      this.tick = callback
      const timer = { unref: () => timer }
      return timer
    },
    clearInterval: () => {
      this.tick = () => {}
    },
    setImmediate: (callback) => this.tasks.push(callback),
    sleep: () => never(),
    monotonic: () => never(),
  }

  readonly fs: LogFileSystem = {
    openSync: (path, flags) => {
      const name = basename(path)
      this.check('openSync', name)
      if (/\.(wal|queue)$/.test(name)) {
        if (flags === 'wx') {
          if (this.names.has(name)) throw failure('EEXIST')
          this.rename(name, new LogFile())
        }
        if (!this.names.has(name)) throw failure('ENOENT')
      }
      const fd = this.nextFd++
      this.open.set(fd, { name, file: this.names.get(name) })
      return fd
    },
    closeSync: (fd) => {
      const { name } = this.of(fd)
      this.open.delete(fd)
      this.check('closeSync', name)
    },
    writeSync: (fd, bytes) => {
      const { name, file } = this.of(fd)
      this.check('writeSync', name)
      file?.change({ at: 0, bytes: bytes.slice() })
      return bytes.length
    },
    fsyncSync: (fd) => {
      const { name, file } = this.of(fd)
      const error = this.fault('fsyncSync', name)
      if (file !== undefined) file.synced(file.changes, error === undefined, this.random)
      else if (error === undefined) {
        for (const entry of this.renamed) named(this.durable, entry.name, entry.file)
        this.renamed = []
      }
      if (error !== undefined) throw error
    },
    readdirSync: () => [...this.names.keys()],
    readFileSync: (path) => {
      this.check('readFileSync', basename(path))
      return (this.names.get(basename(path)) ?? never()).seen.slice()
    },
    unlinkSync: (path) => {
      this.check('unlinkSync', basename(path))
      this.rename(basename(path), undefined)
    },
    truncateSync: (path, length) => {
      this.check('truncateSync', basename(path))
      this.names.get(basename(path))?.change({ length })
    },
    write: (fd, bytes, offset, length, position, done) => {
      const { name, file } = this.of(fd)
      const error = this.fault('write', name)
      const part = error === undefined && this.random() < 0.8 ? length : this.part(position, length)
      const taken = part === 0 && error === undefined ? length : part
      if (taken > 0) file?.change({ at: position, bytes: bytes.slice(offset, offset + taken) })
      this.tasks.push(() => done(error ?? null, taken))
    },
    fdatasync: (fd, done) => {
      const { name, file } = this.of(fd)
      const changes = file?.changes ?? 0
      const error = this.fault('fdatasync', name)
      this.tasks.push(() => {
        if (!this.open.has(fd)) return done(failure('EBADF'))
        file?.synced(changes, error === undefined, this.random)
        done(error ?? null)
      })
    },
    ftruncate: (fd, length, done) => {
      const { name, file } = this.of(fd)
      const error = this.fault('ftruncate', name)
      if (error === undefined) file?.change({ length })
      this.tasks.push(() => done(error ?? null))
    },
  }

  private of(fd: number): Open {
    const found = this.open.get(fd)
    if (found === undefined) throw failure('EBADF')
    return found
  }

  /** What a disk that fails, and sometimes one that does not, takes of a write: it stops between two sectors, because the kernel copies by pages. */
  private part(position: number, length: number): number {
    const end = position + Math.floor(this.random() * length)
    return Math.max(0, (this.random() < 0.5 ? end : end - (end % SECTOR)) - position)
  }

  private check(call: keyof LogFileSystem, name: string): void {
    const error = this.fault(call, name)
    if (error !== undefined) throw error
  }

  private rename(name: string, file: LogFile | undefined): void {
    named(this.names, name, file)
    this.renamed.push({ name, file })
  }
}

function named(names: Map<string, LogFile>, name: string, file: LogFile | undefined): void {
  if (file === undefined) names.delete(name)
  else names.set(name, file)
}

function never(): never {
  throw new Error('the log does not call this')
}
