/** Queries of PromQL for other plugins: whoever answers them provides the service PROMQL_QUERIES, a `PromqlQueries`. */
export const PROMQL_QUERIES = 'promql_queries'

/** Milliseconds since the Unix epoch; `step` milliseconds. */
export type PromqlTime = { time: number } | { start: number; end: number; step: number }

/** The service PROMQL_QUERIES. */
export interface PromqlQueries {
  /**
   * At one time, or at every step of a range, under the limits of the HTTP API.
   * @param namespace as `CallContext.dataNamespace`. @returns the whole answer of Prometheus' HTTP API, parsed. @throws SvcError PROMQL_ERROR and those of the storage.
   */
  query(namespace: string, query: string, at: PromqlTime): Promise<unknown>
}
