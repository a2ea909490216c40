/** Arrow for plugins: results as record batches, and record batches of clients as columns. */
export type { ReadLimits } from './batch-reader.ts'
export { ArrowEncoder, type EncoderOptions, schemaMessage } from './encoder.ts'
export { type ArrowMessage, END_OF_STREAM, frame, type MessagePrefix, streamPrefix } from './framing.ts'
export { ArrowReader } from './reader.ts'
export { fieldTypeName, seriesColumns } from './series-columns.ts'
export { arrowSchema, dataType } from './types.ts'
