/**
 * A file of the simulated disk: what has been written, and what is durable. The changes in between are kept, so that a power cut can leave of each
 * sector what any of them made of it.
 */
import type { Random } from './random.ts'

const SECTOR = 512

interface Change {
  order: number
  offset: number
  /** undefined: the file was cut to, or extended by zeros to, `size`. */
  bytes: Uint8Array | undefined
  size: number
}

let nextChange = 0

/** Bytes that grow; those never written are zeros. */
class Content {
  bytes = new Uint8Array(0)
  size = 0

  write(offset: number, bytes: Uint8Array): void {
    const end = offset + bytes.length
    this.room(end)
    this.bytes.set(bytes, offset)
    if (end > this.size) this.size = end
  }

  resize(size: number): void {
    if (size < this.size) this.bytes.fill(0, size, Math.min(this.size, this.bytes.length))
    this.size = size
  }

  read(from: number, to: number): Uint8Array {
    const out = new Uint8Array(Math.max(0, Math.min(to, this.size) - from))
    out.set(this.bytes.subarray(from, Math.min(to, this.size)))
    return out
  }

  copy(): Content {
    const copy = new Content()
    copy.bytes = this.bytes.slice()
    copy.size = this.size
    return copy
  }

  private room(end: number): void {
    if (end <= this.bytes.length) return
    const grown = new Uint8Array(Math.max(end, this.bytes.length * 2, 256))
    grown.set(this.bytes)
    this.bytes = grown
  }
}

export class FileNode {
  readonly kind = 'file'
  readonly id: number
  names = 0
  content = new Content()
  private durable = new Content()
  private changes: Change[] = []

  constructor(id: number) {
    this.id = id
  }

  get size(): number {
    return this.content.size
  }

  write(offset: number, bytes: Uint8Array): void {
    // A long run of zeros behind the end takes no memory.
    if (offset >= this.content.bytes.length && bytes.length > 4096 && bytes.every((byte) => byte === 0)) {
      if (offset + bytes.length > this.size) this.resize(offset + bytes.length)
      return
    }
    const copy = bytes.slice()
    this.content.write(offset, copy)
    this.changes.push({ order: nextChange++, offset, bytes: copy, size: offset + copy.length })
  }

  resize(size: number): void {
    this.content.resize(size)
    this.changes.push({ order: nextChange++, offset: 0, bytes: undefined, size })
  }

  /** What a sync that begins now makes durable. */
  get mark(): number {
    return nextChange
  }

  /** A sync that began at the mark has ended. */
  synced(mark: number): void {
    this.changes = this.changes.filter((change) => {
      if (change.order >= mark) return true
      make(this.durable, change)
      return false
    })
  }

  /** A sync has failed: what it was to write may count as clean, and is never written. */
  dropped(mark: number): void {
    this.changes = this.changes.filter(({ order }) => order >= mark)
  }

  /** Everything is durable at once. */
  settle(): void {
    this.synced(nextChange)
  }

  powerCut(random: Random): void {
    const { changes } = this
    this.changes = []
    if (changes.length > 0 && !random.chance(0.25)) {
      if (random.chance(0.3)) for (const change of changes.slice(0, random.between(1, changes.length))) make(this.durable, change)
      else this.tear(changes, random)
    }
    this.content = this.durable.copy()
  }

  /** Of each sector what some of the changes made of it, and a size that the file has had. */
  private tear(changes: readonly Change[], random: Random): void {
    const sizes = [this.durable.size]
    const versions = [this.durable.copy()]
    for (const change of changes) {
      const next = versions[versions.length - 1].copy()
      make(next, change)
      versions.push(next)
      sizes.push(next.size)
    }
    const size = random.pick(sizes)
    const torn = new Content()
    torn.size = size
    const keep = random.next()
    for (let at = 0; at < size; at += SECTOR) {
      const version = random.chance(keep) ? versions[versions.length - 1] : random.pick(versions)
      torn.write(at, version.read(at, Math.min(at + SECTOR, size)))
    }
    torn.size = size
    this.durable = torn
  }
}

function make(content: Content, { offset, bytes, size }: Change): void {
  if (bytes === undefined) content.resize(size)
  else content.write(offset, bytes)
}

/** Changes of directories are numbered over the whole disk: a journal keeps their order. */
export interface NameChange {
  directory: DirectoryNode
  name: string
  /** undefined: the name goes. */
  node: Node | undefined
  /** The name that a renamed file had. */
  from: { directory: DirectoryNode; name: string } | undefined
}

export class DirectoryNode {
  readonly kind = 'directory'
  readonly id: number
  readonly parent: DirectoryNode | undefined
  names = 0
  entries = new Map<string, Node>()
  durable = new Map<string, Node>()
  readonly size = 0

  constructor(id: number, parent: DirectoryNode | undefined) {
    this.id = id
    this.parent = parent
  }
}

export type Node = FileNode | DirectoryNode
