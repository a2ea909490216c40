/** Plugins' state: one ordered map an owner. Keys are ordered by their UTF-8 bytes; values are copied on the way in and out. */
import type { StateEntry, StateRange, StateStore, StateTransaction } from 'svcdb'
import { SvcError } from 'svcdb/lib/errors'

/** Times that a body runs while others commit. */
const MAX_ATTEMPTS = 1000

export class MemoryState implements StateStore {
  /** Never changed: a commit puts another one in its place. */
  private entries: ReadonlyMap<string, unknown> = new Map()

  async get<T>(key: string): Promise<T | undefined> {
    return copy(this.entries.get(key)) as T | undefined
  }

  async list<T>(range: StateRange = {}): Promise<StateEntry<T>[]> {
    return listIn<T>(this.entries, range)
  }

  async transaction<T>(body: (tx: StateTransaction) => T | Promise<T>): Promise<T> {
    for (let attempt = 0; attempt < MAX_ATTEMPTS; attempt++) {
      const before = this.entries
      const draft = new Map(before)
      const result = await runOn(draft, body)
      if (this.entries !== before) continue
      this.entries = draft
      return result
    }
    throw new SvcError('CONFLICT', 'cannot commit a state transaction: others came first each time; try again')
  }
}

async function runOn<T>(draft: Map<string, unknown>, body: (tx: StateTransaction) => T | Promise<T>): Promise<T> {
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

function listIn<T>(entries: ReadonlyMap<string, unknown>, { prefix = '', start, end, limit }: StateRange): StateEntry<T>[] {
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
