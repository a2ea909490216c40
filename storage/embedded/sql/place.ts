/** Where a statement's calls of DuckDB wait for those of others. */
export interface Place {
  /** Has a call that may take long wait for others; one call at a time. */
  during<T>(call: () => Promise<T>): Promise<T>
  /** Likewise one that reads no rows: it parses, plans or prepares, and waits for others of that kind. */
  planning<T>(call: () => Promise<T>): Promise<T>
}

/** Nothing else is at work beside it. */
export const ALONE: Place = { during: (call) => call(), planning: (call) => call() }
