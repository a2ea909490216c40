/** How large a statement may be: read by the config, which loads nothing of the SQL layer. */
export interface SqlLimits {
  /** Bytes of UTF-8. */
  textBytes: number
  /** Levels of expressions, subqueries and set operations within each other. */
  depth: number
  /** Nodes of the syntax tree, where each reference to a common table expression counts as often as it is repeated. */
  nodes: number
}

export const DEFAULT_LIMITS: Readonly<SqlLimits> = { textBytes: 131_072, depth: 256, nodes: 20_000 }
