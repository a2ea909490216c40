/**
 * Commits of the state store, several in one: those that wait while another commit is under way become durable together, with one sync.
 *
 * Invariants
 * - The transactions of a group have an order, that of their calls. Each is checked against the catalog and the writes of those before it in the group: one
 *   whose reads do not hold there is not part of it. So a group has the effect of its transactions one after the other.
 * - A group is one commit of the catalog: after a crash all of it is there or nothing. What is said of a commit that failed (nothing stored, or outcome unknown)
 *   is said to each of its transactions.
 * - What is under way (`pending`) may be read by the body of a transaction, never by anybody else: what it makes of it stands only if its own group, or none
 *   before, brings those writes. If their commit fails, the check finds it.
 * - What a commit may speak of is durable before it: rows and drops that were acknowledged before the transaction began (`follow`). Else a power cut could leave a
 *   rollup's place without the rollup's rows.
 */
import { utf8Order } from '../../common/state-draft.ts'
import { requireStorableKey } from './commit.ts'
import type { CatalogStore, CatalogWrites, Entry } from './store.ts'

/** Of a group: what is more waits for the next one. */
const MAX_BYTES = 4 << 20

export interface Entries {
  get(key: string): Uint8Array | undefined
  range(range: { start: string; end: string }): Iterable<Entry>
}

interface Write {
  /** undefined = removed. */
  bytes: Uint8Array | undefined
}

interface Waiting {
  writes: ReadonlyMap<string, Write>
  isStale(now: Entries): boolean
  resolve(isStored: boolean): void
  reject(error: unknown): void
}

export class StateCommits {
  /** What is durable, and over it what is to be. */
  readonly pending: Entries
  private readonly store: CatalogStore
  private readonly underWay = new Map<string, Write>()
  private readonly turns = new Map<string, Promise<unknown>>()
  private waiting: Waiting[] = []
  private ready: (() => Promise<void>) | undefined

  constructor(store: CatalogStore) {
    this.store = store
    this.pending = new Overlay(store, this.underWay)
  }

  /** @param settled resolves when the log has, durably, what it has acknowledged: at once, but under a periodic policy. */
  follow(settled: () => Promise<void>): void {
    this.ready = settled
  }

  /**
   * Durable when it resolves with true; with false: something is stale, and nothing is stored. @param isStale whether something that led to the writes is another
   * now. @throws as a commit of the catalog: INVALID_REQUEST, STORAGE_FULL, OVERLOADED.
   */
  async commit(changes: ReadonlyMap<string, Uint8Array | undefined>, isStale: (now: Entries) => boolean): Promise<boolean> {
    const writes = new Map<string, Write>()
    for (const [key, bytes] of changes) writes.set(requireStorableKey(key), { bytes })
    for (const [key, write] of writes) this.underWay.set(key, write)
    return new Promise((resolve, reject) => {
      this.waiting.push({ writes, isStale, resolve, reject })
      if (this.waiting.length === 1) void this.commitGroup()
    })
  }

  /** One after the other for an owner: transactions that others have overtaken. */
  inTurn<T>(owner: string, act: () => Promise<T>): Promise<T> {
    const done = (this.turns.get(owner) ?? Promise.resolve()).then(act)
    const turn = done
      .catch(() => {})
      .then(() => {
        if (this.turns.get(owner) === turn) this.turns.delete(owner)
      })
    this.turns.set(owner, turn)
    return done
  }

  /** Never rejects: each transaction is told. */
  private async commitGroup(): Promise<void> {
    let group: Waiting[] | undefined
    try {
      const body = (tx: CatalogWrites): void => {
        group = []
        const writes = new Map<string, Write>()
        this.gather(group, writes)
        for (const [key, { bytes }] of writes) {
          if (bytes === undefined) tx.remove(key)
          else tx.put(key, bytes)
        }
      }
      await this.store.transaction(body, undefined, this.ready)
      for (const one of group ?? []) this.settle(one, () => one.resolve(true))
    } catch (error) {
      // Where not even the body was run, those who wait learn it too.
      for (const one of group ?? this.waiting.splice(0)) this.settle(one, () => one.reject(error))
    }
  }

  /** In one turn of the loop, with no commit under way. */
  private gather(group: Waiting[], writes: Map<string, Write>): void {
    const all = this.waiting
    this.waiting = []
    const now = new Overlay(this.store, writes)
    let bytes = 0
    for (const [index, one] of all.entries()) {
      if (bytes >= MAX_BYTES) {
        this.waiting = all.slice(index)
        void this.commitGroup()
        return
      }
      try {
        if (one.isStale(now)) {
          this.settle(one, () => one.resolve(false))
          continue
        }
      } catch (error) {
        this.settle(one, () => one.reject(error))
        continue
      }
      group.push(one)
      for (const [key, write] of one.writes) {
        bytes += key.length + (write.bytes?.length ?? 0)
        writes.set(key, write)
      }
    }
  }

  private settle({ writes }: Waiting, tell: () => void): void {
    for (const [key, write] of writes) if (this.underWay.get(key) === write) this.underWay.delete(key)
    tell()
  }
}

/** Entries with some written over. */
class Overlay implements Entries {
  private readonly below: Entries
  private readonly writes: ReadonlyMap<string, Write>

  constructor(below: Entries, writes: ReadonlyMap<string, Write>) {
    this.below = below
    this.writes = writes
  }

  get(key: string): Uint8Array | undefined {
    const write = this.writes.get(key)
    return write === undefined ? this.below.get(key) : write.bytes
  }

  range(range: { start: string; end: string }): Iterable<Entry> {
    if (this.writes.size === 0) return this.below.range(range)
    const over = [...this.writes.keys()].filter((key) => utf8Order(key, range.start) >= 0 && utf8Order(key, range.end) < 0)
    return over.length === 0 ? this.below.range(range) : this.merged(range, over.sort(utf8Order))
  }

  private *merged(range: { start: string; end: string }, over: readonly string[]): Generator<Entry> {
    let next = 0
    const before = (key: string | undefined): Entry[] => {
      const found: Entry[] = []
      for (; next < over.length && (key === undefined || utf8Order(over[next], key) < 0); next++) {
        const bytes = this.writes.get(over[next])?.bytes
        if (bytes !== undefined) found.push({ key: over[next], bytes })
      }
      return found
    }
    for (const entry of this.below.range(range)) {
      yield* before(entry.key)
      if (over[next] !== entry.key) {
        yield entry
        continue
      }
      const bytes = this.writes.get(entry.key)?.bytes
      next++
      if (bytes !== undefined) yield { key: entry.key, bytes }
    }
    yield* before(undefined)
  }
}
