/**
 * What was decoded for samples, up to a number of bytes. What one question has used goes before what several have; and a question that needs more than
 * there is room for keeps what it has read first, instead of pushing that out by what it reads last: asked again, it finds a part of it.
 */
import type { SampleBlock } from './sample-block.ts'

/** What several questions have used may take this share; beyond it, the one used longest ago counts as new again. */
const SHARED_SHARE = 0.8

interface Entry {
  block: unknown
  bytes: number
  owner: number
  key: number
  home: Map<number, Entry>
  /** The question that used it last. */
  question: number
  shared: boolean
  /** Of `BlockCache.rest` when it was used last. */
  round: number
}

/** The blocks of one owner (a segment, a memtable chunk), each under a number. */
export class OwnedBlocks<_T = SampleBlock> {
  readonly entries = new Map<number, Entry>()
  readonly owner: number

  /** @param owner what `BlockCache.forget` takes: a segment's id, or -1 - a memtable's id. */
  constructor(owner: number) {
    this.owner = owner
  }
}

/** Not known: every use counts as another question's. */
const ANY_QUESTION = -1

export class BlockCache {
  /** Used by one question, and by several; in order of use. */
  private readonly once = new Set<Entry>()
  private readonly shared = new Set<Entry>()
  private readonly total: number
  private readonly others: () => number
  private held = 0
  private sharedBytes = 0
  private round = 0

  /** @param budget bytes. @param others what others have of it at the time. */
  constructor(budget: number, others: () => number = () => 0) {
    this.total = budget
    this.others = others
  }

  private get budget(): number {
    return this.total - this.others()
  }

  get bytes(): number {
    return this.held
  }

  /** Whether a block of this size is worth keeping. */
  accepts(bytes: number): boolean {
    return bytes * 4 <= this.budget
  }

  /** Whether blocks of this size in all have room at once. */
  holds(bytes: number): boolean {
    return bytes <= this.budget
  }

  /** Whether `put` would keep a block that a question has made: it is not too large, and nothing that the same question uses would have to go. */
  admits(bytes: number, question: number): boolean {
    if (!this.accepts(bytes)) return false
    let missing = this.held + bytes - this.budget
    for (const list of [this.once, this.shared]) {
      for (const entry of list) {
        if (missing <= 0) return true
        if (entry.question === question) return false
        missing -= entry.bytes
      }
    }
    return missing <= 0
  }

  get<T>(owned: OwnedBlocks<T>, key: number, question: number = ANY_QUESTION): T | undefined {
    const entry = owned.entries.get(key)
    if (entry === undefined) return undefined
    this.touch(entry, question)
    return entry.block as T
  }

  put<T>(owned: OwnedBlocks<T>, key: number, block: T, bytes: number, question: number = ANY_QUESTION): void {
    this.remove(owned, key)
    if (!this.accepts(bytes)) return
    const entry: Entry = { block, bytes, owner: owned.owner, key, home: owned.entries, question, shared: false, round: this.round }
    owned.entries.set(key, entry)
    this.once.add(entry)
    this.held += bytes
    for (const list of [this.once, this.shared]) {
      for (const oldest of list) {
        if (this.held <= this.budget) return
        if (oldest !== entry) this.drop(oldest)
      }
    }
  }

  remove<T>(owned: OwnedBlocks<T>, key: number): void {
    const entry = owned.entries.get(key)
    if (entry !== undefined) this.drop(entry)
  }

  /** Drops the blocks of owners that are gone. */
  forget(gone: ReadonlySet<number>): void {
    for (const list of [this.once, this.shared]) for (const entry of [...list]) if (gone.has(entry.owner)) this.drop(entry)
  }

  /** Call now and then: drops what was not used since so many calls. @returns bytes. */
  rest(rounds: number): number {
    const before = this.held
    const least = ++this.round - rounds
    for (const list of [this.once, this.shared]) for (const entry of [...list]) if (entry.round < least) this.drop(entry)
    return before - this.held
  }

  private touch(entry: Entry, question: number): void {
    const again = entry.shared || entry.question !== question || question === ANY_QUESTION
    entry.question = question
    entry.round = this.round
    if (!again) {
      this.once.delete(entry)
      this.once.add(entry)
      return
    }
    if (!entry.shared) {
      this.once.delete(entry)
      entry.shared = true
      this.sharedBytes += entry.bytes
    } else this.shared.delete(entry)
    this.shared.add(entry)
    for (const oldest of this.shared) {
      if (this.sharedBytes <= this.budget * SHARED_SHARE) return
      this.shared.delete(oldest)
      this.sharedBytes -= oldest.bytes
      oldest.shared = false
      this.once.add(oldest)
    }
  }

  private drop(entry: Entry): void {
    if (entry.home.get(entry.key) === entry) entry.home.delete(entry.key)
    if (!(entry.shared ? this.shared : this.once).delete(entry)) return
    this.held -= entry.bytes
    if (entry.shared) this.sharedBytes -= entry.bytes
  }
}
