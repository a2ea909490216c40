/** Events that come from outside, and those that nobody waited for. */
import type { EventOperations } from 'svcdb/agents'
import { publicText, SvcError } from 'svcdb/lib/errors'
import { readerOf } from '../body.ts'
import { type Delivered, parseEvent } from '../cloud-event.ts'
import { LIST_LIMIT, type Operation, operation } from '../operation.ts'
import { Refusal } from '../refusal.ts'
import { anything, CorrelationKeyShape, closed, listOf, named, orNull, Type, timestamp } from '../schema.ts'

/** Kinds of events that the plane sends itself. */
const RESERVED = 'svc.'
const PAYLOAD = 'What the producer says; it is handed to the run that waits for it'

const DeliverBody = named(
  'DeliverBody',
  closed({
    id: Type.String(),
    kind: Type.String(),
    payload: anything(PAYLOAD),
    correlation: Type.Optional(Type.Array(CorrelationKeyShape, { default: [] })),
    source: Type.Optional(anything('Whatever; it is not read: the source of an event is the caller', { default: null })),
  }),
)
const CloudEvent = named(
  'CloudEvent',
  Type.Object(
    {
      specversion: Type.Literal('1.0'),
      id: Type.String(),
      source: Type.String(),
      type: Type.String({ description: 'The kind' }),
      subject: Type.Optional(Type.String({ description: 'The correlation key of namespace "subject"' })),
      data: Type.Optional(anything(PAYLOAD)),
    },
    { description: 'CloudEvents 1.0; in binary mode the attributes are ce- headers, and the body is the data' },
  ),
)
const DeliveryAnswer = named(
  'DeliveryAnswer',
  closed({ delivery: Type.Enum(['resumed', 'buffered', 'duplicate']), run: Type.Optional(orNull(Type.String({ description: 'That waited for it' }))) }),
)
const DeadLetterView = named(
  'DeadLetterView',
  closed({
    source: Type.String(),
    id: Type.String(),
    kind: Type.String(),
    correlation: Type.Array(CorrelationKeyShape),
    received_at: timestamp(),
    reason: Type.String(),
  }),
)
const store = { name: 'event', of: ({ events }: { events?: EventOperations }) => events }
const native = readerOf(DeliverBody)

/** There is no room for it now. @throws Refusal 503, which says to send it again; whatever else it was. */
function later(error: unknown): never {
  throw error instanceof SvcError && error.code === 'RATE_LIMITED' ? new Refusal(503, publicText(error)) : error
}

export const events: readonly Operation[] = [
  operation({
    method: 'POST',
    path: '/events',
    operationId: 'deliver_event',
    action: 'api:event.deliver',
    summary: 'Hands an event to the run that waits for it, or keeps it for one that will',
    resource: '*',
    envelope: {
      content: { 'application/json': DeliverBody, 'application/cloudevents+json': CloudEvent },
      parse(raw, bounds) {
        const body = parseEvent(raw, bounds, native)
        return { resource: body.kind, body }
      },
    },
    answer: DeliveryAnswer,
    statuses: [409, 503],
    store,
    handle: ({ store: of, operator, caller: { scope, notAfter }, body }) => {
      const event = body as unknown as Delivered
      if (event.kind.startsWith(RESERVED)) throw new Refusal(403, `kinds that begin with "${RESERVED}" are those of the plane; name it otherwise`)
      const by = { actor: operator.actor, ...(scope === undefined ? {} : { scope }), ...(notAfter === undefined ? {} : { notAfter }) }
      return of.deliver({ ...event, source: `peer:${operator.actor}` }, by).catch(later)
    },
  }),
  operation({
    method: 'GET',
    path: '/dead-letters',
    operationId: 'list_dead_letters',
    action: 'api:deadletter.list',
    summary: 'Events that no run has waited for in time',
    resource: '*',
    answer: listOf('DeadLetters', 'dead_letters', DeadLetterView),
    store,
    handle: async ({ store: of }) => {
      const { rows, truncated } = await of.deadLetters(LIST_LIMIT)
      return { dead_letters: rows, truncated }
    },
  }),
]
