/**
 * What one run of a transaction's body reads and writes.
 *
 * Invariants
 * - Each read is noted by the digest of what it gave, without what the body itself had written: at the commit these must be the same.
 * - What others of this process are about to store is read as if it were there (`pending`): if it does not come to be, the digests say so.
 */
import type { StateEntry, StateRange, StateTransaction } from 'svcdb'
import { SvcError } from 'svcdb/lib/errors'
import { entryOf, parsed, utf8Order } from '../common/state-draft.ts'
import { digestOf, listDigest, type Row } from './digest.ts'
import { type Bounds, boundsOf, isWithin } from './ranges.ts'
import type { Reads } from './reads.ts'

/** What the embedded engine takes of owner and key together, so that state can move there. */
const MAX_KEY_BYTES = 1900

/** By key; undefined = removed. */
export type Writes = ReadonlyMap<string, string | undefined>

interface ReadList extends Bounds {
  range: StateRange
  digest: Buffer | null
}

export class Draft implements StateTransaction {
  readonly writes = new Map<string, string | undefined>()
  /** Digests by key; null = there was none. */
  readonly gets = new Map<string, Buffer | null>()
  readonly lists: ReadList[] = []
  /** A key was seen with two values: what the body has made of it is no answer. */
  torn = false
  /** Something that was read is not stored yet. */
  sawPending = false
  /** Why a read has failed: what the body throws because of it is no answer to what it has read. */
  failure: unknown
  private readonly reads: Reads
  private readonly owner: string
  private readonly pending: Writes
  private open = true

  constructor(reads: Reads, owner: string, pending: Writes) {
    this.reads = reads
    this.owner = owner
    this.pending = pending
  }

  async get<T>(key: string): Promise<T | undefined> {
    this.requireOpen()
    if (this.writes.has(key)) return parsed<T>(this.writes.get(key))
    const text = this.pending.has(key) ? this.fromPending(key) : await this.noting(this.reads.get(this.owner, key))
    const digest = text === undefined ? null : digestOf(text)
    const before = this.gets.get(key)
    if (before !== undefined && !isSame(before, digest)) this.torn = true
    this.gets.set(key, digest)
    return parsed<T>(text)
  }

  async list<T>(range: StateRange = {}): Promise<StateEntry<T>[]> {
    this.requireOpen()
    const over = [...this.pending].filter(([key]) => isWithin(key, range))
    // Before it waits: what is written meanwhile is not of this list.
    const own = [...this.writes].filter(([key]) => isWithin(key, range))
    const more = (limit: number | undefined, writes: Writes | [string, string | undefined][]): number | undefined =>
      limit === undefined ? undefined : limit + [...writes].filter(([, text]) => text === undefined).length
    const wanted = more(range.limit, own)
    const stored = await this.noting(this.reads.list(this.owner, boundsOf(range, more(wanted, over))))
    if (over.length > 0) this.sawPending = true
    const found = merged(stored, over, wanted)
    this.lists.push({ range, ...boundsOf(range, wanted), digest: listDigest(found) })
    return merged(found, own, range.limit).map(entryOf<T>)
  }

  put(key: string, value: unknown): void {
    this.requireOpen()
    const text = JSON.stringify(value)
    if (text === undefined) throw new TypeError(`cannot store undefined under "${key}"; use delete`)
    this.writes.set(this.storable(key), text)
  }

  delete(key: string): void {
    this.requireOpen()
    this.writes.set(this.storable(key), undefined)
  }

  end(): void {
    this.open = false
  }

  /** Reads of one statement, of what is stored, are of one time. */
  get isOfOneTime(): boolean {
    return !this.torn && !this.sawPending && this.gets.size + this.lists.length <= 1
  }

  private async noting<T>(read: Promise<T>): Promise<T> {
    try {
      return await read
    } catch (error) {
      this.failure = error
      throw error
    }
  }

  private fromPending(key: string): string | undefined {
    this.sawPending = true
    return this.pending.get(key)
  }

  private storable(key: string): string {
    if (Buffer.byteLength(`state/${this.owner}/${key}`) > MAX_KEY_BYTES)
      throw new SvcError('INVALID_REQUEST', `cannot store key "${key.slice(0, 64)}...": it takes more than ${MAX_KEY_BYTES} bytes; shorten it`)
    return key
  }

  private requireOpen(): void {
    if (!this.open) throw new Error('cannot use a state transaction: it has ended; its body must await all that it does')
  }
}

const isSame = (a: Buffer | null, b: Buffer | null): boolean => (a === null || b === null ? a === b : a.equals(b))

function merged(rows: Row[], over: [string, string | undefined][], limit: number | undefined): Row[] {
  if (over.length === 0) return limit === undefined ? rows : rows.slice(0, limit)
  const all = new Map(rows.map(({ key, text }) => [key, text]))
  for (const [key, text] of over) {
    if (text === undefined) all.delete(key)
    else all.set(key, text)
  }
  const sorted = [...all].sort(([a], [b]) => utf8Order(a, b)).map(([key, text]) => ({ key, text }))
  return limit === undefined ? sorted : sorted.slice(0, limit)
}
