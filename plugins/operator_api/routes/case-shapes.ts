/** Shapes that the routes of cases and of obligations share. */
import type { CaseOperations } from 'svcdb/agents'
import type { StoreNeed } from '../operation.ts'
import { anything, CorrelationKeyShape, closed, digest, named, OperatorShape, orNull, Type, timestamp, uint } from '../schema.ts'

export const CASE_STORE: StoreNeed<CaseOperations> = { name: 'case', of: (plane) => plane.cases }

const caseId = () => Type.String({ pattern: '^case_[0-9A-HJKMNP-TV-Z]{26}$' })

export const CaseStatusShape = named('CaseStatus', Type.Enum(['open', 'awaiting_external', 'awaiting_human', 'escalated', 'closed']))

export const CaseShape = named(
  'Case',
  closed({
    id: caseId(),
    kind: Type.String(),
    status: CaseStatusShape,
    correlation: Type.Array(CorrelationKeyShape),
    state: anything('what the runs of the case have written about it; the plane does not read it'),
    version: named('CaseVersion', uint('0 when the case is opened; each write raises it')),
    opened_at: timestamp(),
    runs: Type.Array(Type.String({ pattern: '^run_[0-9A-HJKMNP-TV-Z]{26}$' }), { description: 'In the order in which they were begun, the first thousand' }),
  }),
)

const BreachNote = named('BreachNote', closed({ by: OperatorShape, note: Type.String(), at: timestamp() }))

export const DeadlineShape = named(
  'Deadline',
  closed({
    case: caseId(),
    name: Type.String(),
    resolved_at: timestamp('When it is due, RFC 3339; computed once'),
    calendar_digest: digest(),
    warn_at: orNull(timestamp()),
    state: named('DeadlineState', Type.Enum(['pending', 'cancelled', 'warned', 'breached', 'met'])),
    acknowledged: Type.Optional(orNull(BreachNote)),
  }),
)
