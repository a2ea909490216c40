/** The SQL layer of the embedded engine, as its reader uses it. */

export { parse, parsedBefore } from './ast.ts'
export { sqlError } from './errors.ts'
export type { RelationRequest, SqlHost, SqlMeasurement, SqlMeasurementColumn, TagHint } from './host.ts'
export type { LaneBlock, LaneHost, LaneRows } from './lane/host.ts'
export type { NewestPlan } from './lane/newest.ts'
export type { NewestOfSeries, NewestTable } from './lane/newest-answer.ts'
export { explainsLane, type LaneOptions, type OpenedLane, openLane } from './lane/open-lane.ts'
export type { ScanPlan } from './lane/plan.ts'
export { type OpenedSql, openSql } from './open.ts'
export { type PreparedSql, prepareSql } from './prepare.ts'
export { sqlSetup } from './setup.ts'
