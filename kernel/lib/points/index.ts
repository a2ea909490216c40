/** Points as objects, for writers to whom ease is worth more than speed: collected, checked one by one, and put into the columns of a batch. */
export { type Fields, PointBuffer, type PointLimits, type Refusals, type Tags } from './point-buffer.ts'
export { decimal, type FieldValue, histogram, TypedValue, uint64 } from './values.ts'
