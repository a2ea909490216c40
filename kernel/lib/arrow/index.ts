/** Arrow for plugins: results as record batches, and record batches of clients as columns. */
export * from './encoder.ts'
export * from './framing.ts'
export * from './reader.ts'
export * from './series-columns.ts'
export * from './types.ts'
