/** The plugins' memory, in the catalog's LMDB: ordered keys below `state/<owner>/`, JSON values. Keys are ordered by their UTF-8. */
import type { StateReader, StateStore, StateTransaction } from 'svcdb'
import type { CatalogStore } from './store.ts'

type Range = { prefix?: string; start?: string; end?: string; limit?: number }

const decoder = new TextDecoder()

/** One owner's part of a catalog. */
export class LmdbStateReader implements StateReader {
  protected readonly root: string
  private readonly store: Pick<CatalogStore, 'getJson' | 'range'>
  /** Greater than any key of the owner: "0" follows "/". */
  private readonly behind: string

  constructor(store: Pick<CatalogStore, 'getJson' | 'range'>, owner: string) {
    this.store = store
    this.root = `state/${owner}/`
    this.behind = `state/${owner}0`
  }

  get<T>(key: string): T | undefined {
    return this.store.getJson<T>(this.root + key)
  }

  list<T>({ prefix = '', start = '', end, limit = Number.POSITIVE_INFINITY }: Range = {}): { key: string; value: T }[] {
    const from = this.root + (utf8Order(start, prefix) > 0 ? start : prefix)
    const found: { key: string; value: T }[] = []
    if (limit <= 0) return found
    for (const { key, bytes } of this.store.range({ start: from, end: end === undefined ? this.behind : this.root + end })) {
      if (!key.startsWith(this.root + prefix)) break
      found.push({ key: key.slice(this.root.length), value: JSON.parse(decoder.decode(bytes)) as T })
      if (found.length >= limit) break
    }
    return found
  }
}

export class LmdbState extends LmdbStateReader implements StateStore {
  private readonly catalog: CatalogStore

  constructor(store: CatalogStore, owner: string) {
    super(store, owner)
    this.catalog = store
  }

  async transaction<T>(body: (tx: StateTransaction) => T): Promise<T> {
    return this.catalog.transaction((tx) => {
      const writes = new Map<string, unknown>()
      const result = body(this.overlay(writes))
      for (const [key, value] of writes) {
        if (value === undefined) tx.remove(this.root + key)
        else tx.putJson(this.root + key, value)
      }
      return result
    })
  }

  private overlay(writes: Map<string, unknown>): StateTransaction {
    return {
      get: <V>(key: string) => (writes.has(key) ? (writes.get(key) as V | undefined) : this.get<V>(key)),
      put: (key, value) => {
        if (value === undefined) throw new TypeError(`cannot store undefined under "${key}"; use delete`)
        writes.set(key, value)
      },
      delete: (key) => {
        writes.set(key, undefined)
      },
      list: <V>(range: Range = {}) => {
        const { prefix = '', start = '', end, limit } = range
        const { limit: _, ...unlimited } = range
        const merged = new Map(this.list<V>(unlimited).map(({ key, value }) => [key, value]))
        for (const [key, value] of writes) {
          if (!key.startsWith(prefix) || utf8Order(key, start) < 0 || (end !== undefined && utf8Order(key, end) >= 0)) continue
          if (value === undefined) merged.delete(key)
          else merged.set(key, value as V)
        }
        const all = [...merged].sort(([a], [b]) => utf8Order(a, b)).map(([key, value]) => ({ key, value }))
        return limit === undefined ? all : all.slice(0, limit)
      },
    }
  }
}

function utf8Order(a: string, b: string): number {
  return Buffer.compare(Buffer.from(a), Buffer.from(b))
}
