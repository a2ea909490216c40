/**
 * The simulated disk. Bytes written, bytes synced and names synced are three states. A kill -9 leaves what was written; a power cut leaves any part
 * of what was not synced, sector by sector, and of the changes of names a beginning: of the journal, or of each directory's changes.
 *
 * Syncing a directory makes its names durable, those that went elsewhere too, and itself reachable, as journalling file systems do it.
 */
import { DirectoryNode, FileNode, type NameChange, type Node } from './inode.ts'
import type { Random } from './random.ts'

export class SystemError extends Error {
  readonly code: string

  constructor(code: string, call: string, path = '') {
    super(`${code}: simulated, ${call} '${path}'`)
    this.code = code
  }
}

export interface Descriptor {
  node: Node
  path: string
  position: number
}

export class Disk {
  /** Bytes it takes. */
  capacity = Number.POSITIVE_INFINITY
  /** Descriptors by number; the lowest free number is given out. */
  readonly descriptors: (Descriptor | undefined)[] = [undefined, undefined, undefined]
  private readonly random: Random
  private nextId = 1
  private readonly root = new DirectoryNode(0, undefined)
  private journal: NameChange[] = []
  private usedBytes = 0

  constructor(random: Random) {
    this.random = random
  }

  get used(): number {
    return this.usedBytes
  }

  get free(): number {
    return Math.max(0, this.capacity - this.usedBytes)
  }

  /** @throws ENOENT, ENOTDIR. */
  find(path: string, call: string): Node {
    const node = this.lookup(path)
    if (node === undefined) throw new SystemError('ENOENT', call, path)
    return node
  }

  lookup(path: string): Node | undefined {
    let node: Node | undefined = this.root
    for (const name of parts(path)) {
      if (node?.kind !== 'directory') return undefined
      node = node.entries.get(name)
    }
    return node
  }

  file(path: string, call: string): FileNode {
    const node = this.find(path, call)
    if (node.kind !== 'file') throw new SystemError('EISDIR', call, path)
    return node
  }

  directory(path: string, call: string): DirectoryNode {
    const node = this.find(path, call)
    if (node.kind !== 'directory') throw new SystemError('ENOTDIR', call, path)
    return node
  }

  /** @param flags r, r+, wx, w. */
  open(path: string, flags: string): number {
    let node = this.lookup(path)
    if (flags === 'wx' && node !== undefined) throw new SystemError('EEXIST', 'open', path)
    if (node === undefined) {
      if (flags[0] !== 'w') throw new SystemError('ENOENT', 'open', path)
      if (this.free < 1) throw new SystemError('ENOSPC', 'open', path)
      node = new FileNode(this.nextId++)
      this.name(path, node, 'open')
    } else if (flags === 'w' && node.kind === 'file') this.resize(node, 0)
    let fd = 3
    while (this.descriptors[fd] !== undefined) fd++
    this.descriptors[fd] = { node, path, position: 0 }
    return fd
  }

  descriptor(fd: number, call: string): Descriptor {
    const found = this.descriptors[fd]
    if (found === undefined) throw new SystemError('EBADF', call)
    return found
  }

  close(fd: number): void {
    this.descriptor(fd, 'close')
    this.descriptors[fd] = undefined
  }

  fileOf(fd: number, call: string): FileNode {
    const { node, path } = this.descriptor(fd, call)
    if (node.kind !== 'file') throw new SystemError('EISDIR', call, path)
    return node
  }

  /** @returns bytes taken: fewer than given when the disk is full. */
  write(node: FileNode, offset: number, bytes: Uint8Array): number {
    const grows = Math.max(0, offset + bytes.length - node.size)
    const taken = grows <= this.free ? bytes.length : Math.max(0, bytes.length - (grows - this.free))
    if (taken === 0 && bytes.length > 0) throw new SystemError('ENOSPC', 'write')
    const before = node.size
    node.write(offset, bytes.subarray(0, taken))
    if (node.names > 0) this.usedBytes += node.size - before
    return taken
  }

  resize(node: FileNode, size: number): void {
    if (node.names > 0) this.usedBytes += size - node.size
    node.resize(size)
  }

  /** Makes names and what leads to the directory durable. */
  syncDirectory(directory: DirectoryNode): void {
    const reached = new Set<Node>()
    const reach = (from: DirectoryNode): void => {
      for (let at: DirectoryNode | undefined = from; at !== undefined; at = at.parent) reached.add(at)
    }
    const { journal } = this
    reach(directory)
    // Without it, that a name was moved away could come after a newer one of the same name, and take it along.
    const isOf = (change: NameChange): boolean => change.directory === directory || change.from?.directory === directory
    for (const change of journal) if (isOf(change)) reach(change.directory)
    const reaching = journal.flatMap((change, i) => (change.node !== undefined && reached.has(change.node) ? [{ change, i }] : []))
    // With a name that is kept goes what had the name before: its removal must not come after.
    const precedes = (one: NameChange, at: number): boolean =>
      reaching.some(({ change, i }) => at <= i && change.directory === one.directory && change.name === one.name)
    this.journal = journal.filter((change, i) => {
      if (!isOf(change) && !precedes(change, i)) return true
      keep(change)
      return false
    })
  }

  mkdir(path: string): void {
    if (this.lookup(path) !== undefined) throw new SystemError('EEXIST', 'mkdir', path)
    this.name(path, new DirectoryNode(this.nextId++, this.directory(parentOf(path), 'mkdir')), 'mkdir')
  }

  unlink(path: string): void {
    const node = this.find(path, 'unlink')
    if (node.kind === 'directory') throw new SystemError('EISDIR', 'unlink', path)
    this.unname(path, 'unlink')
  }

  rmdir(path: string): void {
    if (this.directory(path, 'rmdir').entries.size > 0) throw new SystemError('ENOTEMPTY', 'rmdir', path)
    this.unname(path, 'rmdir')
  }

  rename(from: string, to: string): void {
    const node = this.find(from, 'rename')
    this.directory(parentOf(to), 'rename')
    const replaced = this.lookup(to)
    if (replaced !== undefined && --replaced.names === 0) this.usedBytes -= replaced.size
    const source = this.directory(parentOf(from), 'rename')
    source.entries.delete(nameOf(from))
    // One change of the journal: a power cut leaves the old name or the new one.
    this.name(to, node, 'rename', { directory: source, name: nameOf(from) })
    node.names--
  }

  link(from: string, to: string): void {
    const node = this.file(from, 'link')
    if (this.lookup(to) !== undefined) throw new SystemError('EEXIST', 'link', to)
    this.name(to, node, 'link')
  }

  /** The machine has lost its power; descriptors are gone. */
  powerCut(): void {
    const { random, journal } = this
    this.journal = []
    if (random.chance(0.5)) for (const change of journal.slice(0, random.int(journal.length + 1))) keep(change)
    else {
      const lengths = new Map<DirectoryNode, number>()
      for (const { directory } of journal) lengths.set(directory, (lengths.get(directory) ?? 0) + 1)
      for (const [directory, length] of lengths) lengths.set(directory, random.int(length + 1))
      for (const change of journal) {
        const left = lengths.get(change.directory) as number
        if (left === 0) continue
        keep(change)
        lengths.set(change.directory, left - 1)
      }
    }
    this.killed()
    this.usedBytes = 0
    const seen = new Set<Node>()
    const visit = (directory: DirectoryNode): void => {
      directory.entries = new Map(directory.durable)
      for (const node of directory.entries.values()) {
        if (!seen.has(node)) {
          seen.add(node)
          node.names = 0
          if (node.kind === 'file') {
            node.powerCut(random)
            this.usedBytes += node.size
          } else visit(node)
        }
        node.names++
      }
    }
    visit(this.root)
  }

  /** The process has ended: its descriptors are gone. */
  killed(): void {
    this.descriptors.length = 3
  }

  /** As a file system does it that has been at rest for long, or a store that syncs for itself. */
  settleAll(path: string): void {
    let node: Node = this.root
    for (const name of parts(path)) {
      const next: Node | undefined = (node as DirectoryNode).entries.get(name)
      if (next === undefined) return
      this.syncDirectory(node as DirectoryNode)
      node = next
    }
    if (node.kind === 'file') node.settle()
  }

  /** Paths of the plain files below a directory, relative to it, in order. */
  below(directory: DirectoryNode, prefix = ''): string[] {
    return [...directory.entries.keys()].sort().flatMap((name) => {
      const node = directory.entries.get(name) as Node
      return node.kind === 'file' ? [prefix + name] : this.below(node, `${prefix}${name}/`)
    })
  }

  private name(path: string, node: Node, call: string, from?: NameChange['from']): void {
    const directory = this.directory(parentOf(path), call)
    const name = nameOf(path)
    directory.entries.set(name, node)
    this.journal.push({ directory, name, node, from })
    if (node.names++ === 0) this.usedBytes += node.size
  }

  private unname(path: string, call: string): void {
    const directory = this.directory(parentOf(path), call)
    const name = nameOf(path)
    const node = directory.entries.get(name)
    if (node === undefined) throw new SystemError('ENOENT', call, path)
    directory.entries.delete(name)
    this.journal.push({ directory, name, node: undefined, from: undefined })
    if (--node.names === 0) this.usedBytes -= node.size
  }
}

function keep({ directory, name, node, from }: NameChange): void {
  from?.directory.durable.delete(from.name)
  if (node === undefined) directory.durable.delete(name)
  else directory.durable.set(name, node)
}

const split = new Map<string, string[]>()

function parts(path: string): string[] {
  let known = split.get(path)
  if (known === undefined) {
    if (split.size > 10_000) split.clear()
    split.set(path, (known = path.split('/').filter((part) => part !== '')))
  }
  return known
}

const nameOf = (path: string): string => path.slice(path.lastIndexOf('/') + 1)
const parentOf = (path: string): string => path.slice(0, path.lastIndexOf('/'))
