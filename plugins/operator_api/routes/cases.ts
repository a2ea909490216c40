/** Cases: the matters that runs belong to. */
import { HISTORY_LIMIT, LIST_LIMIT, type Operation, operation } from '../operation.ts'
import { RecordShape } from '../record-shape.ts'
import { closed, named, Type } from '../schema.ts'
import { CASE_STORE, CaseShape, CaseStatusShape, DeadlineShape } from './case-shapes.ts'

const CaseList = named('CaseList', closed({ status: CaseStatusShape, cases: Type.Array(CaseShape), truncated: Type.Boolean() }))

const CaseAnswer = named(
  'CaseAnswer',
  closed({
    case: CaseShape,
    deadlines: Type.Array(DeadlineShape, { description: 'Soonest first' }),
    history: Type.Array(RecordShape, { description: 'Records about the case, those of sweeps included, by runs in the order in which they were begun' }),
    history_truncated: Type.Boolean(),
  }),
)

export const cases: readonly Operation[] = [
  operation({
    method: 'GET',
    path: '/cases',
    operationId: 'list_cases',
    action: 'api:case.list',
    summary: 'Cases in one status, newest first',
    resource: { query: 'status' },
    query: { status: Type.Enum(['open', 'awaiting_external', 'awaiting_human', 'escalated', 'closed'], { default: 'escalated' }) },
    store: CASE_STORE,
    answer: CaseList,
    async handle({ store, query: { status } }) {
      const { rows, truncated } = await store.list(status, LIST_LIMIT)
      return { status, cases: rows, truncated }
    },
  }),
  operation({
    method: 'GET',
    path: '/cases/{case}',
    operationId: 'get_case',
    action: 'api:case.read',
    summary: 'A case, what is to be done in it by when, and what has happened',
    resource: { path: 'case' },
    store: CASE_STORE,
    answer: CaseAnswer,
    statuses: [404],
    handle: ({ store, params }) => store.view(params.case, HISTORY_LIMIT),
  }),
]
