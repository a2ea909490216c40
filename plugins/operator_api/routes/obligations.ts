/** Obligations of cases that were breached, and who accounts for them. */
import { identifier, LIST_LIMIT, type Operation, operation } from '../operation.ts'
import { closed, listOf, named, OperatorShape, Type } from '../schema.ts'
import { CASE_STORE, DeadlineShape } from './case-shapes.ts'

const AcknowledgeRequest = named(
  'AcknowledgeRequest',
  closed({ case: Type.String(), obligation: Type.String(), note: Type.Optional(Type.String({ default: '', maxLength: 4096 })) }),
)
const AcknowledgeAnswer = named(
  'AcknowledgeAnswer',
  closed({
    acknowledged_by: OperatorShape,
    obligation: Type.String(),
    recorded: Type.Boolean({ description: 'false: somebody has accounted for it before, and stays on record' }),
  }),
)

export const obligations: readonly Operation[] = [
  operation({
    method: 'GET',
    path: '/obligations',
    operationId: 'list_breached_obligations',
    action: 'api:obligation.list',
    summary: 'Breached obligations that nobody has accounted for, longest overdue first',
    resource: 'breached',
    store: CASE_STORE,
    answer: listOf('ObligationList', 'obligations', DeadlineShape),
    async handle({ store }) {
      const { rows, truncated } = await store.breached(LIST_LIMIT)
      return { obligations: rows, truncated }
    },
  }),
  operation({
    method: 'POST',
    path: '/obligations/acknowledge',
    operationId: 'acknowledge_obligation',
    action: 'api:obligation.acknowledge',
    summary: 'Accounts for a breached obligation, which stays breached',
    resource: { body: 'case' },
    body: AcknowledgeRequest,
    store: CASE_STORE,
    answer: AcknowledgeAnswer,
    statuses: [404, 409],
    handle: ({ store, body, operator }) => store.acknowledge(identifier('case', body.case), body.obligation, operator, body.note ?? ''),
  }),
]
