/** Runs: what they are at, and what people decide about them. */
import { type Operation, operation } from '../operation.ts'
import { ActorView, closed, digest, named, orNull, Type, uint } from '../schema.ts'

export const Undecided = named(
  'Undecided',
  closed({
    effect: named('EffectKey', digest()),
    step: named('StepId', uint()),
    phase: named('Phase', Type.Enum(['forward', 'compensating'])),
    kind: Type.String(),
    doubt: named(
      'Doubt',
      Type.Enum(['announced', 'inconclusive'], {
        description: 'announced: begun, and nothing follows; inconclusive: what was reported or probed did not settle it',
      }),
    ),
  }),
)

const used = { allowed: uint(), used: uint() }
const limit = (name: string, more: object) => closed({ limit: Type.Literal(name), ...more })
export const BudgetExceeded = named(
  'BudgetExceeded',
  Type.Union([
    limit('steps', { allowed: uint() }),
    limit('effects', used),
    limit('replans', { allowed: uint() }),
    limit('denials', { allowed: uint() }),
    limit('recorded', { recorded_limit: Type.String(), used: Type.String() }),
    limit('tokens', used),
    limit('money', used),
    limit('wallclock', used),
    limit('egress', { ...used, attempted: uint() }),
    limit('rate', { grant: Type.String(), allowed: uint(), window_seconds: uint(), reached: uint() }),
  ]),
)

export const RunView = named(
  'RunView',
  closed({
    run: Type.String(),
    status: Type.String({ description: 'running, suspended, or what the run concluded with' }),
    sealed: Type.Boolean({ description: 'Its last hash is in the transparency log' }),
    records: uint('Of its journal'),
    case: Type.Optional(orNull(Type.String())),
    reason: Type.Optional(orNull(Type.String())),
    waiting_for: Type.Optional(orNull(Type.String({ description: 'A sentence' }))),
    decided_by: Type.Optional(orNull(ActorView)),
    cancellation_requested_by: Type.Optional(orNull(ActorView)),
    exhaustion: Type.Optional(orNull(BudgetExceeded)),
    undecided: Type.Optional(Type.Array(Undecided)),
  }),
)

export const runs: readonly Operation[] = [
  operation({
    method: 'GET',
    path: '/runs/{run}',
    operationId: 'get_run',
    action: 'api:run.read',
    summary: 'How a run stands',
    resource: { path: 'run' },
    answer: RunView,
    statuses: [404],
    handle: ({ plane, params }) => plane.runs.view(params.run),
  }),
]
