/** Shapes of the request and the answer, for the description of the API. */

import { validatorCompiler } from 'svcdb'
import { Type } from 'svcdb/lib/schema'

const start = Type.Optional(Type.Unsafe({ type: 'integer', format: 'int64', description: 'Nanoseconds since the Unix epoch, included' }))
const end = Type.Optional(Type.Unsafe({ type: 'integer', format: 'int64', description: 'Nanoseconds since the Unix epoch, not included' }))

export const exportBody = Type.Object(
  {
    measurement: Type.String(),
    range: Type.Optional(Type.Object({ start, end }, { additionalProperties: false })),
    start,
    end,
    output_path: Type.Optional(Type.String({ description: 'Its last part is the name of the file' })),
  },
  { additionalProperties: false },
)

export const exportAnswer = Type.Object({
  rows_written: Type.Integer(),
  bytes_written: Type.Integer({ description: 'Size of the file' }),
  truncated: Type.Boolean({ description: 'The size budget has cut the file; what is there is whole' }),
  path: Type.String({ description: 'Where the file lies on the server; for others than its admins the name of the file' }),
})

/** The body is parsed from its bytes, because its times are integers that a double cannot hold: described, not validated. */
export const uncheckedBody: typeof validatorCompiler = (route) => (route.httpPart === 'body' ? (data) => ({ value: data }) : validatorCompiler(route))
