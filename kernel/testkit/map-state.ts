/** A state store that is a map, for tests of what is kept in one. */
import type { StateStore, StateTransaction } from '../storage/storage.ts'

/** @param commit called before each transaction, and fails it by a throw. */
export function mapState(commit: () => void = () => {}): StateStore {
  const entries = new Map<string, unknown>()
  const get = <T>(key: string) => entries.get(key) as T | undefined
  const list: StateStore['list'] = <T>({ prefix = '' } = {}) =>
    [...entries]
      .filter(([key]) => key.startsWith(prefix))
      .sort(([a], [b]) => (a < b ? -1 : 1))
      .map(([key, value]) => ({ key, value: value as T }))
  const tx: StateTransaction = { get, list, put: (key, value) => void entries.set(key, value), delete: (key) => void entries.delete(key) }
  return {
    get,
    list,
    async transaction(body) {
      commit()
      return body(tx)
    },
  }
}
