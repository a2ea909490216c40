import type { NamespaceQuota } from 'svcdb'
import { type Static, Type } from 'svcdb/lib/schema'
import { BOUNDS } from './quota.ts'

const GIB = 2 ** 30
const quota = (value: number, maximum: number, description: string) => Type.Integer({ default: value, minimum: 0, maximum, description })

export const configSchema = Type.Object({
  auto_create: Type.Boolean({
    default: true,
    description:
      'A namespace comes into being when a credential that may use it first writes to it; false: calls that name an unknown one are refused with 404',
  }),
  max_namespaces: Type.Integer({ default: 10_000, minimum: 1, maximum: 1_000_000, description: 'Namespaces there may be' }),
  default_max_series: quota(1_000_000, BOUNDS.max_series_count, 'max_series_count of namespaces that have none of their own; 0 = none'),
  default_max_measurements: quota(
    1000,
    BOUNDS.max_measurements,
    'max_measurements likewise; Prometheus and OTLP write each metric to a measurement of its own',
  ),
  default_max_storage_bytes: quota(100 * GIB, BOUNDS.max_storage_bytes, 'max_storage_bytes likewise'),
  default_max_ingestion_rate: quota(100_000, BOUNDS.max_ingestion_rate, 'max_ingestion_rate likewise, points a second'),
  default_max_models: quota(0, BOUNDS.max_models, 'max_models likewise'),
  default_max_request_rps: quota(0, BOUNDS.max_request_rps, 'max_request_rps likewise, requests a second'),
  default_max_request_burst: quota(0, BOUNDS.max_request_burst, 'max_request_burst likewise, requests at once'),
  ingestion_burst_secs: Type.Number({
    default: 10,
    minimum: 1,
    maximum: 3600,
    description: 'What a namespace may write at once after it was silent: its max_ingestion_rate for this long',
  }),
  storage_refresh_secs: Type.Number({
    default: 5,
    minimum: 0,
    maximum: 3600,
    description: 'How long a figure of the bytes that a namespace holds is used before it is taken anew',
  }),
})

export type NamespacesConfig = Static<typeof configSchema>

/** What holds where a namespace has none of its own. */
export function defaultQuota(config: NamespacesConfig): NamespaceQuota {
  return {
    max_series_count: config.default_max_series,
    max_ingestion_rate: config.default_max_ingestion_rate,
    max_storage_bytes: config.default_max_storage_bytes,
    max_measurements: config.default_max_measurements,
    max_models: config.default_max_models,
    max_request_rps: config.default_max_request_rps,
    max_request_burst: config.default_max_request_burst,
  }
}
