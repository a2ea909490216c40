/** State as an ordered map of one owner's keys, which a transaction copies. Keys are ordered by their UTF-8 bytes; values are copied on the way in and out. */
import type { StateEntry, StateRange, StateTransaction } from 'svcdb'

/** A body on a copy of what there is. */
export async function runOn<T>(draft: Map<string, unknown>, body: (tx: StateTransaction) => T | Promise<T>): Promise<T> {
  let open = true
  const within = <R>(use: () => R): R => {
    if (!open) throw new Error('cannot use a state transaction: it has ended; its body must await all that it does')
    return use()
  }
  try {
    return await body({
      get: async <V>(key: string) => within(() => copy(draft.get(key)) as V | undefined),
      put: (key, value) => within(() => void draft.set(key, copy(value))),
      delete: (key) => within(() => void draft.delete(key)),
      list: async <V>(range: StateRange = {}) => within(() => listIn<V>(draft, range)),
    })
  } finally {
    open = false
  }
}

export function listIn<T>(entries: ReadonlyMap<string, unknown>, { prefix = '', start, end, limit }: StateRange): StateEntry<T>[] {
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
