/** For tests: nodes of one process that share their state, each with points of its own and a way to be cut off. */
import { loadEngine } from '../loader.ts'
import type { StateStore } from '../storage/state.ts'
import type { StorageEngine } from '../storage/storage.ts'
import { mapState } from './map-state.ts'

export class SharedState {
  private readonly stores = new Map<string, StateStore>()

  /** What an owner has in it. */
  of(owner: string): StateStore {
    let store = this.stores.get(owner)
    if (store === undefined) this.stores.set(owner, (store = mapState()))
    return store
  }

  /** An engine for `boot({ storage })` of a node that sees this state, as long as `reached` says so. */
  async engine(reached: () => boolean = () => true): Promise<StorageEngine> {
    const { createEngine, capabilities } = await loadEngine('memory', '.')
    const engine = createEngine({ config: {}, now: Date.now } as never)
    const away = () => Promise.reject(new Error('the state store is away'))
    const state = (owner: string): StateStore => {
      const store = this.of(owner)
      return {
        get: (key) => (reached() ? store.get(key) : away()),
        list: (range) => (reached() ? store.list(range) : away()),
        transaction: (body) => (reached() ? store.transaction(body) : away()),
      }
    }
    return Object.assign(engine, { capabilities: new Set([...capabilities, 'shared_state']), state })
  }
}
