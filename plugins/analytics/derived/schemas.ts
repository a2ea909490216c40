/** Shapes of requests and answers about derived series. */
import { Type } from 'svcdb/lib/schema'

const MOST_SECS = 3_153_600_000

export const createBody = Type.Object(
  {
    name: Type.String({ minLength: 1, maxLength: 128, pattern: '^[A-Za-z0-9_.:-]+$', description: 'Letters, digits, "_", ".", ":" and "-"' }),
    query: Type.String({
      minLength: 1,
      maxLength: 16_384,
      description: 'A SELECT with the column _time, over $1 <= _time < $2; columns of text become tags, those of numbers fields',
    }),
    target_measurement: Type.Optional(Type.String({ minLength: 1, maxLength: 256, description: 'Where the points go; default the name' })),
    every_secs: Type.Optional(Type.Integer({ minimum: 1, maximum: MOST_SECS, default: 60, description: 'Time between two evaluations' })),
    lookback_secs: Type.Optional(
      Type.Integer({
        minimum: 1,
        maximum: MOST_SECS,
        default: 3600,
        description: 'Time before the last evaluation that is evaluated again; at least as wide as the widest bucket',
      }),
    ),
  },
  { additionalProperties: false },
)
export const derived = Type.Object({
  name: Type.String(),
  query: Type.String(),
  target_measurement: Type.String(),
  every_secs: Type.Integer(),
  lookback_secs: Type.Integer(),
  created_at: Type.Integer({ description: 'Milliseconds since the Unix epoch' }),
  evaluated_until: Type.Union([Type.Integer({ description: 'Nanoseconds since the Unix epoch' }), Type.Null()]),
  last_error: Type.Union([Type.String(), Type.Null()]),
})
export const listing = Type.Object({ derived: Type.Array(derived), count: Type.Integer() })
export const namePath = Type.Object({ name: Type.String() })
export const deleted = Type.Object({ ok: Type.Boolean(), message: Type.String() })
