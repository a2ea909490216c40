/** What functions say about samples they could not use, in the words users of Prometheus know. */
import { formatFloat, quote } from './format.ts'

export const mixedFloatsHistograms = (metric: string): string => `encountered a mix of histograms and floats for metric name ${quote(metric)}`

export const histogramIgnored = (metric: string): string =>
  `ignored histograms in a range containing both floats and histograms for metric name ${quote(metric)}`

export const mixedSchemas = (metric: string): string =>
  `vector contains a mix of histograms with exponential and custom buckets schemas for metric name ${quote(metric)}`

export const notCounter = (metric: string): string => `this native histogram metric is not a counter: ${quote(metric)}`

export const notGauge = (metric: string): string => `this native histogram metric is not a gauge: ${quote(metric)}`

export const possibleNonCounter = (metric: string): string => `metric might not be a counter, name does not end in _total/_sum/_count/_bucket: ${quote(metric)}`

export const invalidQuantile = (q: number): string => `quantile value should be between 0 and 1, got ${formatFloat(q)}`

export const invalidIntegralStrategy = (strategy: number): string => `strategy should be 0, 1, or 2 (default), using 2, got ${formatFloat(strategy)}`

export const badBucketLabel = (metric: string, label: string): string =>
  forMetric(`bucket label "le" is missing or has a malformed value of ${quote(label)}`, metric)

export const mixedClassicNative = (metric: string): string => forMetric('vector contains a mix of classic and native histograms', metric)

export const quantileNaNResult = (metric: string): string => forMetric('input to histogram_quantile has NaN observations, result is NaN', metric)

export const quantileNaNSkew = (metric: string): string => forMetric('input to histogram_quantile has NaN observations, result is skewed higher', metric)

export const fractionNaNs = (metric: string): string =>
  forMetric('input to histogram_fraction has NaN observations, which are excluded from all fractions', metric)

type HistogramOperation = 'addition' | 'subtraction' | 'aggregation'

export const resetCollision = (operation: HistogramOperation): string => `conflicting counter resets during histogram ${operation}`

export const mismatchedBounds = (operation: HistogramOperation): string => `mismatched custom buckets were reconciled during ${operation}`

export const SORT_IN_RANGE = 'sort is ineffective for range queries since results are always ordered by labels'

function forMetric(text: string, metric: string): string {
  return metric === '' ? text : `${text} for metric name ${quote(metric)}`
}
