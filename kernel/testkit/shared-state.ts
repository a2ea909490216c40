/** For tests: nodes of one process that share their state, each with points of its own and a way to be cut off. */
import { loadEngine } from '../loader.ts'
import type { StateStore, StateTransaction } from '../storage/state.ts'
import type { StorageEngine } from '../storage/storage.ts'
import { mapState } from './map-state.ts'

interface Watcher {
  by: StorageEngine
  owner: string
  prefixes: readonly string[]
  told(keys: readonly string[]): void
}

/** State that several nodes of one test share. */
export class SharedState {
  private readonly watchers = new Set<Watcher>()
  private readonly stores = new Map<string, StateStore>()

  /** What an owner has in it. */
  of(owner: string): StateStore {
    let store = this.stores.get(owner)
    if (store === undefined) this.stores.set(owner, (store = mapState()))
    return store
  }

  /** An engine for `boot({ storage })` of a node that sees this state, as long as `reached` says so. @param told whether it hears at once of what others change. */
  async engine(reached: () => boolean = () => true, told = false): Promise<StorageEngine> {
    const { createEngine, capabilities } = await loadEngine('memory', '.')
    const engine = createEngine({ config: {}, now: Date.now } as never)
    const away = () => Promise.reject(new Error('the state store is away'))
    const state = (owner: string): StateStore => {
      const store = this.of(owner)
      return {
        get: (key) => (reached() ? store.get(key) : away()),
        list: (range) => (reached() ? store.list(range) : away()),
        transaction: (body) => (reached() ? this.commit(engine, owner, body) : away()),
        ...(told ? { watch: (prefixes, hear) => this.watch({ by: engine, owner, prefixes, told: (keys) => void (reached() && hear(keys)) }) } : {}),
      }
    }
    return Object.assign(engine, { capabilities: new Set([...capabilities, 'shared_state']), state })
  }

  private async watch(watcher: Watcher): Promise<() => void> {
    this.watchers.add(watcher)
    return () => void this.watchers.delete(watcher)
  }

  /** Tells the other engines what was written. */
  private async commit<T>(by: StorageEngine, owner: string, body: (tx: StateTransaction) => T | Promise<T>): Promise<T> {
    const keys = new Set<string>()
    const result = await this.of(owner).transaction((tx) => {
      const put = (key: string, value: unknown): void => {
        keys.add(key)
        tx.put(key, value)
      }
      const remove = (key: string): void => {
        keys.add(key)
        tx.delete(key)
      }
      return body({ get: tx.get, list: tx.list, put, delete: remove })
    })
    for (const watcher of this.watchers) {
      const told = [...keys].filter((key) => watcher.prefixes.some((prefix) => key.startsWith(prefix)))
      if (watcher.by !== by && watcher.owner === owner && told.length > 0) watcher.told(told)
    }
    return result
  }
}
