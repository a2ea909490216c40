import type { Counter, Metrics } from 'svcdb'
import type { IssuerKeys } from './issuer-keys.ts'

export interface JwtMetrics {
  verifications: Counter
  refreshes: Counter
}

/** @param keys those of an issuer, once there are any. */
export function jwtMetrics(metrics: Metrics, keys: () => IssuerKeys | undefined): JwtMetrics {
  metrics.gauge('jwt_keys', 'Keys of the issuer that are kept', [], (gauge) => gauge.set(keys()?.size ?? 0))
  metrics.gauge('jwt_keys_age_seconds', 'Since the key set of the issuer was fetched; 0 without one', [], (gauge) => gauge.set((keys()?.ageMs ?? 0) / 1000))
  metrics.gauge('jwt_unknown_keys', 'Names of keys that the issuer does not have, as tokens gave them, that are remembered', [], (gauge) =>
    gauge.set(keys()?.unknownNames ?? 0),
  )
  return {
    verifications: metrics.counter('jwt_verifications_total', 'Tokens looked at: ok, cached (verified before), or why they were refused', ['result']),
    refreshes: metrics.counter('jwt_key_refreshes_total', 'Fetches of the key set of the issuer: done or failed', ['result']),
  }
}
