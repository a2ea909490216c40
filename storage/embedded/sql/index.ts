/** The SQL layer of the embedded engine, as its reader uses it. What runs statements in DuckDB is apart (in-duckdb.ts): it loads DuckDB. */

export { type Node, parse, parsedBefore } from './ast.ts'
export { sqlError } from './errors.ts'
export type { TagHint } from './host.ts'
export type { LaneBlock, LaneHost, LaneRows } from './lane/host.ts'
export type { NewestPlan } from './lane/newest.ts'
export { type NewestOfSeries, type NewestTable, oldestNewest } from './lane/newest-answer.ts'
export { checkedTree, isLanes, type LaneOptions, type OpenedLane, openLane } from './lane/open-lane.ts'
export type { ScanPlan } from './lane/plan.ts'
export type { LaneCatalog } from './lane/recognise.ts'
export { type Bucket, type OrderedRows, recogniseTimeOrder, type TimeOrder, type ValuesAtEnds, withFirstRows } from './time-order.ts'
