/**
 * The kernel's side of a file system in this process: messages of /dev/fuse as <linux/fuse.h> (7.31) lays them out, over a PowerDisk. Every call
 * of whatever process uses the mount comes by here (also io_uring, mapped pages and system calls without libc), one at a time.
 */
import { constants } from 'node:os'
import { DirectoryNode, FileNode, type Node, type PowerDisk } from './power-disk.ts'

const {
  errno: { EIO, ENOENT, ENOSYS, EEXIST, ENOTEMPTY, EOPNOTSUPP },
} = constants

/** Of a request: length, opcode, unique, node, uid, gid, pid, padding. */
const HEAD = 40
const MAX_WRITE = 1 << 20
/** A buffer that any request fits into. */
export const REQUEST_BYTES = MAX_WRITE + 4096

const LOOKUP = 1
const FORGET = 2
const GETATTR = 3
const SETATTR = 4
const READLINK = 5
const SYMLINK = 6
const MKDIR = 9
const UNLINK = 10
const RMDIR = 11
const RENAME = 12
const LINK = 13
const OPEN = 14
const READ = 15
const WRITE = 16
const STATFS = 17
const RELEASE = 18
const FSYNC = 20
const FLUSH = 25
const INIT = 26
const OPENDIR = 27
const READDIR = 28
const RELEASEDIR = 29
const FSYNCDIR = 30
const CREATE = 35
const INTERRUPT = 36
const DESTROY = 38
const BATCH_FORGET = 42
const FALLOCATE = 43
const RENAME2 = 45

/** Those after which the disk is another, or which wait for it. */
const CHANGES = new Set([SETATTR, SYMLINK, MKDIR, UNLINK, RMDIR, RENAME, LINK, WRITE, FSYNC, FSYNCDIR, CREATE, FALLOCATE, RENAME2])
const UNANSWERED = new Set([FORGET, INTERRUPT, BATCH_FORGET])

/** ASYNC_READ, BIG_WRITES, MAX_PAGES. */
const INIT_FLAGS = (1 << 0) | (1 << 5) | (1 << 22)
const SETATTR_SIZE = 1 << 3
const RENAME_NOREPLACE = 1
const FALLOCATE_KEEP_SIZE = 1
/** The page cache stays right over opens: nobody else changes the disk. */
const OPEN_KEEP_CACHE = 1 << 1
/** Seconds that the kernel may believe names and attributes, for the same reason. */
const VALID = 3600n
const VOLUME_BLOCKS = 1n << 26n
const BLOCK = 4096

export type Sync = 'fsync' | 'fsyncdir'

/** An answer's body, or the number of an error. */
type Answer = Buffer | number
const EMPTY = Buffer.alloc(0)

/** Requests of one mount. */
export class FuseSession {
  /** Requests so far, by opcode: to see what came by here. */
  readonly counts = new Map<number, number>()
  private readonly disk: PowerDisk
  private readonly broken: ReadonlySet<Sync>
  private readonly nodes = new Map<bigint, Node>()
  private readonly links = new Map<number, number>()

  /** @param broken syncs that do nothing. */
  constructor(disk: PowerDisk, broken: ReadonlySet<Sync>) {
    this.disk = disk
    this.broken = broken
    this.know(disk.root)
    const count = (directory: DirectoryNode): void => {
      for (const node of directory.entries.values()) {
        this.linked(node, 1)
        if (node instanceof DirectoryNode) count(node)
      }
    }
    count(disk.root)
  }

  static changes(request: Buffer): boolean {
    return CHANGES.has(request.readUInt32LE(4))
  }

  /** @returns head and body of the answer; undefined when none is due. */
  answer(request: Buffer): [Buffer, Buffer] | undefined {
    const opcode = request.readUInt32LE(4)
    if (UNANSWERED.has(opcode)) return undefined
    this.counts.set(opcode, (this.counts.get(opcode) ?? 0) + 1)
    return FuseSession.framed(request, this.handle(opcode, request.readBigUInt64LE(16), request.subarray(HEAD)))
  }

  /** The answer of a disk that is gone. */
  static refusal(request: Buffer): [Buffer, Buffer] | undefined {
    return UNANSWERED.has(request.readUInt32LE(4)) ? undefined : FuseSession.framed(request, EIO)
  }

  private static framed(request: Buffer, answer: Answer): [Buffer, Buffer] {
    const body = typeof answer === 'number' ? EMPTY : answer
    const head = Buffer.alloc(16)
    head.writeUInt32LE(16 + body.length, 0)
    head.writeInt32LE(typeof answer === 'number' ? -answer : 0, 4)
    request.copy(head, 8, 8, 16)
    return [head, body]
  }

  private handle(opcode: number, id: bigint, body: Buffer): Answer {
    if (opcode === INIT) return init()
    if (opcode === DESTROY || opcode === RELEASE || opcode === RELEASEDIR || opcode === FLUSH) return EMPTY
    const node = this.nodes.get(id)
    if (node === undefined) return ENOENT
    if (opcode === GETATTR) return this.attributesOf(node)
    if (opcode === STATFS) return volume()
    if (node instanceof DirectoryNode) return this.inDirectory(opcode, node, body)
    if (node instanceof FileNode) return this.onFile(opcode, node, body)
    return opcode === READLINK ? Buffer.from(node.target) : opcode === SETATTR ? this.attributesOf(node) : ENOSYS
  }

  private inDirectory(opcode: number, node: DirectoryNode, body: Buffer): Answer {
    switch (opcode) {
      case LOOKUP: {
        const found = node.entries.get(texts(body)[0])
        return found === undefined ? ENOENT : this.entry(found)
      }
      case SETATTR:
        return this.attributesOf(node)
      case MKDIR:
        return this.made(node, texts(body, 8)[0], (name) => this.disk.createDirectory(node, name))
      case SYMLINK: {
        const [name, target] = texts(body)
        return this.made(node, name, () => this.disk.createLink(node, name, target))
      }
      case CREATE: {
        const made = this.made(node, texts(body, 16)[0], (name) => this.disk.createFile(node, name))
        return typeof made === 'number' ? made : Buffer.concat([made, opened()])
      }
      case LINK: {
        const target = this.nodes.get(body.readBigUInt64LE(0))
        if (target === undefined) return ENOENT
        return this.made(node, texts(body, 8)[0], (name) => this.disk.add(node, name, target))
      }
      case UNLINK:
      case RMDIR:
        return this.removed(node, texts(body)[0])
      case RENAME:
        return this.renamed(node, body.readBigUInt64LE(0), 0, texts(body, 8))
      case RENAME2:
        return this.renamed(node, body.readBigUInt64LE(0), body.readUInt32LE(8), texts(body, 16))
      case OPENDIR:
        return opened()
      case READDIR:
        return this.listed(node, Number(body.readBigUInt64LE(8)), body.readUInt32LE(16))
      case FSYNCDIR:
        if (!this.broken.has('fsyncdir')) node.sync()
        return EMPTY
      default:
        return ENOSYS
    }
  }

  private onFile(opcode: number, node: FileNode, body: Buffer): Answer {
    switch (opcode) {
      case SETATTR:
        if ((body.readUInt32LE(0) & SETATTR_SIZE) !== 0) node.truncate(Number(body.readBigUInt64LE(16)))
        return this.attributesOf(node)
      case OPEN:
        return opened()
      case READ:
        return node.read(Number(body.readBigUInt64LE(8)), body.readUInt32LE(16))
      case WRITE: {
        const size = body.readUInt32LE(16)
        node.write(Number(body.readBigUInt64LE(8)), body.subarray(HEAD, HEAD + size))
        const written = Buffer.alloc(8)
        written.writeUInt32LE(size, 0)
        return written
      }
      case FSYNC:
        if (!this.broken.has('fsync')) node.sync()
        return EMPTY
      case FALLOCATE: {
        const end = Number(body.readBigUInt64LE(8) + body.readBigUInt64LE(16))
        const mode = body.readUInt32LE(24)
        if (mode !== 0 && mode !== FALLOCATE_KEEP_SIZE) return EOPNOTSUPP
        if (mode === 0 && end > node.size) node.truncate(end)
        return EMPTY
      }
      default:
        return ENOSYS
    }
  }

  private made(directory: DirectoryNode, name: string, make: (name: string) => Node): Answer {
    if (directory.entries.has(name)) return EEXIST
    const node = make(name)
    this.linked(node, 1)
    return this.entry(node)
  }

  private removed(directory: DirectoryNode, name: string): Answer {
    const node = directory.entries.get(name)
    if (node === undefined) return ENOENT
    if (node instanceof DirectoryNode && node.entries.size > 0) return ENOTEMPTY
    this.disk.remove(directory, name)
    this.linked(node, -1)
    return EMPTY
  }

  private renamed(from: DirectoryNode, toId: bigint, flags: number, [name, newName]: string[]): Answer {
    const to = this.nodes.get(toId)
    if (!(to instanceof DirectoryNode) || !from.entries.has(name)) return ENOENT
    const replaced = to.entries.get(newName)
    if ((flags & ~RENAME_NOREPLACE) !== 0) return EOPNOTSUPP
    if (replaced !== undefined && flags === RENAME_NOREPLACE) return EEXIST
    if (replaced instanceof DirectoryNode && replaced.entries.size > 0) return ENOTEMPTY
    // Two names of one file: rename(2) does nothing.
    if (replaced !== undefined && replaced === from.entries.get(name)) return EMPTY
    this.disk.rename(from, name, to, newName)
    if (replaced !== undefined) this.linked(replaced, -1)
    return EMPTY
  }

  private listed(directory: DirectoryNode, offset: number, room: number): Buffer {
    const parts: Buffer[] = []
    let used = 0
    const all: [string, Node][] = [['.', directory], ['..', directory], ...directory.entries]
    for (let i = offset; i < all.length; i++) {
      const [name, node] = all[i]
      const bytes = Buffer.from(name)
      const part = Buffer.alloc((24 + bytes.length + 7) & ~7)
      part.writeBigUInt64LE(BigInt(node.ino), 0)
      part.writeBigUInt64LE(BigInt(i + 1), 8)
      part.writeUInt32LE(bytes.length, 16)
      part.writeUInt32LE(typeOf(node) >> 12, 20)
      bytes.copy(part, 24)
      used += part.length
      if (used > room) break
      parts.push(part)
    }
    return Buffer.concat(parts)
  }

  private know(node: Node): bigint {
    const id = BigInt(node.ino)
    this.nodes.set(id, node)
    return id
  }

  private linked(node: Node, by: number): void {
    this.links.set(node.ino, (this.links.get(node.ino) ?? 0) + by)
  }

  private entry(node: Node): Buffer {
    const entry = Buffer.alloc(40)
    entry.writeBigUInt64LE(this.know(node), 0)
    entry.writeBigUInt64LE(VALID, 16)
    entry.writeBigUInt64LE(VALID, 24)
    return Buffer.concat([entry, this.attributes(node)])
  }

  private attributesOf(node: Node): Buffer {
    const head = Buffer.alloc(16)
    head.writeBigUInt64LE(VALID, 0)
    return Buffer.concat([head, this.attributes(node)])
  }

  private attributes(node: Node): Buffer {
    const size = node instanceof FileNode ? node.size : node.kind === 'link' ? node.target.length : BLOCK
    const attributes = Buffer.alloc(88)
    attributes.writeBigUInt64LE(BigInt(node.ino), 0)
    attributes.writeBigUInt64LE(BigInt(size), 8)
    attributes.writeBigUInt64LE(BigInt(Math.ceil(size / 512)), 16)
    const now = BigInt(Math.floor(Date.now() / 1000))
    for (const at of [24, 32, 40]) attributes.writeBigUInt64LE(now, at)
    attributes.writeUInt32LE(typeOf(node) | (node instanceof DirectoryNode ? 0o755 : 0o644), 60)
    attributes.writeUInt32LE(Math.max(0, this.links.get(node.ino) ?? 1), 64)
    attributes.writeUInt32LE(process.getuid?.() ?? 0, 68)
    attributes.writeUInt32LE(process.getgid?.() ?? 0, 72)
    attributes.writeUInt32LE(BLOCK, 80)
    return attributes
  }
}

function typeOf(node: Node): number {
  if (node instanceof DirectoryNode) return 0o040000
  return node instanceof FileNode ? 0o100000 : 0o120000
}

/** Texts that end with a zero each. */
function texts(body: Buffer, from = 0): string[] {
  return body.toString('utf8', from).split('\0')
}

function opened(): Buffer {
  const answer = Buffer.alloc(16)
  answer.writeUInt32LE(OPEN_KEEP_CACHE, 8)
  return answer
}

function init(): Buffer {
  const answer = Buffer.alloc(64)
  answer.writeUInt32LE(7, 0)
  answer.writeUInt32LE(31, 4)
  answer.writeUInt32LE(MAX_WRITE, 8)
  answer.writeUInt32LE(INIT_FLAGS, 12)
  answer.writeUInt16LE(64, 16)
  answer.writeUInt16LE(48, 18)
  answer.writeUInt32LE(MAX_WRITE, 20)
  answer.writeUInt32LE(1, 24)
  answer.writeUInt16LE(MAX_WRITE / BLOCK, 28)
  return answer
}

function volume(): Buffer {
  const answer = Buffer.alloc(80)
  for (const at of [0, 8, 16, 24, 32]) answer.writeBigUInt64LE(VOLUME_BLOCKS, at)
  answer.writeUInt32LE(BLOCK, 40)
  answer.writeUInt32LE(255, 44)
  answer.writeUInt32LE(BLOCK, 48)
  return answer
}
