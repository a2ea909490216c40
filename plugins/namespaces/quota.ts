/** Quotas: their members and bounds. Pure. */
import type { NamespaceQuota, RequestLimits } from 'svcdb'

const TIB = 2 ** 40

/** The most that each may be set to; 0 = no bound. */
export const BOUNDS: Readonly<Record<keyof NamespaceQuota, number>> = {
  max_series_count: 1_000_000_000,
  max_ingestion_rate: 100_000_000,
  max_storage_bytes: 100 * TIB,
  max_measurements: 1_000_000,
  max_models: 1_000_000,
  max_request_rps: 1_000_000,
  max_request_burst: 1_000_000,
}

const QUOTA_MEMBERS = Object.keys(BOUNDS) as (keyof NamespaceQuota)[]

export const NO_QUOTA: NamespaceQuota = Object.freeze(Object.fromEntries(QUOTA_MEMBERS.map((member) => [member, 0]))) as unknown as NamespaceQuota

/** Those of an object that are members of a quota. @throws Error naming a member that is no whole number within its bounds. */
export function quotaMembers(given: Record<string, unknown>): Partial<NamespaceQuota> {
  const quota: Partial<NamespaceQuota> = {}
  for (const member of QUOTA_MEMBERS) {
    const value = given[member]
    if (value === undefined) continue
    if (typeof value !== 'number' || !Number.isInteger(value) || value < 0 || value > BOUNDS[member])
      throw new Error(`"${member}" is not an integer from 0 to ${BOUNDS[member]}`)
    quota[member] = value
  }
  return quota
}

/** Why limits on requests would have no effect, or undefined. @param limits what enforces them, where something is selected. */
export function limiterProblem(
  { max_request_rps: rps = 0, max_request_burst: burst = 0 }: Partial<NamespaceQuota>,
  limits: RequestLimits | undefined,
): string | undefined {
  if (rps + burst === 0 || limits?.enforced) return undefined
  return limits === undefined
    ? 'nothing limits requests here; add the plugin "rate_limit" to plugins'
    : 'rate_limit.enabled is false; set it to true for requests to be limited'
}
