/** Constants of the bytes of a histogram: docs/formats/histogram.md. */
import type { CounterResetHint } from './native-histogram.ts'

export const HISTOGRAM_VERSION = 1
/** Bits of the second byte; its two lowest are the counter reset hint. */
export const INTEGER = 4
/** Counts are varints of differences, not doubles. */
export const PACKED = 8
/** Nothing but a mark: the series ends here. */
export const STALE = 16
export const HINTS: readonly CounterResetHint[] = ['unknown', 'reset', 'not_reset', 'gauge']
/** Counts up to here can be packed: twice their difference is an exact double. */
export const MAX_PACKED = 2 ** 52
/** Zero thresholds that are powers of two take one byte: its value less this is the exponent. */
export const THRESHOLD_BIAS = 192
export const THRESHOLD_DOUBLE = 255
/** Bucket numbers stay in here; those that any double falls into are within 2^19. */
export const MAX_INDEX = 2 ** 30
