import { type Static, Type } from 'svcdb/lib/schema'

export const configSchema = Type.Object({
  interval_ms: Type.Integer({ default: 1000, minimum: 10, maximum: 3_600_000, description: 'Time between two looks at what is due' }),
  workers: Type.Integer({ default: 2, minimum: 1, maximum: 64, description: 'Slices that are computed at once, of all namespaces' }),
  max_rollups: Type.Integer({ default: 10_000, minimum: 1, maximum: 1_000_000, description: 'Rollups of all namespaces' }),
  max_rollups_per_namespace: Type.Integer({ default: 1000, minimum: 1, maximum: 100_000, description: 'Rollups of one namespace' }),
  max_rollups_per_measurement: Type.Integer({
    default: 64,
    minimum: 1,
    maximum: 100_000,
    description: 'Rollups that have one measurement as their source: each of its late writes is looked at for all of them',
  }),
  max_tiers: Type.Integer({
    default: 16,
    minimum: 1,
    maximum: 1000,
    description: 'Rollups that rest on one another, such as days on hours on minutes: late writes are looked at for all that are above',
  }),
  max_series_per_rollup: Type.Integer({
    default: 1_000_000,
    minimum: 1,
    maximum: 100_000_000,
    description: 'Series that the target of one rollup may have in a slice',
  }),
  max_dirty_ranges: Type.Integer({
    default: 64,
    minimum: 1,
    maximum: 4096,
    description: 'Ranges that wait to be computed again; more become one range over all of them',
  }),
  max_buckets_per_slice: Type.Integer({
    default: 4096,
    minimum: 1,
    maximum: 1_000_000,
    description: 'Buckets that are computed at once; others have their turn between two slices',
  }),
  max_slice_bytes: Type.Integer({
    default: 134_217_728,
    minimum: 65_536,
    maximum: 17_179_869_184,
    description: 'Memory that a slice may take beside the data, about; a slice that needs more is done in smaller ones',
  }),
  max_refresh_buckets: Type.Integer({ default: 100_000, minimum: 1, maximum: 10_000_000, description: 'Buckets that one refresh may have' }),
  max_query_rows: Type.Integer({ default: 100_000, minimum: 1, maximum: 10_000_000, description: 'Rows that one answer of the real-time view may have' }),
  job_timeout_secs: Type.Integer({
    default: 600,
    minimum: 1,
    maximum: 86_400,
    description: 'Time limit of one slice, and of one real-time query where server.sql_query_timeout_secs is not shorter',
  }),
  max_hold_secs: Type.Integer({
    default: 2_592_000,
    minimum: 0,
    maximum: 3_153_600_000,
    description: 'Age up to which raw data is kept from retention because a rollup still needs it; what is older goes, computed or not; 0 = without end',
  }),
  park_after_failures: Type.Integer({ default: 8, minimum: 1, maximum: 1000, description: 'Failures in a row after which a rollup is parked' }),
  parked_retry_secs: Type.Integer({ default: 3600, minimum: 1, maximum: 2_000_000, description: 'Time after which a parked rollup is tried again' }),
  trim_interval_secs: Type.Integer({
    default: 600,
    minimum: 1,
    maximum: 2_000_000,
    description: 'Time between two looks for buckets past the retention_seconds of their rollup',
  }),
})

export type RollupsConfig = Static<typeof configSchema>
