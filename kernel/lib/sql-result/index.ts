/** Rows of SQL answers as JSON, and the names of their types. */
export * from './json.ts'
export * from './type.ts'
