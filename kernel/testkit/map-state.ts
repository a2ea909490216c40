/** A state store that is a map, for tests of what is kept in one. */
import type { StateRange, StateStore, StateTransaction } from '../storage/state.ts'

/** Transactions run one after the other. @param commit called before each, and fails it by a throw. */
export function mapState(commit: () => void = () => {}): StateStore {
  let entries = new Map<string, unknown>()
  let last: Promise<unknown> = Promise.resolve()
  const readerOf = (from: () => Map<string, unknown>): Pick<StateStore, 'get' | 'list'> => ({
    get: async <T>(key: string) => from().get(key) as T | undefined,
    list: async <T>({ prefix = '', start = '', end, limit }: StateRange = {}) =>
      [...from()]
        .filter(([key]) => key.startsWith(prefix) && key >= start && (end === undefined || key < end))
        .sort(([a], [b]) => (a < b ? -1 : 1))
        .slice(0, limit)
        .map(([key, value]) => ({ key, value: value as T })),
  })
  const run = async <T>(body: (tx: StateTransaction) => T | Promise<T>): Promise<T> => {
    commit()
    const draft = new Map(entries)
    const result = await body({ ...readerOf(() => draft), put: (key, value) => void draft.set(key, value), delete: (key) => void draft.delete(key) })
    entries = draft
    return result
  }
  return {
    ...readerOf(() => entries),
    transaction(body) {
      const done = last.then(() => run(body))
      last = done.catch(() => {})
      return done
    },
  }
}
