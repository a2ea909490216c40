/** Columns: the batches that points are written in, the chunks and samples that are read, and the table that decoders keep of known series. */
export type { AggregateRequest, AggregateSet, GroupFunction, WindowFunction } from './aggregates.ts'
export { ByteHeap, TableBatch, typeConflict, WriteBatch } from './batch.ts'
export type { ColumnChunk, Matcher, MatcherOp, SeriesChunk } from './chunks.ts'
export { bytesPerValue, Column } from './column.ts'
export { HeldRows, type HoldOptions, heldRows, type RowHold } from './held-rows.ts'
export {
  bytesOfIntegers,
  greatestInteger,
  type Integers,
  isIntegers,
  leastInteger,
  narrowIntegers,
  narrowSumOfIntegers,
  sumOfIntegers,
} from './integers.ts'
export { KeyTable } from './key-table.ts'
export { FLOATS_BESIDE, HISTOGRAMS_BESIDE, VALUE_FIELD } from './metric-fields.ts'
export {
  SAMPLE_FLOAT,
  SAMPLE_HISTOGRAM,
  SAMPLE_STALE,
  type SampleRequest,
  type SampleRows,
  type SampleSet,
  type SampleWindows,
  type SeriesSet,
  type StoredRows,
  type StoredSamples,
  type TagColumn,
  type TagSets,
  TooManySamplesError,
} from './samples.ts'
export type { FieldInfo, FieldType, MeasurementRef, SeriesResolver, WriteLimits } from './schema.ts'
export { TimeMerge } from './time-merge.ts'
export { isShown, valueAt } from './values.ts'
