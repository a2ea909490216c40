/** Shapes of requests and answers. */

import type { NamespaceQuota } from 'svcdb'
import { Type } from 'svcdb/lib/schema'
import { MAX_DESCRIPTION, MAX_OWNER } from './definition.ts'
import { BOUNDS } from './quota.ts'

const TEXTS: Record<keyof NamespaceQuota, string> = {
  max_series_count: 'Series',
  max_ingestion_rate: 'Points a second',
  max_storage_bytes: 'Bytes',
  max_measurements: 'Measurements',
  max_models: 'Models',
  max_request_rps: 'Requests a second',
  max_request_burst: 'Requests at once',
}

const bound = (member: keyof NamespaceQuota) => Type.Integer({ minimum: 0, maximum: BOUNDS[member], description: `${TEXTS[member]}; 0 = no bound` })
const members = {
  max_series_count: Type.Optional(bound('max_series_count')),
  max_series: Type.Optional(bound('max_series_count')),
  max_ingestion_rate: Type.Optional(bound('max_ingestion_rate')),
  max_storage_bytes: Type.Optional(bound('max_storage_bytes')),
  max_measurements: Type.Optional(bound('max_measurements')),
  max_models: Type.Optional(bound('max_models')),
  max_request_rps: Type.Optional(bound('max_request_rps')),
  max_request_burst: Type.Optional(bound('max_request_burst')),
}

export const createBody = Type.Object(
  {
    name: Type.String({ description: '1 to 63 lower case letters, digits and hyphens; begins with a letter, does not end with a hyphen' }),
    description: Type.Optional(Type.String({ maxLength: MAX_DESCRIPTION })),
    owner: Type.Optional(Type.String({ minLength: 1, maxLength: MAX_OWNER, description: 'Who answers for it; default admin' })),
    ...members,
  },
  { additionalProperties: false },
)

export const quotaBody = Type.Object(members, { additionalProperties: false, minProperties: 1 })

export const namePath = Type.Object({ name: Type.String() })

const quota = Type.Object({
  max_series_count: bound('max_series_count'),
  max_ingestion_rate: bound('max_ingestion_rate'),
  max_storage_bytes: bound('max_storage_bytes'),
  max_measurements: bound('max_measurements'),
  max_models: bound('max_models'),
  max_request_rps: bound('max_request_rps'),
  max_request_burst: bound('max_request_burst'),
})
const usage = Type.Object({
  series_count: Type.Integer(),
  ingestion_rate: Type.Number({ description: 'Points a second over the last ten seconds' }),
  storage_bytes: Type.Integer(),
  measurements: Type.Integer(),
})

export const record = Type.Object({ name: Type.String(), description: Type.String(), owner: Type.String(), quota, usage })
export const listing = Type.Object({
  namespaces: Type.Array(record),
  count: Type.Integer({ description: 'Namespaces there are, on this page or not' }),
  offset: Type.Integer(),
  limit: Type.Integer(),
})
export const listQuery = Type.Object({
  offset: Type.Integer({ default: 0, minimum: 0, description: 'How many are left out, by the order of names' }),
  limit: Type.Integer({ default: 1000, minimum: 1, maximum: 1000 }),
})
export const usageAnswer = Type.Object({ name: Type.String(), usage, quota })
export const deleted = Type.Object({ ok: Type.Boolean(), message: Type.String() })
