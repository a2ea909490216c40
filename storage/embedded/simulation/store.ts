/**
 * The simulated key-value store. A commit is atomic, and durable when it is answered; it may fail before anything has happened, or after. Its file lies
 * on the simulated disk, so that it takes space and can be copied: a list of commits, each whole because the store writes and syncs in one step.
 */
import { constants } from 'node:os'
import type { KeyValueStore } from '../catalog/key-value-store.ts'
import type { FileNode } from './inode.ts'
import type { Machine } from './machine.ts'

const PAGE = 4096
/** What LMDB says once the page that names the newest transaction could not be written. */
const PANIC = -30_795
const HEADER = 4

type Change = [key: string, value: Uint8Array | null]

export class SimulatedStore implements KeyValueStore {
  flushed: Promise<unknown> = Promise.resolve()
  private readonly machine: Machine
  private readonly file: string
  private readonly entries = new Map<string, Uint8Array>()
  private sorted: string[] | undefined
  private end = 0
  private open = true
  private panicked = false
  private gathering: Change[] | undefined

  constructor(machine: Machine, dir: string) {
    this.machine = machine
    this.file = `${dir}/data.mdb`
    machine.scheduler.step(`open store ${dir}`)
    machine.fault('name', 'open', this.file)
    const { disk } = machine
    if (disk.lookup(this.file) === undefined) {
      disk.close(disk.open(this.file, 'wx'))
      disk.settleAll(this.file)
    }
    this.load()
  }

  get(key: string): Uint8Array | undefined {
    return this.entries.get(key)
  }

  getBinaryFast(key: string): Uint8Array | undefined {
    return this.get(key)
  }

  *getKeys(range: { start?: string; end?: string; limit?: number }): Generator<string> {
    for (const { key } of this.getRange(range)) yield key
  }

  *getRange({ start = '', end, limit = Number.POSITIVE_INFINITY }: { start?: string; end?: string; limit?: number }): Generator<{
    key: string
    value: Uint8Array
  }> {
    let left = limit
    for (const key of this.keys()) {
      if (key < start || (end !== undefined && key >= end)) continue
      if (left-- <= 0) return
      yield { key, value: this.entries.get(key) as Uint8Array }
    }
  }

  getStats(): object {
    return { pageSize: PAGE, lastPageNumber: Math.ceil(this.end / PAGE) + 1 }
  }

  batch(body: () => void): Promise<unknown> {
    const changes: Change[] = []
    this.gathering = changes
    try {
      body()
    } finally {
      this.gathering = undefined
    }
    const { machine } = this
    const commit = (): void => {
      if (!this.open) throw new Error('the store is closed')
      if (this.panicked) throw Object.assign(new Error('MDB_PANIC'), { code: PANIC })
      if (machine.alive && machine.strikes('full')) throw Object.assign(new Error('no space'), { code: constants.errno.ENOSPC })
      const failure = machine.alive && machine.strikes('commit') ? machine.random.int(3) : -1
      const { errno } = constants
      if (failure === 0) throw Object.assign(new Error('no space'), { code: errno.ENOSPC })
      if (failure >= 1) machine.grave++
      if (failure === 1) throw Object.assign(new Error('i/o error'), { code: errno.EIO })
      if (failure === 2) {
        // Whether the page that names the transaction was written, nobody knows until the next start.
        this.panicked = true
        if (machine.random.chance(0.5)) this.append(changes)
        throw Object.assign(new Error('i/o error, sync'), { code: errno.EIO })
      }
      this.append(changes)
      for (const [key, value] of changes) {
        if (value === null) this.entries.delete(key)
        else this.entries.set(key, value)
      }
      this.sorted = undefined
    }
    return machine.promise('commit', commit).catch((error: Error) => {
      const commitError = Promise.reject(error)
      commitError.catch(() => {})
      throw Object.assign(new Error('Commit failed (see commitError for details)'), { commitError })
    })
  }

  put(key: string, value: Uint8Array): Promise<boolean> {
    this.gathering?.push([key, Buffer.from(value)])
    return Promise.resolve(true)
  }

  remove(key: string): Promise<boolean> {
    this.gathering?.push([key, null])
    return Promise.resolve(true)
  }

  async backup(dir: string): Promise<void> {
    const { machine } = this
    const { disk } = machine
    const image: Change[] = [...this.entries]
    await machine.promise(`copy store to ${dir}`, () => {
      machine.fault('write', 'copy', dir)
      const fd = disk.open(`${dir}/data.mdb`, 'wx')
      try {
        const bytes = encode(image)
        if (disk.write(disk.fileOf(fd, 'write'), 0, bytes) < bytes.length) throw new Error('No space left on device')
      } finally {
        disk.close(fd)
      }
    })
  }

  async close(): Promise<void> {
    this.open = false
  }

  private keys(): string[] {
    return (this.sorted ??= [...this.entries.keys()].sort())
  }

  private node(): FileNode {
    return this.machine.disk.file(this.file, 'commit')
  }

  private append(changes: readonly Change[]): void {
    const { disk } = this.machine
    const bytes = encode(changes)
    const node = this.node()
    if (this.end + bytes.length - node.size > disk.free) throw Object.assign(new Error('no space'), { code: constants.errno.ENOSPC })
    disk.write(node, this.end, bytes)
    disk.settleAll(this.file)
    this.end += bytes.length
  }

  private load(): void {
    const { content, size } = this.node()
    const bytes = Buffer.from(content.read(0, Math.min(size, content.bytes.length)))
    let at = 0
    const take = (length: number): Buffer => bytes.subarray(at, (at += length))
    while (at + HEADER <= bytes.length) {
      const changes = bytes.readUInt32LE(at)
      if (changes === 0) break
      at += HEADER
      for (let i = 0; i < changes; i++) {
        const key = take(take(HEADER).readUInt32LE(0)).toString()
        const length = take(HEADER).readInt32LE(0)
        if (length < 0) this.entries.delete(key)
        else this.entries.set(key, Buffer.from(take(length)))
      }
      this.end = at
    }
  }
}

/** Number of changes; of each the key's length, the key, the value's length or -1, the value. */
function encode(changes: readonly Change[]): Uint8Array {
  const parts: Uint8Array[] = [number(changes.length)]
  for (const [key, value] of changes) {
    const text = Buffer.from(key)
    parts.push(number(text.length), text, number(value?.length ?? -1))
    if (value !== null) parts.push(value)
  }
  return Buffer.concat(parts)
}

function number(value: number): Buffer {
  const bytes = Buffer.alloc(HEADER)
  bytes.writeInt32LE(value, 0)
  return bytes
}
