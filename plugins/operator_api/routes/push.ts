/** Registrations that nothing is sent to any more. */
import type { PushOperations } from 'svcdb/agents'
import { identifier, LIST_LIMIT, operation, type StoreNeed } from '../operation.ts'
import { anything, closed, listOf, named, orNull, Type, uint } from '../schema.ts'

const store: StoreNeed<PushOperations> = { name: 'push', hint: 'select the plugin webhooks, which sends', of: ({ push }) => push }

const ParkedPushView = named(
  'ParkedPushView',
  closed({
    config: anything('The registration as its receiver gave it, without credentials'),
    next_seq: uint('Of the first record that the receiver has not had'),
    attempts: uint('Failures in a row'),
    last_error: Type.Optional(orNull(Type.String())),
  }),
)

export const push = [
  operation({
    method: 'GET',
    path: '/push',
    operationId: 'list_parked_push',
    action: 'api:push.list',
    summary: 'Registrations that could not be told, and are not tried any more',
    resource: '*',
    feature: 'push',
    answer: listOf('ParkedPush', 'parked', ParkedPushView),
    store,
    handle: async ({ store: of }) => {
      const { rows, truncated } = await of.parked(LIST_LIMIT)
      return { parked: rows, truncated }
    },
  }),
  operation({
    method: 'POST',
    path: '/push/rearm',
    operationId: 'rearm_push',
    action: 'api:push.rearm',
    summary: 'Tells a parked registration again, from where it stopped',
    resource: { body: 'run' },
    feature: 'push',
    body: named('RearmRequest', closed({ run: Type.String(), id: Type.String() })),
    answer: named('RearmAnswer', closed({ rearmed: Type.Boolean({ description: 'false: it was not parked' }) })),
    statuses: [409],
    store,
    handle: async ({ store: of, body: { run, id } }) => ({ rearmed: await of.rearm(identifier('run', run), id) }),
  }),
]
