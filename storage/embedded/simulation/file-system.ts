/** The engine's FileSystem over the simulated disk, with faults at every call. */
import type { DirectoryEntry, FilePromises, FileStatus, FileSystem, OpenFile } from '../../common/log/file-system.ts'
import type { Descriptor, Disk } from './disk.ts'
import { SystemError } from './disk.ts'
import type { Node } from './inode.ts'
import type { Machine } from './machine.ts'

interface SyncWatch {
  /** A sync of a file begins. @returns what is called when it has succeeded or failed. */
  syncing(path: string): (succeeded: boolean) => void
}

export class SimulatedFiles implements FileSystem {
  readonly promises: FilePromises
  private readonly machine: Machine
  private readonly disk: Disk
  private readonly watch: SyncWatch | undefined
  /** Open handles, by descriptor. */
  private readonly handles = new Set<number>()
  private ended = false

  constructor(machine: Machine, watch?: SyncWatch) {
    this.machine = machine
    this.disk = machine.disk
    this.watch = watch
    this.promises = this.makePromises()
  }

  /** The thread whose files these are has ended: none of its calls goes on, and the runtime closes its handles. */
  end(): void {
    this.ended = true
    if (this.machine.alive) for (const fd of this.handles) this.disk.close(fd)
    this.handles.clear()
  }

  openSync(path: string, flags: string): number {
    return this.machine.now(`openSync ${path}`, () => {
      this.machine.fault('name', 'open', path)
      return this.disk.open(path, flags)
    })
  }

  closeSync(fd: number): void {
    this.machine.now('closeSync', () => this.disk.close(fd))
  }

  writeSync(fd: number, bytes: Uint8Array): number {
    return this.machine.now('writeSync', () => {
      const { path } = this.disk.descriptor(fd, 'write')
      this.machine.fault('write', 'write', path)
      const found = this.disk.descriptors[fd] as Descriptor
      const taken = this.disk.write(this.disk.fileOf(fd, 'write'), found.position, bytes)
      found.position += taken
      return taken
    })
  }

  fsyncSync(fd: number): void {
    this.machine.now('fsyncSync', () => this.sync(fd)())
  }

  readdirSync(path: string): string[] {
    return this.machine.now(`readdirSync ${path}`, () => {
      this.machine.fault('read', 'readdir', path)
      return [...this.disk.directory(path, 'readdir').entries.keys()].sort()
    })
  }

  readFileSync(path: string): Uint8Array {
    return this.machine.now(`readFileSync ${path}`, () => {
      this.machine.fault('read', 'read', path)
      const { content, size } = this.disk.file(path, 'read')
      return content.read(0, size)
    })
  }

  unlinkSync(path: string): void {
    this.machine.now(`unlinkSync ${path}`, () => {
      this.machine.fault('name', 'unlink', path)
      this.disk.unlink(path)
    })
  }

  truncateSync(path: string, length: number): void {
    this.machine.now(`truncateSync ${path}`, () => {
      this.machine.fault('name', 'truncate', path)
      this.disk.resize(this.disk.file(path, 'truncate'), length)
    })
  }

  existsSync(path: string): boolean {
    return this.machine.now(`existsSync ${path}`, () => this.disk.lookup(path) !== undefined)
  }

  mkdirSync(path: string): void {
    this.machine.now(`mkdirSync ${path}`, () => {
      this.machine.fault('name', 'mkdir', path)
      this.mkdirs(path)
    })
  }

  ownerOnlySync(): void {}

  openToOthersSync(): boolean {
    return false
  }

  realpathSync(path: string): string {
    return path
  }

  rmSync(path: string): void {
    this.machine.now(`rmSync ${path}`, () => {
      this.machine.fault('name', 'rm', path)
      this.remove(path)
    })
  }

  sizeSync(path: string): number | undefined {
    return this.machine.now(`statSync ${path}`, () => {
      this.machine.fault('read', 'stat', path)
      return this.disk.lookup(path)?.size
    })
  }

  filesSync(path: string): string[] {
    return this.machine.now(`readdirSync ${path}`, () => {
      this.machine.fault('read', 'readdir', path)
      return this.disk.below(this.disk.directory(path, 'readdir'))
    })
  }

  freeSpace(_path: string): number {
    return Math.min(this.disk.free, 2 ** 40)
  }

  write(fd: number, bytes: Uint8Array, offset: number, length: number, position: number, done: (error: Error | null, written: number) => void): void {
    const { machine } = this
    const effect = (): number => {
      const { path } = this.disk.descriptor(fd, 'write')
      const node = this.disk.fileOf(fd, 'write')
      if (machine.strikes('short')) {
        if (machine.random.chance(0.5)) throw new SystemError(machine.random.pick(['EINTR', 'EAGAIN']), 'write')
        return this.disk.write(node, position, bytes.subarray(offset, offset + machine.random.int(length)))
      }
      // A failed write may have taken a part.
      if (machine.alive) {
        try {
          machine.fault('write', 'write', path)
          if (path.endsWith('.wal')) machine.fault('log', 'write', path)
        } catch (error) {
          if (machine.random.chance(0.5)) this.disk.write(node, position, bytes.subarray(offset, offset + machine.random.int(length)))
          throw error
        }
      }
      const whole = machine.alive ? length : machine.random.between(0, length)
      return this.disk.write(node, position, bytes.subarray(offset, offset + whole))
    }
    machine.later(`write ${fd}`, effect, (error, written) => done(error, written ?? 0))
  }

  fdatasync(fd: number, done: (error: Error | null) => void): void {
    // The descriptor is looked up when a thread gets to the call, and the sync takes its time from there.
    const { machine } = this
    machine.later(
      `fdatasync ${fd}`,
      () => this.going(() => this.sync(fd)),
      (error, finish) => {
        if (error !== null) return done(error)
        machine.later(
          `fdatasync ${fd} ends`,
          () => finish?.(),
          (failed) => done(failed),
        )
      },
    )
  }

  ftruncate(fd: number, length: number, done: (error: Error | null) => void): void {
    const effect = (): void => {
      this.machine.fault('name', 'ftruncate', this.disk.descriptor(fd, 'ftruncate').path)
      this.disk.resize(this.disk.fileOf(fd, 'ftruncate'), length)
    }
    this.machine.later(`ftruncate ${fd}`, effect, (error) => done(error))
  }

  close(fd: number, done: (error?: Error | null) => void): void {
    this.machine.later(
      `close ${fd}`,
      () => this.disk.close(fd),
      (error) => done(error),
    )
  }

  /** An operation of a thread; never answered when that ends before. */
  private promise<T>(name: string, effect: () => T): Promise<T> {
    return new Promise((resolve, reject) =>
      this.machine.later(
        name,
        () => this.going(effect),
        (error, result) => {
          if (this.ended) return
          if (error === null) resolve(result as T)
          else reject(error)
        },
      ),
    )
  }

  private going<T>(effect: () => T): T {
    if (this.ended) throw new SystemError('ECANCELED', 'thread')
    return effect()
  }

  /** Begins a sync. @returns its end. */
  private sync(fd: number): () => void {
    const { node, path } = this.disk.descriptor(fd, 'fsync')
    if (node.kind === 'directory') {
      return () => {
        this.machine.fault('sync', 'fsync', path)
        this.disk.syncDirectory(node)
      }
    }
    const { mark } = node
    const ended = this.watch?.syncing(path)
    return () => {
      try {
        this.machine.fault('sync', 'fsync', path)
      } catch (error) {
        if (this.machine.random.chance(0.5)) node.dropped(mark)
        ended?.(false)
        throw error
      }
      node.synced(mark)
      ended?.(true)
    }
  }

  private mkdirs(path: string): string | undefined {
    const node = this.disk.lookup(path)
    if (node?.kind === 'directory') return undefined
    if (node !== undefined) throw new SystemError('EEXIST', 'mkdir', path)
    const parent = path.slice(0, path.lastIndexOf('/'))
    const first = parent === '' ? undefined : this.mkdirs(parent)
    this.disk.mkdir(path)
    return first ?? path
  }

  private remove(path: string): void {
    const node = this.disk.lookup(path)
    if (node === undefined) return
    if (node.kind === 'file') return this.disk.unlink(path)
    for (const name of [...node.entries.keys()].sort()) this.remove(`${path}/${name}`)
    this.disk.rmdir(path)
  }

  private makePromises(): FilePromises {
    const { machine, disk } = this
    const naming = <T>(call: string, paths: readonly string[], effect: () => T): Promise<T> =>
      this.promise(`${call} ${paths.join(' ')}`, () => {
        machine.fault('name', call, paths[0])
        return effect()
      })
    const reading =
      <T>(call: string, effect: (path: string) => T) =>
      (path: string): Promise<T> =>
        this.promise(`${call} ${path}`, () => {
          machine.fault('read', call, path)
          return effect(path)
        })
    const stat = reading('stat', (path) => statusOf(disk.find(path, 'stat')))
    return {
      open: (path, flags) =>
        naming('open', [path], () => {
          const fd = disk.open(path, flags)
          this.handles.add(fd)
          return fd
        }).then((fd) => this.opened(fd)),
      mkdir: (path, { recursive } = {}) =>
        naming('mkdir', [path], () => {
          if (recursive) return this.mkdirs(path)
          disk.mkdir(path)
          return undefined
        }),
      rename: (from, to) => naming('rename', [from, to], () => disk.rename(from, to)),
      link: (from, to) => naming('link', [from, to], () => disk.link(from, to)),
      unlink: (path) => naming('unlink', [path], () => disk.unlink(path)),
      rm: (path, { force } = {}) =>
        naming('rm', [path], () => {
          if (!force) disk.find(path, 'rm')
          this.remove(path)
        }),
      stat,
      lstat: stat,
      readdir: reading('readdir', (path) => [...disk.directory(path, 'readdir').entries].sort(byName).map(([name, node]) => entryOf(name, node))),
      readFile: reading('readFile', (path) => {
        const { content, size } = disk.file(path, 'read')
        return content.read(0, size)
      }),
      realpath: reading('realpath', (path) => {
        disk.find(path, 'realpath')
        return path
      }),
    }
  }

  private opened(fd: number): OpenFile {
    const { machine, disk } = this
    const { path } = disk.descriptor(fd, 'open')
    return {
      read: (buffer, offset, length, position) =>
        this.promise(`read ${path}`, () => {
          machine.fault('read', 'read', path)
          const bytes = disk.fileOf(fd, 'read').content.read(position, position + length)
          buffer.set(bytes, offset)
          return { bytesRead: bytes.length }
        }),
      write: (bytes, offset, length, position) =>
        this.promise(`write ${path}`, () => {
          if (machine.alive) machine.fault('write', 'write', path)
          return { bytesWritten: disk.write(disk.fileOf(fd, 'write'), position, bytes.subarray(offset, offset + length)) }
        }),
      writeFile: (bytes) =>
        this.promise(`write ${path}`, () => {
          if (machine.alive) machine.fault('write', 'write', path)
          if (disk.write(disk.fileOf(fd, 'write'), 0, bytes) < bytes.length) throw new SystemError('ENOSPC', 'write', path)
        }),
      sync: () =>
        new Promise((resolve, reject) =>
          this.fdatasync(fd, (error) => {
            if (this.ended) return
            if (error === null) resolve()
            else reject(error)
          }),
        ),
      stat: () => this.promise(`fstat ${path}`, () => ({ size: disk.descriptor(fd, 'fstat').node.size })),
      close: () =>
        this.promise(`close ${path}`, () => {
          disk.close(fd)
          this.handles.delete(fd)
        }),
    }
  }
}

const byName = ([a]: [string, Node], [b]: [string, Node]): number => (a < b ? -1 : 1)

function entryOf(name: string, node: Node): DirectoryEntry {
  return { name, isDirectory: () => node.kind === 'directory' }
}

function statusOf(node: Node): FileStatus {
  return { size: node.size, ino: node.id, dev: 1, isFile: () => node.kind === 'file', isDirectory: () => node.kind === 'directory' }
}
