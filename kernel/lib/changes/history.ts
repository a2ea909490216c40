/**
 * @experimental The history that a place belongs to: that of one database since it was made or restored. Places of different histories say nothing of one another;
 * whoever keeps a place where several nodes keep theirs keeps one for each history.
 */
export function historyOf(position: string): string {
  return position.slice(0, Math.max(0, position.indexOf('-')))
}

/** As much of a `Storage` as says whose points it has. */
export interface PointsOfNode {
  capabilities: ReadonlySet<string>
  changes(options: { measurements: readonly [] }): { position(): Promise<string>; close(): void }
}

/**
 * @experimental The history of points that are this node's own though others share its state, as those of the embedded engine beside a state in PostgreSQL: what has become of
 * them is kept by it. Undefined where no other node shares the state, or all share the points as well. Call from the start phase on.
 */
export async function ownHistory(storage: PointsOfNode): Promise<string | undefined> {
  const { capabilities } = storage
  if (!capabilities.has('shared_state') || !capabilities.has('changes')) return undefined
  const cursor = storage.changes({ measurements: [] })
  try {
    return historyOf(await cursor.position())
  } finally {
    cursor.close()
  }
}
