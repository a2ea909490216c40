/** Plugins' state: one ordered map an owner. Keys are ordered by their UTF-8 bytes; values are copied on the way in and out. */
import type { StateStore, StateTransaction } from 'svcdb'

type Range = { prefix?: string; start?: string; end?: string; limit?: number }

export class MemoryState implements StateStore {
  private entries = new Map<string, unknown>()

  get<T>(key: string): T | undefined {
    return copy(this.entries.get(key)) as T | undefined
  }

  list<T>(range: Range = {}): { key: string; value: T }[] {
    return listIn<T>(this.entries, range)
  }

  async transaction<T>(body: (tx: StateTransaction) => T): Promise<T> {
    const draft = new Map(this.entries)
    let open = true
    const within = <R>(use: () => R): R => {
      if (!open) throw new Error('cannot use a state transaction: it has ended; its body must not be async')
      return use()
    }
    try {
      const result = body({
        get: <V>(key: string) => within(() => copy(draft.get(key)) as V | undefined),
        put: (key, value) => within(() => void draft.set(key, copy(value))),
        delete: (key) => within(() => void draft.delete(key)),
        list: <V>(range: Range = {}) => within(() => listIn<V>(draft, range)),
      })
      if (result instanceof Promise) {
        result.catch(() => {})
        throw new Error('cannot commit a state transaction: its body must not be async')
      }
      this.entries = draft
      return result
    } finally {
      open = false
    }
  }
}

function listIn<T>(entries: Map<string, unknown>, { prefix = '', start, end, limit }: Range): { key: string; value: T }[] {
  const keys = [...entries.keys()].filter(
    (k) => k.startsWith(prefix) && (start === undefined || utf8Order(k, start) >= 0) && (end === undefined || utf8Order(k, end) < 0),
  )
  return keys
    .sort(utf8Order)
    .slice(0, limit)
    .map((key) => ({ key, value: copy(entries.get(key)) as T }))
}

function utf8Order(a: string, b: string): number {
  return Buffer.compare(Buffer.from(a), Buffer.from(b))
}

function copy(value: unknown): unknown {
  return structuredClone(value)
}
