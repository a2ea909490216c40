/** Quotas: their members and bounds. Pure. */
import type { NamespaceQuota } from '../../kernel/namespace-directory.ts'

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

export const QUOTA_MEMBERS = Object.keys(BOUNDS) as (keyof NamespaceQuota)[]

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
