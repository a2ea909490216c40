/**
 * Keys of objects that may lie in the store although no segment of the manifest names them: being written, or no longer needed. Noted durably before
 * the object or the manifest changes, so that after a crash nothing is left there for good.
 */
import type { StateStore } from 'svcdb'

export class Ledger {
  private readonly state: StateStore

  constructor(state: StateStore) {
    this.state = state
  }

  async keys(): Promise<string[]> {
    return (await this.state.list()).map(({ key }) => key)
  }

  async note(keys: readonly string[]): Promise<void> {
    if (keys.length === 0) return
    await this.state.transaction((tx) => {
      for (const key of keys) tx.put(key, true)
    })
  }

  async forget(keys: readonly string[]): Promise<void> {
    if (keys.length === 0) return
    await this.state.transaction((tx) => {
      for (const key of keys) tx.delete(key)
    })
  }
}
