/** What aggregations say about their operands, in the words users of Prometheus know. */
import { formatFloat } from '../functions/format.ts'

/** From here on numbers in messages have an exponent. */
const EXPONENT_FROM = 6

export const number = (value: number): string => formatFloat(value, EXPONENT_FROM)

export const histogramIgnoredIn = (op: string): string => `ignored histogram in ${op} aggregation`

export const MIXED_AGGREGATION = 'encountered a mix of histograms and floats for aggregation'

export const invalidRatio = (ratio: number, capped: number): string =>
  `ratio value should be between -1 and 1, got ${number(ratio)}, capping to ${number(capped)}`

export const invalidQuantileParameter = (q: number): string => `quantile value should be between 0 and 1, got ${number(q)}`
