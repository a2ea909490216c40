/** The plugins' memory, in the catalog's LMDB: ordered keys below `state/<owner>/`, JSON values. Keys are ordered by their UTF-8. */
import type { StateEntry, StateRange, StateReader, StateStore, StateTransaction } from 'svcdb'
import { SvcError } from 'svcdb/lib/errors'
import { Draft, entryOf, parsed, type StateTexts, type TextEntry, utf8Order } from '../../common/state-draft.ts'
import type { Entries } from './state-commits.ts'
import type { CatalogStore } from './store.ts'

/** Times that a body runs whose reads others change. */
const MAX_ATTEMPTS = 1000
const encoder = new TextEncoder()
/** A byte order mark at the beginning is part of the text. */
const decoder = new TextDecoder('utf-8', { ignoreBOM: true })

/** One owner's part of a catalog. */
class OwnedTexts implements StateTexts {
  readonly root: string
  private readonly entries: Entries
  /** Greater than any key of the owner: "0" follows "/". */
  private readonly behind: string

  constructor(entries: Entries, owner: string) {
    this.entries = entries
    this.root = `state/${owner}/`
    this.behind = `state/${owner}0`
  }

  text(key: string): string | undefined {
    const bytes = this.entries.get(this.root + key)
    return bytes === undefined ? undefined : decoder.decode(bytes)
  }

  texts({ prefix = '', start = '', end, limit = Number.POSITIVE_INFINITY }: StateRange): TextEntry[] {
    const from = this.root + (utf8Order(start, prefix) > 0 ? start : prefix)
    const found: TextEntry[] = []
    if (limit <= 0) return found
    for (const { key, bytes } of this.entries.range({ start: from, end: end === undefined ? this.behind : this.root + end })) {
      if (!key.startsWith(this.root + prefix)) break
      found.push({ key: key.slice(this.root.length), text: decoder.decode(bytes) })
      if (found.length >= limit) break
    }
    return found
  }
}

/** Owners that have a key, in order; what the engine itself keeps (`storage.…`) is not of them, it stays with the points. */
export function ownersIn(catalog: Pick<CatalogStore, 'range'>): string[] {
  const owners: string[] = []
  for (let start = 'state/'; ; ) {
    const [first] = catalog.range({ start, end: 'state0', limit: 1 })
    if (first === undefined) return owners
    const owner = first.key.slice('state/'.length, first.key.indexOf('/', 'state/'.length))
    if (!owner.startsWith('storage.')) owners.push(owner)
    start = `state/${owner}0`
  }
}

export class LmdbStateReader implements StateReader {
  protected readonly stored: OwnedTexts

  constructor(entries: Entries, owner: string) {
    this.stored = new OwnedTexts(entries, owner)
  }

  async get<T>(key: string): Promise<T | undefined> {
    return parsed<T>(this.stored.text(key))
  }

  async list<T>(range: StateRange = {}): Promise<StateEntry<T>[]> {
    return this.stored.texts(range).map(entryOf<T>)
  }
}

/**
 * Transactions are optimistic: what a body has read is compared with what it is when its writes are committed, and the body runs again if it differs. A body
 * sees what others are about to commit, so that many that change one thing become durable together.
 */
export class LmdbState extends LmdbStateReader implements StateStore {
  private readonly catalog: CatalogStore
  private readonly owner: string
  private readonly pending: OwnedTexts

  constructor(store: CatalogStore, owner: string) {
    super(store, owner)
    this.catalog = store
    this.owner = owner
    this.pending = new OwnedTexts(store.states.pending, owner)
  }

  async transaction<T>(body: (tx: StateTransaction) => T | Promise<T>): Promise<T> {
    let answer = await this.attempt(body, this.pending)
    for (let attempts = 1; 'again' in answer; attempts++) {
      if (attempts === MAX_ATTEMPTS)
        throw new SvcError('CONFLICT', 'cannot commit a state transaction: what it has read was changed by others each time; try again')
      // What would not have been written must not be of what is not durable.
      const source = answer.again === 'durable' ? this.stored : this.pending
      const begun = await this.catalog.states.inTurn(this.owner, async () => ({ attempt: await this.begin(body, source) }))
      answer = await begun.attempt()
    }
    return answer.result
  }

  private async attempt<T>(body: (tx: StateTransaction) => T | Promise<T>, source: OwnedTexts): Promise<Attempted<T>> {
    const end = await this.begin(body, source)
    return end()
  }

  /** Runs the body, and asks for its commit. @returns what waits for that. */
  private async begin<T>(body: (tx: StateTransaction) => T | Promise<T>, source: OwnedTexts): Promise<() => Promise<Attempted<T>>> {
    const draft = new Draft(source)
    try {
      const result = await body(draft)
      if (draft.writes.size === 0) return async () => (draft.isStale(this.stored) ? { again: 'durable' } : { result })
      const stored = this.commit(draft)
      stored.catch(() => {}) // whoever waits is told
      return async () => ((await stored) ? { result } : { again: 'any' })
    } catch (error) {
      // What a body reads one after the other may be of two times: what it makes of that is not an answer.
      return async () => {
        if (draft.isStale(this.stored)) return { again: 'durable' }
        throw error
      }
    } finally {
      draft.end()
    }
  }

  private commit(draft: Draft): Promise<boolean> {
    const { root } = this.stored
    const changes = new Map<string, Uint8Array | undefined>()
    for (const [key, text] of draft.writes) changes.set(root + key, text === undefined ? undefined : encoder.encode(text))
    return this.catalog.states.commit(changes, (now) => draft.isStale(new OwnedTexts(now, this.owner)))
  }
}

type Attempted<T> = { result: T } | { again: 'any' | 'durable' }
