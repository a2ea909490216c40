/** The SQL layer of the embedded engine, as its reader uses it. */

export type { RelationRequest, SqlHost, SqlMeasurement, SqlMeasurementColumn, TagHint } from './host.ts'
export { type OpenedSql, openSql } from './open.ts'
export { type PreparedSql, prepareSql } from './prepare.ts'
export { sqlSetup } from './setup.ts'
