/** All that needs a person. */
import { operation } from '../operation.ts'
import { closed, named, Type, uint } from '../schema.ts'

const ConditionView = named(
  'ConditionView',
  closed({
    condition: Type.String(),
    found: uint(),
    at_least: Type.Boolean({ description: 'There may be more than were looked at' }),
    subjects: Type.Array(Type.String(), { description: 'Ten at most' }),
    unlisted: uint('The rest of those that were found'),
    remedy: Type.String(),
  }),
)

export const attention = [
  operation({
    method: 'GET',
    path: '/attention',
    operationId: 'attention',
    action: 'api:attention',
    summary: 'Every condition of the plane that needs a person, by name',
    resource: '*',
    answer: named(
      'AttentionView',
      closed({
        needs_attention: Type.Boolean(),
        conditions: Type.Array(ConditionView),
        not_checked: Type.Array(Type.String(), { description: 'A sentence for each store that the plane has not' }),
      }),
    ),
    handle: ({ plane }) => plane.attention.view(),
  }),
]
