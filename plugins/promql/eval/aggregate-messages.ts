/** What aggregations say about their operands, in the words users of Prometheus know. */
import { formatFloat } from '../functions/format.ts'

export const histogramIgnoredIn = (op: string): string => `ignored histogram in ${op} aggregation`

export const MIXED_AGGREGATION = 'encountered a mix of histograms and floats for aggregation'

export const invalidRatio = (ratio: number, capped: number): string =>
  `ratio value should be between -1 and 1, got ${formatFloat(ratio)}, capping to ${formatFloat(capped)}`
