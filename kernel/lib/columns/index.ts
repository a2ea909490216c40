/** Columns: the batches that points are written in, the samples that are read, and the tables that decoders keep of known series. */
export * from './batch.ts'
export * from './key-table.ts'
export * from './metric-fields.ts'
export * from './number-list.ts'
export * from './per-namespace.ts'
export * from './samples.ts'
export * from './time-merge.ts'
