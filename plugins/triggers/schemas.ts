/** Shapes of requests and answers. */
import { Type } from 'svcdb/lib/schema'

export const statementBody = Type.Object(
  { query: Type.String({ description: 'One statement: CREATE TRIGGER, SHOW TRIGGERS, DROP TRIGGER or ALTER TRIGGER' }) },
  { additionalProperties: false },
)
export const namePath = Type.Object({ name: Type.String() })

export const trigger = Type.Object({
  name: Type.String(),
  measurement: Type.String(),
  enabled: Type.Boolean(),
  delivery: Type.Array(Type.String(), { description: "log, webhook('https://...')" }),
  condition: Type.String(),
  cooldown_secs: Type.Number(),
})
export const listing = Type.Object({ triggers: Type.Array(trigger) })
export const message = Type.Object({ message: Type.String() })
export const statementAnswer = Type.Object({
  message: Type.Optional(Type.String()),
  triggers: Type.Optional(Type.Array(trigger, { description: 'Of SHOW TRIGGERS' })),
})

const MAX = 1_000_000
export const signalsQuery = Type.Object({
  limit: Type.Optional(Type.Integer({ minimum: 1, maximum: MAX, description: 'Signals at most, the newest; default all' })),
  offset: Type.Optional(Type.Integer({ minimum: 0, maximum: MAX, description: 'Newest signals to leave out' })),
  before: Type.Optional(Type.Integer({ minimum: 0, description: 'Only signals before this one, by metadata.sequence' })),
})
export const signal = Type.Object({
  event_id: Type.String({ description: 'UUID, the same whenever the signal is delivered' }),
  trigger_id: Type.String(),
  trigger_name: Type.String(),
  measurement: Type.String(),
  tags: Type.Record(Type.String(), Type.String()),
  timestamp: Type.Integer({ description: 'Of the point, nanoseconds since the Unix epoch' }),
  signal_type: Type.String({ description: 'trigger' }),
  severity: Type.Enum(['info', 'warning', 'critical']),
  value: Type.Number({ description: 'Of the first comparison of the condition that holds' }),
  metadata: Type.Object({
    sequence: Type.Integer({ description: 'Place in the order of the signals' }),
    condition: Type.String({ description: 'Its first 1024 characters' }),
    backfill: Type.Optional(Type.Boolean()),
    tags_omitted: Type.Optional(Type.Integer({ description: 'Tags of the series beside these, which are more than triggers.max_signal_tag_bytes together' })),
  }),
})
export const signals = Type.Array(signal)

const millis = (description: string) => Type.Optional(Type.Integer({ minimum: -8_640_000_000_000_000, maximum: 8_640_000_000_000_000, description }))
export const annotationsQuery = Type.Object({
  from: millis('Milliseconds since the Unix epoch'),
  to: millis('Milliseconds since the Unix epoch, included'),
  limit: Type.Optional(Type.Integer({ minimum: 1, maximum: MAX, description: 'The newest; default triggers.max_annotations' })),
})
export const streamQuery = Type.Object({
  last_event_id: Type.Optional(Type.String({ maxLength: 250, description: 'As the header Last-Event-ID, for clients that cannot send it' })),
})
export const annotations = Type.Array(
  Type.Object({ text: Type.String(), time: Type.Integer({ description: 'Milliseconds since the Unix epoch' }), tags: Type.Array(Type.String()) }),
)
