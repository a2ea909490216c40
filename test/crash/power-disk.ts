/**
 * A disk that forgets. Files and directories exist twice: as the running system sees them, and as the last sync has left them. A power cut keeps
 * what was synced and any subset of the rest, as POSIX allows:
 *
 * - of a file, each 512-byte sector as it was at some moment since its last sync; its size and truncations as of one such moment;
 * - of a directory, any subset of what was done in it since its own last sync. A rename is atomic, and on disk once either directory is synced.
 *
 * Syncing a file does not sync its name, as on no journaling file system but as the standard has it: what survives here survives everywhere.
 */
import type { Random } from '../../storage/conformance/random.ts'

export const SECTOR = 512

type FileChange = { offset: number; bytes: Uint8Array } | { size: number }

/** One image of a file's bytes. */
class Image {
  size = 0
  private buffer = Buffer.alloc(0)

  apply(change: FileChange): void {
    if ('size' in change) this.resize(change.size)
    else {
      const end = change.offset + change.bytes.length
      if (end > this.size) this.resize(end)
      this.buffer.set(change.bytes, change.offset)
    }
  }

  read(from: number, to: number): Buffer {
    return this.buffer.subarray(Math.min(from, this.size), Math.min(to, this.size))
  }

  /** What is added reads as zeros. */
  resize(size: number): void {
    if (size > this.buffer.length) {
      const larger = Buffer.alloc(Math.max(size, 2 * this.buffer.length))
      this.buffer.copy(larger, 0, 0, this.size)
      this.buffer = larger
    } else if (size < this.size) this.buffer.fill(0, size, this.size)
    this.size = size
  }
}

export class FileNode {
  readonly kind = 'file'
  readonly ino: number
  private image = new Image()
  private synced = new Image()
  private pending: FileChange[] = []

  constructor(ino: number) {
    this.ino = ino
  }

  get size(): number {
    return this.image.size
  }

  read(offset: number, length: number): Buffer {
    return this.image.read(offset, offset + length)
  }

  /** @param bytes copied. */
  write(offset: number, bytes: Uint8Array): void {
    this.change({ offset, bytes: new Uint8Array(bytes) })
  }

  truncate(size: number): void {
    this.change({ size })
  }

  sync(): void {
    for (const change of this.pending) this.synced.apply(change)
    this.pending = []
  }

  cut(random: Random): void {
    const { pending, synced } = this
    this.pending = []
    const fate = fateOf(random)
    if (fate === 'all') for (const change of pending) synced.apply(change)
    else if (fate === 'some') this.keepSome(pending, random)
    this.image = new Image()
    this.image.apply({ offset: 0, bytes: synced.read(0, synced.size) })
  }

  private change(change: FileChange): void {
    this.image.apply(change)
    this.pending.push(change)
  }

  private keepSome(pending: readonly FileChange[], random: Random): void {
    const { synced } = this
    const moment = random.below(pending.length + 1)
    let { size } = synced
    let extent = size
    for (const [i, change] of pending.entries()) {
      const end = 'size' in change ? change.size : change.offset + change.bytes.length
      if (i < moment) size = 'size' in change ? end : Math.max(size, end)
      extent = Math.max(extent, end)
    }
    const touching = new Map<number, number[]>()
    for (const [i, change] of pending.entries()) {
      const [from, to] = 'size' in change ? [change.size, extent] : [change.offset, change.offset + change.bytes.length]
      for (let sector = Math.floor(from / SECTOR); sector * SECTOR < to; sector++) {
        const list = touching.get(sector)
        if (list === undefined) touching.set(sector, [i])
        else list.push(i)
      }
    }
    const kept = new Map<number, Buffer>()
    for (const [sector, changes] of touching) {
      // A truncation is metadata: it has happened everywhere or nowhere.
      const isCut = (i: number): boolean => 'size' in pending[i]
      const least = changes.findLastIndex((i) => isCut(i) && i < moment) + 1
      const never = changes.findIndex((i) => isCut(i) && i >= moment)
      const most = never < 0 ? changes.length : never
      const content = Buffer.alloc(SECTOR)
      const start = sector * SECTOR
      synced.read(start, start + SECTOR).copy(content)
      for (const i of changes.slice(0, least + random.below(most - least + 1))) overlay(content, start, pending[i])
      kept.set(sector, content)
    }
    synced.resize(extent)
    for (const [sector, content] of kept) synced.apply({ offset: sector * SECTOR, bytes: content })
    synced.resize(size)
  }
}

function overlay(content: Buffer, start: number, change: FileChange): void {
  if ('size' in change) {
    content.fill(0, Math.max(0, change.size - start))
    return
  }
  const from = Math.max(start, change.offset)
  const to = Math.min(start + SECTOR, change.offset + change.bytes.length)
  content.set(change.bytes.subarray(from - change.offset, to - change.offset), from - start)
}

export interface LinkNode {
  readonly kind: 'link'
  readonly ino: number
  readonly target: string
}

/** Names that change together. */
type Step = { directory: DirectoryNode; name: string; node: Node | undefined }[]

export class DirectoryNode {
  readonly kind = 'directory'
  readonly ino: number
  entries = new Map<string, Node>()
  readonly synced = new Map<string, Node>()
  pending: Step[] = []

  constructor(ino: number) {
    this.ino = ino
  }

  sync(): void {
    for (let step = this.pending[0]; step !== undefined; step = this.pending[0]) commit(step)
  }
}

export type Node = FileNode | LinkNode | DirectoryNode

/** Puts a step on disk, and before it what was done earlier in the directories that it touches. */
function commit(step: Step): void {
  for (const { directory } of step) while (directory.pending.length > 0 && directory.pending[0] !== step) commit(directory.pending[0])
  for (const { directory, name, node } of step) {
    if (directory.pending[0] === step) directory.pending.shift()
    put(directory.synced, name, node)
  }
}

function put(entries: Map<string, Node>, name: string, node: Node | undefined): void {
  if (node === undefined) entries.delete(name)
  else entries.set(name, node)
}

/** Pages reach the disk in all orders; whole files and directories that nothing, or everything, of has reached it are the common cases. */
function fateOf(random: Random): 'none' | 'all' | 'some' {
  const dice = random.below(4)
  return dice === 0 ? 'none' : dice === 1 ? 'all' : 'some'
}

export class PowerDisk {
  readonly root = new DirectoryNode(1)
  private lastIno = 1
  /** Of all directories, oldest first. */
  private steps: Step[] = []

  createFile(directory: DirectoryNode, name: string): FileNode {
    return this.add(directory, name, new FileNode(++this.lastIno))
  }

  createLink(directory: DirectoryNode, name: string, target: string): LinkNode {
    return this.add(directory, name, { kind: 'link', ino: ++this.lastIno, target })
  }

  createDirectory(directory: DirectoryNode, name: string): DirectoryNode {
    return this.add(directory, name, new DirectoryNode(++this.lastIno))
  }

  add<T extends Node>(directory: DirectoryNode, name: string, node: T): T {
    this.step([{ directory, name, node }])
    return node
  }

  remove(directory: DirectoryNode, name: string): void {
    this.step([{ directory, name, node: undefined }])
  }

  rename(from: DirectoryNode, name: string, to: DirectoryNode, newName: string): void {
    const node = from.entries.get(name)
    this.step([
      { directory: from, name, node: undefined },
      { directory: to, name: newName, node },
    ])
  }

  /** The power goes: afterwards the disk holds what it would hold when it comes back. */
  cut(random: Random): void {
    const fates = new Map<DirectoryNode, string>()
    for (const step of this.steps) {
      if (!isPending(step)) continue
      const [{ directory }] = step
      const fate = fates.get(directory) ?? fateOf(random)
      fates.set(directory, fate)
      if (fate === 'none' || (fate === 'some' && random.chance(0.5))) continue
      for (const { directory, name, node } of step) put(directory.synced, name, node)
    }
    this.steps = []
    for (const node of reachable(this.root)) {
      if (node.kind === 'file') node.cut(random)
      else if (node.kind === 'directory') {
        node.pending = []
        node.entries = new Map(node.synced)
      }
    }
  }

  private step(step: Step): void {
    for (const { directory, name, node } of step) {
      put(directory.entries, name, node)
      if (directory.pending.at(-1) !== step) directory.pending.push(step)
    }
    if (this.steps.length > 10_000) this.steps = this.steps.filter(isPending)
    this.steps.push(step)
  }
}

function isPending(step: Step): boolean {
  return step.some(({ directory }) => directory.pending.includes(step))
}

/** All that synced names lead to, each once. */
function reachable(root: DirectoryNode): Set<Node> {
  const found = new Set<Node>([root])
  for (const node of found) if (node.kind === 'directory') for (const child of node.synced.values()) found.add(child)
  return found
}
