/** Shapes of the route, for validation and for the OpenAPI description. */
import { Type } from 'svcdb/lib/schema'

export const sqlBody = Type.Object(
  { query: Type.String({ minLength: 1, description: 'One SELECT, WITH, VALUES, SHOW, DESCRIBE or EXPLAIN', examples: ['SELECT max(usage_user) FROM cpu'] }) },
  { additionalProperties: false },
)

export const sqlQuery = Type.Object(
  {
    q: Type.String({ minLength: 1, description: 'The statement' }),
    format: Type.Optional(
      Type.Union([Type.Literal('json'), Type.Literal('csv')], { description: 'Default: csv where Accept names text/csv first, else json' }),
    ),
  },
  { additionalProperties: false },
)

export const sqlAnswer = Type.Object({
  columns: Type.Array(Type.Object({ name: Type.String(), data_type: Type.String({ description: 'Arrow type name' }) })),
  rows: Type.Array(Type.Array(Type.Any())),
  row_count: Type.Integer(),
  truncated: Type.Boolean({ description: 'server.sql_max_rows cut the answer' }),
})
