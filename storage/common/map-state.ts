/** Plugins' state as one ordered map an owner. Keys are ordered by their UTF-8 bytes; values are copied on the way in and out. */
import type { StateEntry, StateRange, StateStore, StateTransaction } from 'svcdb'
import { SvcError } from 'svcdb/lib/errors'
import { listIn, runOn } from './state-map.ts'

/** Times that a body runs while others commit. */
const MAX_ATTEMPTS = 1000

export class MapState implements StateStore {
  /** Never changed: a commit puts another one in its place. */
  protected entries: ReadonlyMap<string, unknown>

  constructor(entries: ReadonlyMap<string, unknown> = new Map()) {
    this.entries = entries
  }

  async get<T>(key: string): Promise<T | undefined> {
    return structuredClone(this.entries.get(key)) as T | undefined
  }

  async list<T>(range: StateRange = {}): Promise<StateEntry<T>[]> {
    return listIn<T>(this.entries, range)
  }

  async transaction<T>(body: (tx: StateTransaction) => T | Promise<T>): Promise<T> {
    for (let attempt = 0; attempt < MAX_ATTEMPTS; attempt++) {
      const before = this.entries
      const draft = new Map(before)
      const result = await runOn(draft, body)
      if (await this.commit(before, draft)) return result
    }
    throw new SvcError('CONFLICT', 'cannot commit a state transaction: others came first each time; try again')
  }

  /** @returns false when others came first. */
  protected commit(before: ReadonlyMap<string, unknown>, draft: ReadonlyMap<string, unknown>): boolean | Promise<boolean> {
    if (this.entries !== before) return false
    this.entries = draft
    return true
  }
}
