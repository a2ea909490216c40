/** Shapes of requests and answers. */
import { Type } from 'svcdb/lib/schema'
import { MAX_AGGREGATIONS, MAX_NAME, MAX_TAGS, MAX_TEXT } from './definition.ts'

const text = (description: string) => Type.String({ minLength: 1, maxLength: MAX_TEXT, pattern: '^[^\\u0000\\u0001]*$', description })
const orNull = <T extends ReturnType<typeof Type.String> | ReturnType<typeof Type.Integer>>(schema: T) => Type.Optional(Type.Union([schema, Type.Null()]))
const time = (description: string) => Type.Optional(Type.String({ pattern: '^-?[0-9]{1,19}$', description }))

export const createBody = Type.Object(
  {
    name: Type.String({ minLength: 1, maxLength: MAX_NAME, description: 'Letters, digits, "_", "-", ".", ":"' }),
    source_measurement: text('What is aggregated'),
    target_measurement: text('Where the buckets go'),
    every: Type.String({ minLength: 1, maxLength: 64, description: 'Width of a bucket: a number and ns, us, ms, s, m or min, h, d, w, mo, y' }),
    timezone: orNull(Type.String({ maxLength: 64, description: 'Name of the IANA database; default UTC' })),
    origin: orNull(Type.String({ maxLength: 64, description: 'A date, a local date-time or an RFC 3339 instant: where buckets open' })),
    aggregations: Type.Array(Type.String({ maxLength: 64 }), {
      minItems: 0,
      maxItems: MAX_AGGREGATIONS,
      description: 'avg, min, max, sum, count, first, last, stddev, quantile(0.95)',
    }),
    group_by_tags: Type.Optional(
      Type.Union([
        Type.Array(Type.String({ maxLength: MAX_TEXT }), { maxItems: MAX_TAGS, description: 'Tags that the target keeps; default all' }),
        Type.Null(),
      ]),
    ),
    retention_seconds: orNull(Type.Integer({ minimum: 1, maximum: 3_153_600_000, description: 'Age at which buckets go; default as other measurements' })),
  },
  { additionalProperties: false },
)

const nanoseconds = (description: string) => Type.Integer({ description })
export const view = Type.Object({
  name: Type.String(),
  source_measurement: Type.String(),
  target_measurement: Type.String(),
  every: Type.String(),
  timezone: Type.Union([Type.String(), Type.Null()], { description: 'null = UTC' }),
  origin: Type.Union([Type.String(), Type.Null()]),
  aggregations: Type.Array(Type.String()),
  group_by_tags: Type.Union([Type.Array(Type.String()), Type.Null()], { description: 'null = all tags' }),
  retention_seconds: Type.Union([Type.Integer(), Type.Null()]),
  materialised_until: nanoseconds('Exclusive end of the newest bucket; 0 = none yet'),
  lag_seconds: Type.Number({ description: 'How far materialised_until could be further on by now, by the times of the source' }),
  pending_repairs: Type.Array(Type.Array(nanoseconds('start, end')), { description: 'Ranges that wait to be computed again' }),
  status: Type.String({ description: 'waiting (no bucket yet), active, failing, parked' }),
  last_error: Type.Union([Type.String(), Type.Null()]),
})
export const listing = Type.Object({ items: Type.Array(view), total: Type.Integer(), offset: Type.Integer(), limit: Type.Integer() })
export const listQuery = Type.Object({
  offset: Type.Integer({ default: 0, minimum: 0 }),
  limit: Type.Integer({ default: 100, minimum: 0, maximum: 100_000 }),
})
export const namePath = Type.Object({ name: Type.String() })
export const refreshQuery = Type.Object({
  start: time('Nanoseconds since the Unix epoch; default where the first bucket begins'),
  end: time('Exclusive; default the end of the newest bucket'),
})
export const refreshed = Type.Object({ rollup: Type.String(), points_written: Type.Integer() })
export const viewQuery = Type.Object({
  start: time('Nanoseconds since the Unix epoch; default where the first bucket begins'),
  end: time('Exclusive; default now'),
  tags: Type.Optional(Type.String({ maxLength: 4096, description: 'JSON object of tags that rows must have' })),
  limit: Type.Optional(Type.Integer({ minimum: 1, maximum: 10_000_000, description: 'Rows; default rollups.max_query_rows' })),
})
export const viewAnswer = Type.Object({
  columns: Type.Array(Type.Object({ name: Type.String(), data_type: Type.String() })),
  rows: Type.Array(Type.Array(Type.Any())),
  row_count: Type.Integer(),
  truncated: Type.Boolean(),
  materialised_until: nanoseconds('Rows from here on were computed from raw data for this answer'),
})
export const nothing = Type.Null()
