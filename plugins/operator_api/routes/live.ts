/** Runs that go on now. */
import type { LiveOperations } from 'svcdb/agents'
import { LIST_LIMIT, operation, type StoreNeed } from '../operation.ts'
import { closed, listOf, named, orNull, Type } from '../schema.ts'

const store: StoreNeed<LiveOperations> = { name: 'quota', of: ({ live }) => live }

const AgentView = named('AgentView', closed({ name: Type.String(), version: Type.String(), digest: Type.String() }))
const LiveRunView = named(
  'LiveRunView',
  closed({
    run: Type.String(),
    agent: orNull(AgentView),
    subject: orNull(Type.String({ description: 'For whom it acts' })),
    stranded: Type.Boolean({ description: 'Its lease has lapsed: no process drives it, and the recovery sweep takes it up' }),
  }),
)

export const live = [
  operation({
    method: 'GET',
    path: '/runs/live',
    operationId: 'list_live_runs',
    action: 'api:run.live',
    summary: 'Runs that hold a slot of the quota',
    resource: '*',
    query: { subject: Type.Optional(Type.String({ description: 'Of those of the page, the ones that act for this principal' })) },
    answer: listOf('LiveRuns', 'runs', LiveRunView),
    store,
    handle: async ({ store: of, query: { subject } }) => {
      const { rows, truncated } = await of.list(LIST_LIMIT, subject)
      return { runs: rows, truncated }
    },
  }),
]
