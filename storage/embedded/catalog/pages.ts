/**
 * Checks the page structure of an LMDB file before LMDB maps it: LMDB trusts its pages, and a flipped bit in one can end the process or hide
 * entries. What the values hold is not looked at; they have checksums of their own (value.ts).
 *
 * The layout is that of data version 2 on a little-endian, 64-bit machine: two meta pages, then a tree of entries and a tree of free pages. Each
 * page behind the meta pages belongs to one of the trees or is free, and to one of them only. An entry of a page is called a node.
 */
import { closeSync, fstatSync, openSync, readSync } from 'node:fs'

const MAGIC = 0xbeefc0de
const DATA_VERSION = 2
const HEADER = 24
const NODE = 8
const FREE_TREE = HEADER + 24
const MAIN_TREE = FREE_TREE + 48
const LAST_PAGE = MAIN_TREE + 48
const TRANSACTION = LAST_PAGE + 8
const Flags = { BRANCH: 1, LEAF: 2, OVERFLOW: 4, META: 8 } as const
const INTEGER_KEYS = 8
const BIG_DATA = 1
const NO_PAGE = 0xffff_ffff_ffff_ffffn
/** A map of more is not one this store makes: 64 TiB. */
const MAX_BYTES = 2 ** 46

interface Tree {
  name: string
  flags: number
  depth: number
  branches: number
  leaves: number
  overflows: number
  entries: number
  root: number
}

/** Of a tree: what was met of it. */
interface Walk {
  tree: Tree
  compare: Compare
  found: Pick<Tree, 'branches' | 'leaves' | 'overflows' | 'entries'>
  visit: ((key: Buffer, value: Buffer) => void) | undefined
}

interface Meta {
  pageSize: number
  free: Tree
  main: Tree
  lastPage: number
  transaction: number
}

/** A turn for each page. @throws Error saying which page is wrong and how. A file without bytes is a store that was never written. */
export function* checkPages(file: string): Generator<void, void> {
  const fd = openSync(file, 'r')
  try {
    const { size } = fstatSync(fd)
    if (size > 0) yield* new PageCheck(fd, size).run()
  } finally {
    closeSync(fd)
  }
}

/** Likewise, of the two pages only that LMDB opens a file by, which another process may be writing. */
export function checkMetaPages(file: string): void {
  const fd = openSync(file, 'r')
  try {
    new PageCheck(fd, fstatSync(fd).size).readMetas()
  } finally {
    closeSync(fd)
  }
}

class PageCheck {
  private readonly fd: number
  private readonly size: number
  private pageSize = 0
  private meta!: Meta
  /** A bit for each page that was met. */
  private seen!: Uint8Array

  constructor(fd: number, size: number) {
    this.fd = fd
    this.size = size
  }

  *run(): Generator<void, void> {
    this.meta = this.pickMeta()
    this.seen = new Uint8Array(this.meta.lastPage + 1)
    this.seen.fill(1, 0, 2)
    yield* this.walkTree(this.meta.main, compareBytes)
    yield* this.walkTree(this.meta.free, compareNumbers, (key, value) => this.markFree(key, value))
  }

  readMetas(): [Meta, Meta] {
    const first = this.read(0, Math.min(this.size, 4096))
    if (first.length < TRANSACTION + 8) throw new Error('the file ends within its first page')
    this.pageSize = Number(first.readUInt32LE(FREE_TREE))
    const { pageSize } = this
    if (pageSize < 512 || pageSize > 65_536 || (pageSize & (pageSize - 1)) !== 0) throw new Error('page 0 has no valid page size')
    return [this.readMeta(0), this.readMeta(1)]
  }

  private pickMeta(): Meta {
    const [a, b] = this.readMetas()
    const newer = a.transaction > b.transaction ? 0 : 1
    const [newest, before] = newer === 0 ? [a, b] : [b, a]
    // A transaction goes to the page of its parity, after the one before it. A compacted copy begins with an empty page 0.
    const ordered = newest.transaction === before.transaction + 1 || (before.transaction === 0 && before.main.root < 0 && before.free.root < 0)
    if (!ordered || (newest.transaction > 0 && newest.transaction % 2 !== newer))
      throw new Error(`pages 0 and 1 are of transactions ${a.transaction} and ${b.transaction}, which do not follow each other`)
    // Each transaction of this store writes its root anew, but a compacted copy keeps the pages' numbers.
    const roots = [newest, before].map(({ main }) => (main.root < 0 ? 0 : this.transactionOf(main.root)))
    if ((before.transaction > 0 && roots[0] !== newest.transaction) || roots[0] > newest.transaction || roots[1] > before.transaction)
      throw new Error(`pages 0 and 1 are of transactions ${a.transaction} and ${b.transaction}, and their trees are of others`)
    return newest
  }

  private transactionOf(page: number): number {
    const head = this.read(page * this.pageSize, HEADER)
    return head.length < HEADER ? Number.POSITIVE_INFINITY : u64(head, 8)
  }

  private readMeta(page: number): Meta {
    const bytes = this.read(page * this.pageSize, this.pageSize)
    const wrong = (what: string) => new Error(`page ${page} has a wrong ${what}`)
    if (bytes.length < this.pageSize) throw new Error(`the file ends within page ${page}`)
    if (u64(bytes, 0) !== page || bytes.readUInt16LE(18) !== Flags.META) throw wrong('header')
    if (bytes.readUInt32LE(HEADER) !== MAGIC || bytes.readUInt32LE(HEADER + 4) !== DATA_VERSION) throw wrong('signature')
    const mapSize = u64(bytes, HEADER + 16)
    if (u64(bytes, HEADER + 8) !== 0 || mapSize > MAX_BYTES) throw wrong('map')
    if (bytes.readUInt32LE(FREE_TREE) !== this.pageSize || bytes.readUInt32LE(MAIN_TREE) !== 0) throw wrong('page size')
    const meta: Meta = {
      pageSize: this.pageSize,
      free: readTree('of free pages', bytes, FREE_TREE),
      main: readTree('of entries', bytes, MAIN_TREE),
      lastPage: u64(bytes, LAST_PAGE),
      transaction: u64(bytes, TRANSACTION),
    }
    if (meta.free.flags !== INTEGER_KEYS || meta.main.flags !== 0) throw wrong('tree')
    if (meta.lastPage < 1 || (meta.lastPage + 1) * this.pageSize > Math.max(mapSize, this.size)) throw wrong('last page')
    return meta
  }

  private *walkTree(tree: Tree, compare: Compare, visit?: (key: Buffer, value: Buffer) => void): Generator<void, void> {
    const found = { branches: 0, leaves: 0, overflows: 0, entries: 0 }
    if (tree.root >= 0) yield* this.walkPage({ tree, compare, found, visit }, tree.root, 1, undefined, undefined)
    else if (tree.depth !== 0) throw new Error(`the tree ${tree.name} has no root`)
    for (const [name, count] of Object.entries(found))
      if (tree[name as keyof typeof found] !== count)
        throw new Error(`the tree ${tree.name} has ${count} ${name}, its root says ${tree[name as keyof typeof found]}`)
  }

  /** A page, and those below it, whose keys are from `low` on and before `high`. */
  private *walkPage(walk: Walk, page: number, depth: number, low: Buffer | undefined, high: Buffer | undefined): Generator<void, void> {
    yield
    const { tree, compare, found, visit } = walk
    const bytes = this.claim(page, 1)
    const leaf = depth === tree.depth
    if (bytes.readUInt16LE(18) !== (leaf ? Flags.LEAF : Flags.BRANCH)) throw new Error(`page ${page} has wrong flags`)
    if (leaf) found.leaves++
    else found.branches++
    const nodes = this.nodes(page, bytes, leaf)
    let last = low
    for (const [i, { key, at }] of nodes.entries()) {
      // The first key of a branch stands for everything below the second and is left empty.
      const bounded = leaf || i > 0
      if (bounded && last !== undefined && (i === 0 ? compare(key, last) < 0 : compare(key, last) <= 0)) throw new Error(`page ${page} has keys out of order`)
      if (bounded && high !== undefined && compare(key, high) >= 0) throw new Error(`page ${page} has a key of the page behind it`)
      if (bounded) last = key
      if (!leaf) {
        yield* this.walkPage(walk, childOf(bytes, at), depth + 1, i === 0 ? low : key, i + 1 < nodes.length ? nodes[i + 1].key : high)
        continue
      }
      found.entries++
      const { value, pages } = this.valueOf(page, bytes, at, visit !== undefined)
      found.overflows += pages
      visit?.(key, value)
    }
  }

  private nodes(page: number, bytes: Buffer, leaf: boolean): { key: Buffer; at: number }[] {
    const lower = bytes.readUInt16LE(20)
    const upper = bytes.readUInt16LE(22)
    if (lower % 2 !== 0 || lower > upper || HEADER + upper > this.pageSize || lower === 0) throw new Error(`page ${page} has wrong bounds`)
    const taken: [number, number][] = []
    const nodes = Array.from({ length: lower / 2 }, (_, i) => {
      const at = HEADER + bytes.readUInt16LE(HEADER + i * 2)
      if (at < HEADER + upper || at + NODE > this.pageSize) throw new Error(`page ${page} has an entry outside of itself`)
      const keySize = bytes.readUInt16LE(at + 6)
      const flags = bytes.readUInt16LE(at + 4)
      if (leaf && flags !== 0 && flags !== BIG_DATA) throw new Error(`page ${page} has an entry of a kind that is not used`)
      const end = at + NODE + keySize + (leaf ? (flags === BIG_DATA ? 24 : bytes.readUInt32LE(at)) : 0)
      if (end > this.pageSize) throw new Error(`page ${page} has an entry that ends outside of itself`)
      taken.push([at, end])
      return { key: bytes.subarray(at + NODE, at + NODE + keySize), at }
    })
    taken.sort(([a], [b]) => a - b)
    if (taken.some(([at], i) => i > 0 && at < taken[i - 1][1])) throw new Error(`page ${page} has entries that overlap`)
    return nodes
  }

  /** @param wanted otherwise the value is not read whole: its checksum is looked at later. */
  private valueOf(page: number, bytes: Buffer, at: number, wanted: boolean): { value: Buffer; pages: number } {
    const size = bytes.readUInt32LE(at)
    const start = at + NODE + bytes.readUInt16LE(at + 6)
    if (bytes.readUInt16LE(at + 4) !== BIG_DATA) return { value: bytes.subarray(start, start + size), pages: 0 }
    const first = u64(bytes, start)
    const pages = Math.floor((HEADER - 1 + size) / this.pageSize) + 1
    if (u64(bytes, start + 16) !== pages) throw new Error(`page ${page} has an entry with a wrong number of pages`)
    const overflow = this.claim(first, pages, wanted ? pages : 1)
    if (overflow.readUInt16LE(18) !== Flags.OVERFLOW || overflow.readUInt32LE(20) !== pages) throw new Error(`page ${first} has a wrong header`)
    return { value: overflow.subarray(HEADER, HEADER + size), pages }
  }

  /** A list of free pages: count, then page numbers; 0 is an empty place, a negative number says how many pages follow from the next number on. */
  private markFree(key: Buffer, value: Buffer): void {
    if (key.length !== 8 || u64(key, 0) > this.meta.transaction) throw new Error('the tree of free pages has a wrong key')
    const count = value.length >= 8 ? u64(value, 0) : -1
    if (count < 0 || (count + 1) * 8 > value.length) throw new Error('a list of free pages has a wrong length')
    for (let i = 1; i <= count; i++) {
      let pages = 1
      const entry = value.readBigInt64LE(i * 8)
      if (entry === 0n) continue
      if (entry < 0n) {
        pages = Number(-entry)
        if (++i > count) throw new Error('a list of free pages ends early')
      }
      this.mark(u64(value, i * 8), pages)
    }
  }

  /** A page nobody else has, and those behind it, of which so many are read. */
  private claim(page: number, pages: number, read = pages): Buffer {
    this.mark(page, pages)
    const bytes = this.read(page * this.pageSize, read * this.pageSize)
    if (bytes.length < read * this.pageSize || this.size < (page + pages) * this.pageSize) throw new Error(`the file ends within page ${page}`)
    if (u64(bytes, 0) !== page) throw new Error(`page ${page} says it is page ${u64(bytes, 0)}`)
    if (u64(bytes, 8) > this.meta.transaction) throw new Error(`page ${page} is of a transaction that was never committed`)
    return bytes
  }

  private mark(page: number, pages: number): void {
    if (page < 2 || pages < 1 || page + pages - 1 > this.meta.lastPage) throw new Error(`page ${page} is named, which does not exist`)
    for (let i = page; i < page + pages; i++) {
      if (this.seen[i] !== 0) throw new Error(`page ${i} is named twice`)
      this.seen[i] = 1
    }
  }

  private read(at: number, length: number): Buffer {
    if (at >= this.size) return Buffer.alloc(0)
    const bytes = Buffer.alloc(length)
    let got = 0
    for (let n = -1; n !== 0 && got < length; got += n) n = readSync(this.fd, bytes, got, length - got, at + got)
    return bytes.subarray(0, got)
  }
}

type Compare = (a: Buffer, b: Buffer) => number
const compareBytes: Compare = (a, b) => Buffer.compare(a, b)
const compareNumbers: Compare = (a, b) => (a.length === 8 && b.length === 8 ? u64(a, 0) - u64(b, 0) : -1)

function readTree(name: string, bytes: Buffer, at: number): Tree {
  const root = bytes.readBigUInt64LE(at + 40)
  return {
    name,
    flags: bytes.readUInt16LE(at + 4),
    depth: bytes.readUInt16LE(at + 6),
    branches: u64(bytes, at + 8),
    leaves: u64(bytes, at + 16),
    overflows: u64(bytes, at + 24),
    entries: u64(bytes, at + 32),
    root: root === NO_PAGE ? -1 : Number(root),
  }
}

/** The page a branch's node leads to: 48 bits, low first, the highest where a leaf's flags are. */
function childOf(bytes: Buffer, at: number): number {
  return bytes.readUInt32LE(at) + bytes.readUInt16LE(at + 4) * 2 ** 32
}

/** Numbers beyond what a double holds are wrong in every place this is used, and stay larger than any right one. */
function u64(bytes: Buffer, at: number): number {
  return Number(bytes.readBigUInt64LE(at))
}
