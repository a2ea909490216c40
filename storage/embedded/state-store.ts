/** The plugins' memory, in the catalog's LMDB: ordered keys below `state/<owner>/`, JSON values. */
import type { StateStore, StateTransaction } from '../../kernel/storage.ts'
import type { CatalogStore } from './catalog-store.ts'

type Range = { prefix?: string; start?: string; end?: string; limit?: number }

const decoder = new TextDecoder()

export class LmdbState implements StateStore {
  private readonly store: CatalogStore
  private readonly root: string

  constructor(store: CatalogStore, owner: string) {
    this.store = store
    this.root = `state/${owner}/`
  }

  get<T>(key: string): T | undefined {
    return this.store.getJson<T>(this.root + key)
  }

  list<T>({ prefix = '', start, end, limit }: Range = {}): { key: string; value: T }[] {
    const from = this.root + (start !== undefined && start > prefix ? start : prefix)
    const to = end === undefined ? `${this.root}${prefix}\uffff` : this.root + end
    const found: { key: string; value: T }[] = []
    for (const { key, bytes } of this.store.range({ start: from, end: to, ...(limit === undefined ? {} : { limit }) })) {
      if (!key.startsWith(this.root + prefix)) break
      found.push({ key: key.slice(this.root.length), value: JSON.parse(decoder.decode(bytes)) as T })
    }
    return found
  }

  async transaction<T>(body: (tx: StateTransaction) => T): Promise<T> {
    return this.store.transaction((tx) => {
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
          if (!key.startsWith(prefix) || key < start || (end !== undefined && key >= end)) continue
          if (value === undefined) merged.delete(key)
          else merged.set(key, value as V)
        }
        const all = [...merged].sort(([a], [b]) => (a < b ? -1 : 1)).map(([key, value]) => ({ key, value }))
        return limit === undefined ? all : all.slice(0, limit)
      },
    }
  }
}
