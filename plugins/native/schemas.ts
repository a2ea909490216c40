/** Shapes of the requests and answers, for the description of the API and, where the body is parsed by fastify, its validation. */

import { validatorCompiler } from 'svcdb'
import { Type } from 'svcdb/lib/schema'

const nanoseconds = { type: 'integer', format: 'int64', description: 'Nanoseconds since the Unix epoch' }
const value = Type.Union([Type.Number(), Type.Boolean(), Type.String(), Type.Object({ decimal: Type.String({ description: 'Digits of an exact decimal' }) })])

const point = Type.Object(
  {
    measurement: Type.String(),
    tags: Type.Optional(Type.Record(Type.String(), Type.String())),
    fields: Type.Record(Type.String(), value),
    timestamp: Type.Optional(Type.Unsafe(nanoseconds)),
  },
  { additionalProperties: false },
)
export const pointsBody = Type.Array(point)
export const writeQuery = Type.Object({
  backfill: Type.Optional(Type.Boolean({ description: 'Admits points older than the live window' })),
  precision: Type.Optional(Type.String({ description: 'Times are nanoseconds: "ns" or "n" only' })),
})

export const planBody = Type.Object(
  {
    measurement: Type.String(),
    range: Type.Optional(
      Type.Object({ start: Type.Optional(Type.Unsafe(nanoseconds)), end: Type.Optional(Type.Unsafe(nanoseconds)) }, { description: 'start included, end not' }),
    ),
    tags: Type.Optional(Type.Record(Type.String(), Type.String(), { description: 'Each must be equal; an empty value means the tag is absent' })),
    fields: Type.Optional(Type.Array(Type.String())),
    limit: Type.Optional(Type.Integer({ minimum: 0 })),
    offset: Type.Optional(Type.Integer({ minimum: 0 })),
  },
  { additionalProperties: false },
)
export const rows = Type.Array(
  Type.Object({ timestamp: Type.Unsafe(nanoseconds), tags: Type.Record(Type.String(), Type.String()), fields: Type.Record(Type.String(), value) }),
)
export const scanPlan = Type.Object({
  measurement: Type.String(),
  series: Type.Integer(),
  time: Type.Object({ start: Type.String(), end: Type.String() }),
  segments: Type.Object({ total: Type.Integer(), read: Type.Integer() }),
  memtableRows: Type.Integer(),
  deduplicated: Type.Boolean(),
})

const column = Type.Object({
  name: Type.String(),
  role: Type.String({ description: 'tag, field or timestamp' }),
  data_type: Type.String({ description: 'float64, int64, uint64, bool, string, decimal(38, s), histogram, timestamp(ns)' }),
})
export const measurementView = Type.Object({ name: Type.String(), columns: Type.Array(column) })
export const listing = Type.Object({ items: Type.Array(measurementView), total: Type.Integer(), offset: Type.Integer(), limit: Type.Integer() })
export const listQuery = Type.Object({
  offset: Type.Integer({ default: 0, minimum: 0 }),
  limit: Type.Integer({ default: 100, minimum: 0, maximum: 100_000 }),
})
export const measurementPath = Type.Object({ name: Type.String() })
export const fieldBody = Type.Object(
  {
    name: Type.String(),
    type: Type.String({ description: 'float64, int64, uint64, bool, string or decimal' }),
    scale: Type.Optional(Type.Integer({ description: 'Of a decimal: digits behind the point' })),
  },
  { additionalProperties: false },
)

const bounds = { start: Type.Optional(Type.Unsafe(nanoseconds)), end: Type.Optional(Type.Unsafe(nanoseconds)) }
export const deleteBody = Type.Object(
  {
    measurement: Type.String(),
    tags: Type.Optional(
      Type.Record(Type.String(), Type.String(), { description: 'Each must be equal; an empty value means the tag is absent; none: all series' }),
    ),
    range: Type.Optional(Type.Object(bounds, { additionalProperties: false, description: 'Both ends included; instead of start and end' })),
    ...bounds,
  },
  { additionalProperties: false },
)
export const deleteAnswer = Type.Object({
  deleted: Type.Integer({ description: 'Series that matched' }),
  segments_skipped: Type.Integer({ description: 'Segments out of reach' }),
  complete: Type.Boolean({ description: 'false: send the delete again once the segments are repaired' }),
})
export const deleteBatchBody = Type.Object({ deletes: Type.Array(deleteBody, { minItems: 1 }) }, { additionalProperties: false })
export const deleteBatchAnswer = Type.Array(
  Type.Object({
    measurement: Type.String(),
    deleted: Type.Union([Type.Integer(), Type.Null()], { description: 'Series that matched; null when the delete failed' }),
    segments_skipped: Type.Integer(),
    error: Type.Optional(Type.String()),
  }),
)
export const nothing = Type.Null({ description: 'Done' })

/** A body that is parsed from its bytes is described but not validated; what comes in the URL is. */
export const uncheckedBody: typeof validatorCompiler = (route) => (route.httpPart === 'body' ? (data) => ({ value: data }) : validatorCompiler(route))
