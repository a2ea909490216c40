/** Legal holds: what is held is not erased. Times are seconds since the Unix epoch. */
import type { HoldOperations } from 'svcdb/agents'
import { identifier, LIST_LIMIT, nonBlank, type Operation, operation, type StoreNeed } from '../operation.ts'
import { closed, named, orNull, Type } from '../schema.ts'

const STORE: StoreNeed<HoldOperations> = { name: 'case', of: (plane) => plane.holds }
const seconds = () => Type.Integer({ description: 'Seconds since the Unix epoch' })
const inForce = { placed_at: seconds(), reason: Type.String(), by: Type.String(), basis: Type.String() }

const HoldList = named(
  'HoldList',
  closed({
    holds: Type.Array(named('HoldView', closed({ case: Type.String(), ...inForce })), { description: 'Those that stand, oldest first' }),
    released: Type.Array(
      named(
        'HoldReleaseView',
        closed({
          case: Type.String(),
          by: Type.String(),
          basis: Type.String(),
          released_at: seconds(),
          placed_by: Type.String(),
          placed_basis: Type.String(),
          placed_at: seconds(),
          record: Type.String({ description: 'The run that says so' }),
        }),
      ),
      { description: 'Those that were released, newest first' },
    ),
    truncated: Type.Boolean(),
  }),
)

export const holds: readonly Operation[] = [
  operation({
    method: 'GET',
    path: '/holds',
    operationId: 'list_holds',
    action: 'api:hold.list',
    summary: 'Holds that stand, or that were released',
    resource: '*',
    query: { state: Type.Enum(['standing', 'released'], { default: 'standing' }) },
    store: STORE,
    answer: HoldList,
    async handle({ store, query: { state } }) {
      if (state === 'standing') {
        const { rows, truncated } = await store.standing(LIST_LIMIT)
        return { holds: rows, released: [], truncated }
      }
      const { rows, truncated } = await store.released(LIST_LIMIT)
      return { holds: [], released: rows, truncated }
    },
  }),
  operation({
    method: 'POST',
    path: '/holds',
    operationId: 'place_hold',
    action: 'api:hold.place',
    summary: 'Holds a case; one that stands already stays as it is',
    resource: { body: 'case' },
    body: named('PlaceHoldRequest', closed({ case: Type.String(), reason: Type.String({ maxLength: 4096 }) })),
    store: STORE,
    answer: named('PlaceHoldAnswer', closed({ case: Type.String(), placed: Type.Boolean(), in_force: orNull(named('HoldInForce', closed(inForce))) })),
    statuses: [404],
    handle: ({ store, body, operator }) => store.place(identifier('case', body.case), operator, nonBlank(body.reason)),
  }),
  operation({
    method: 'POST',
    path: '/holds/release',
    operationId: 'release_hold',
    action: 'api:hold.release',
    summary: 'Ends a hold, and journals who ended it',
    resource: { body: 'case' },
    body: named('ReleaseHoldRequest', closed({ case: Type.String() })),
    store: STORE,
    answer: named(
      'ReleaseHoldAnswer',
      closed({
        case: Type.String(),
        lifted: Type.Boolean({ description: 'false: nothing was held' }),
        by: Type.String(),
        basis: Type.String(),
        record: orNull(Type.String({ description: 'The run that says so' })),
        removed: Type.Boolean(),
      }),
    ),
    statuses: [404],
    handle: ({ store, body, operator }) => store.release(identifier('case', body.case), operator),
  }),
]
