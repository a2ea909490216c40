/** The state store: what plugins must remember. It may be elsewhere, and others may write it. */
/** Keys of one owner: those that begin with `prefix`, from `start` on and before `end`; the first `limit` of them. A page goes on at its last key + "\0". */
export interface StateRange {
  prefix?: string
  start?: string
  end?: string
  limit?: number
}

/** A key and its value. */
export interface StateEntry<T> {
  key: string
  value: T
}

/** What one owner has in the state store. Keys are ordered by their UTF-8. What was committed before the call is seen, whoever committed it. */
export interface StateReader {
  get<T>(key: string): Promise<T | undefined>
  /** In the order of keys. Name a `limit` where there may be many. */
  list<T>(range?: StateRange): Promise<StateEntry<T>[]>
}

/** Reads see what the transaction itself has written. Not to be used once its body has ended. */
export interface StateTransaction extends StateReader {
  put(key: string, value: unknown): void
  delete(key: string): void
}

/** What a plugin must remember: ordered keys, JSON-like values, transactions. One owner never sees another's keys. */
export interface StateStore extends StateReader {
  /**
   * All that the body writes, or nothing; durable when the promise resolves. Transactions of an owner are serializable: where something that the body has
   * read was changed by another before the commit, the body runs again. It therefore does nothing but read and write here: no effect outside, no other
   * transaction within.
   * @throws what the body throws, and CONFLICT when others came first again and again: nothing is changed.
   */
  transaction<T>(body: (tx: StateTransaction) => T | Promise<T>): Promise<T>
  /**
   * Has other processes' commits told, of keys that begin with one of the prefixes: within a second while the store can be reached. What this process commits is not
   * told. Resolves when nothing is missed from then on. Absent where no other process can write. Use `followState`, which does what whoever keeps a copy needs.
   * @param told gets keys that were written or removed, which may have changed again; undefined: any may have been, as after a lost connection.
   * @returns ends it.
   */
  watch?(prefixes: readonly string[], told: (keys: readonly string[] | undefined) => void): Promise<() => void>
}
