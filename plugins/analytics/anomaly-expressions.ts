/** Detectors by name in SQL: what the constants of a call make of it. */
import type { SqlConstant } from 'svcdb'
import { SvcError } from 'svcdb/lib/errors'
import { DETECTORS, namesOfOne, namesOfSeveral } from './detect/detectors.ts'

export function anomaly_score([, detector]: readonly SqlConstant[]): string {
  requireDetector('anomaly_score', String(detector), namesOfOne())
  return detector === 'zscore' ? 'abs(zscore(v) OVER whole) / threshold' : `_detector_score(v, '${detector}') OVER ordered / threshold`
}

export function detect_anomalies([detector, threshold]: readonly SqlConstant[]): string {
  requireDetector('detect_anomalies', String(detector), namesOfOne())
  const limit = Number(threshold) > 0 ? Number(threshold) : DETECTORS[String(detector)].threshold
  return detector === 'zscore' ? `abs(zscore(v) OVER whole) > ${limit}` : `_detector_score(v, '${detector}') OVER ordered > ${limit}`
}

export function multivariate_anomaly([, detector]: readonly SqlConstant[]): string {
  requireDetector('multivariate_anomaly', String(detector), namesOfSeveral())
  return detector === 'mahalanobis'
    ? '_mahalanobis(zscore(a) OVER whole, zscore(b) OVER whole, coalesce(corr(a, b) OVER whole, 0)) / threshold'
    : `_detector_score_of_two(a, b, '${detector}') OVER ordered / threshold`
}

function requireDetector(name: string, detector: string, names: readonly string[]): void {
  if (!names.includes(detector)) throw new SvcError('SQL_ERROR', `cannot call ${name}: there is no detector "${detector}"; use one of ${names.join(', ')}`)
}
