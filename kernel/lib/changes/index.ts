/** Changes as texts, for those who tell others of them: JSON, and line protocol. */
export { deletedJson, gapJson, measurementJson, RowJson, seriesHash } from './change-json.ts'
export { historyOf, ownHistory, type PointsOfNode } from './history.ts'
export { RecentlyEncoded } from './recent.ts'
export { RowLines, seriesKey } from './row-lines.ts'
export type { ChangedColumns, DeletedSeries } from './types.ts'
