/** The plugins' memory, in the catalog's LMDB: ordered keys below `state/<owner>/`, JSON values. Keys are ordered by their UTF-8. */
import type { StateEntry, StateRange, StateReader, StateStore, StateTransaction } from 'svcdb'
import { SvcError } from 'svcdb/lib/errors'
import type { CatalogStore } from './store.ts'

/** Times that a body runs whose reads others change. The commits come one after the other, so of n transactions that meet each waits for n at most. */
const MAX_ATTEMPTS = 1000
const encoder = new TextEncoder()
/** A byte order mark at the beginning is part of the text. */
const decoder = new TextDecoder('utf-8', { ignoreBOM: true })

interface TextEntry {
  key: string
  /** JSON. */
  text: string
}

/** One owner's part of a catalog. */
export class LmdbStateReader implements StateReader {
  protected readonly root: string
  private readonly store: Pick<CatalogStore, 'get' | 'range'>
  /** Greater than any key of the owner: "0" follows "/". */
  private readonly behind: string

  constructor(store: Pick<CatalogStore, 'get' | 'range'>, owner: string) {
    this.store = store
    this.root = `state/${owner}/`
    this.behind = `state/${owner}0`
  }

  async get<T>(key: string): Promise<T | undefined> {
    return parsed<T>(this.text(key))
  }

  async list<T>(range: StateRange = {}): Promise<StateEntry<T>[]> {
    return this.texts(range).map(entryOf<T>)
  }

  protected text(key: string): string | undefined {
    const bytes = this.store.get(this.root + key)
    return bytes === undefined ? undefined : decoder.decode(bytes)
  }

  protected texts({ prefix = '', start = '', end, limit = Number.POSITIVE_INFINITY }: StateRange): TextEntry[] {
    const from = this.root + (utf8Order(start, prefix) > 0 ? start : prefix)
    const found: TextEntry[] = []
    if (limit <= 0) return found
    for (const { key, bytes } of this.store.range({ start: from, end: end === undefined ? this.behind : this.root + end })) {
      if (!key.startsWith(this.root + prefix)) break
      found.push({ key: key.slice(this.root.length), text: decoder.decode(bytes) })
      if (found.length >= limit) break
    }
    return found
  }
}

/** Transactions are optimistic: what a body has read is compared with the catalog when its writes are committed, and the body runs again if it differs. */
export class LmdbState extends LmdbStateReader implements StateStore {
  private readonly catalog: CatalogStore

  constructor(store: CatalogStore, owner: string) {
    super(store, owner)
    this.catalog = store
  }

  async transaction<T>(body: (tx: StateTransaction) => T | Promise<T>): Promise<T> {
    for (let attempt = 0; attempt < MAX_ATTEMPTS; attempt++) {
      const draft = new Draft(
        (key) => this.text(key),
        (range) => this.texts(range),
      )
      try {
        const result = await body(draft)
        if (draft.writes.size > 0) await this.commit(draft)
        else if (draft.isStale()) continue
        return result
      } catch (error) {
        // What a body reads one after the other may be of two times: what it makes of that is not an answer.
        if (error !== CHANGED && !draft.isStale()) throw error
      } finally {
        draft.end()
      }
    }
    throw new SvcError('CONFLICT', 'cannot commit a state transaction: what it has read was changed by others each time; try again')
  }

  /** @throws CHANGED when something that was read is not what it was. */
  private commit(draft: Draft): Promise<void> {
    return this.catalog.transaction((tx) => {
      if (draft.isStale()) throw CHANGED
      for (const [key, text] of draft.writes) {
        if (text === undefined) tx.remove(this.root + key)
        else tx.put(this.root + key, encoder.encode(text))
      }
    })
  }
}

const CHANGED = new Error('what a state transaction has read was changed')

/** What one run of a body has read and written. */
class Draft implements StateTransaction {
  /** By key: JSON, undefined = deleted. */
  readonly writes = new Map<string, string | undefined>()
  private readonly text: (key: string) => string | undefined
  private readonly texts: (range: StateRange) => TextEntry[]
  private readonly reads: (() => boolean)[] = []
  private open = true

  constructor(text: (key: string) => string | undefined, texts: (range: StateRange) => TextEntry[]) {
    this.text = text
    this.texts = texts
  }

  async get<T>(key: string): Promise<T | undefined> {
    this.requireOpen()
    if (this.writes.has(key)) return parsed<T>(this.writes.get(key))
    const text = this.text(key)
    this.reads.push(() => this.text(key) === text)
    return parsed<T>(text)
  }

  async list<T>(range: StateRange = {}): Promise<StateEntry<T>[]> {
    this.requireOpen()
    const { prefix = '', start = '', end, limit } = range
    const { limit: _, ...unlimited } = range
    const read = this.writes.size === 0 ? range : unlimited
    const found = this.texts(read)
    this.reads.push(() => isSame(this.texts(read), found))
    const merged = new Map(found.map(({ key, text }) => [key, text]))
    for (const [key, text] of this.writes) {
      if (!key.startsWith(prefix) || utf8Order(key, start) < 0 || (end !== undefined && utf8Order(key, end) >= 0)) continue
      if (text === undefined) merged.delete(key)
      else merged.set(key, text)
    }
    const all = [...merged].sort(([a], [b]) => utf8Order(a, b)).map(([key, text]) => entryOf<T>({ key, text }))
    return limit === undefined ? all : all.slice(0, limit)
  }

  put(key: string, value: unknown): void {
    this.requireOpen()
    const text = JSON.stringify(value)
    if (text === undefined) throw new TypeError(`cannot store undefined under "${key}"; use delete`)
    this.writes.set(key, text)
  }

  delete(key: string): void {
    this.requireOpen()
    this.writes.set(key, undefined)
  }

  isStale(): boolean {
    return this.reads.some((isUnchanged) => !isUnchanged())
  }

  end(): void {
    this.open = false
  }

  private requireOpen(): void {
    if (!this.open) throw new Error('cannot use a state transaction: it has ended; its body must await all that it does')
  }
}

const parsed = <T>(text: string | undefined): T | undefined => (text === undefined ? undefined : (JSON.parse(text) as T))
const entryOf = <T>({ key, text }: TextEntry): StateEntry<T> => ({ key, value: JSON.parse(text) as T })

function isSame(a: readonly TextEntry[], b: readonly TextEntry[]): boolean {
  return a.length === b.length && a.every(({ key, text }, i) => key === b[i].key && text === b[i].text)
}

function utf8Order(a: string, b: string): number {
  return Buffer.compare(Buffer.from(a), Buffer.from(b))
}
