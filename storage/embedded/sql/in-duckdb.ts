/** What runs a statement in DuckDB: with it the library is loaded. */

export { openSql } from './open.ts'
export { sqlSetup } from './setup.ts'
