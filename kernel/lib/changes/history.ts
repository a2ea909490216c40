/**
 * @experimental The history that a place belongs to: that of one database since it was made or restored. Places of different histories say nothing of one another;
 * whoever keeps a place where several nodes keep theirs keeps one for each history.
 */
export function historyOf(position: string): string {
  return position.slice(0, Math.max(0, position.indexOf('-')))
}
