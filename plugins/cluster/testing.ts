/** For tests: nodes of one process that share their state, each with a clock and a way to its death. */
import type { StateStore, StorageEngine } from 'svcdb'
import { loadEngine, mapState } from 'svcdb/testkit'

export class SharedState {
  private readonly stores = new Map<string, StateStore>()

  of(owner: string): StateStore {
    let store = this.stores.get(owner)
    if (store === undefined) this.stores.set(owner, (store = mapState()))
    return store
  }

  /** An engine of a node that sees this state, as long as `reached` says so. */
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
