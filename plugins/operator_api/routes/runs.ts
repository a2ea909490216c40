/** Runs: what they are at, and what people decide about them. */
import type { Json } from 'svcdb/agents'
import { jsonDigits } from 'svcdb/lib/json'
import type { ActionLabel } from '../actions.ts'
import { HISTORY_LIMIT, LIST_LIMIT, nonBlank, type Operation, operation, shown } from '../operation.ts'
import { Refusal } from '../refusal.ts'
import { ActorView, anything, CorrelationKeyShape, closed, digest, listOf, named, orNull, Type, timestamp, uint } from '../schema.ts'

const Undecided = named(
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
const BudgetExceeded = named(
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

const RunView = named(
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

const SuspendReason = named(
  'SuspendReason',
  Type.Union([
    closed({ reason: Type.Literal('awaiting_event'), kind: Type.String(), correlation: Type.Array(CorrelationKeyShape), until: timestamp() }),
    closed({ reason: Type.Literal('awaiting_time'), until: timestamp() }),
  ]),
)
const RunList = named(
  'RunList',
  closed({
    outcome: Type.String({ description: 'What the runs concluded with' }),
    runs: Type.Array(Type.String(), { description: 'Newest first' }),
    truncated: Type.Boolean(),
  }),
)
const WaitingRuns = listOf('WaitingRuns', 'runs', named('WaitingRunView', closed({ run: Type.String(), waiting_for: SuspendReason, until: timestamp() })))
const RecordView = named(
  'RecordView',
  closed({
    seq: uint('From 1'),
    run: Type.String(),
    case: orNull(Type.String()),
    step: orNull(Type.String({ description: 'Such as s1' })),
    phase: Type.String(),
    effect_key: orNull(Type.String()),
    kind: Type.String(),
    record: anything('The payload of the record, with its kind, as the format of records has it'),
  }),
)
const HistoryPage = named(
  'HistoryPage',
  closed({ run: Type.String(), from: uint(), records: Type.Array(RecordView), truncated: Type.Boolean(), next_from: orNull(uint()) }),
)
const CancelRequest = named('CancelRequest', closed({ reason: Type.String() }))
const CancelAnswer = named(
  'CancelAnswer',
  closed({ requested_by: Type.String(), recorded: Type.Boolean({ description: 'false: somebody asked before, and stays on record' }) }),
)
const QuarantineRequest = named('QuarantineRequest', closed({ reason: Type.String() }))
const QuarantineAnswer = named(
  'QuarantineAnswer',
  closed({
    decided_by: Type.String(),
    decision: Type.String({ description: 'reopen or abandon' }),
    status: Type.String({ description: 'That the run got to' }),
    reason: orNull(Type.String({ description: 'Why it concluded so' })),
  }),
)
const ReconcileRequest = named(
  'ReconcileRequest',
  closed({
    effect: Type.String({ description: 'One of the undecided of the run' }),
    disposition: Type.String({ description: 'landed or did_not_happen' }),
    note: Type.String(),
    output: Type.Optional(
      anything("What the run reads back as the effect's output: with landed, and only with it", {
        default: null,
        description: 'Needed with landed, refused otherwise',
      }),
    ),
  }),
)
const ReconcileAnswer = named('ReconcileAnswer', closed({ asserted_by: Type.String(), effect: Type.String() }))

/** One more pass, or the end. */
function decision(word: 'reopen' | 'abandon', action: ActionLabel, summary: string): Operation {
  return operation({
    method: 'POST',
    path: `/runs/{run}/${word}`,
    operationId: `${word}_run`,
    action,
    summary,
    resource: { path: 'run' },
    body: QuarantineRequest,
    answer: QuarantineAnswer,
    statuses: [404, 409],
    handle: async ({ plane, params, operator, body }) => {
      const status = await plane.runs.decide(params.run, word, operator, nonBlank(body.reason))
      const { reason = null } = await plane.runs.view(params.run)
      return { decided_by: operator.actor, decision: word, status, reason }
    },
  })
}

export const runs: readonly Operation[] = [
  operation({
    method: 'GET',
    path: '/runs',
    operationId: 'list_runs',
    action: 'api:run.list',
    summary: 'Runs by what they concluded with',
    resource: { query: 'outcome' },
    query: { outcome: Type.String({ default: 'quarantined', minLength: 1, maxLength: 128, description: 'What the runs concluded with' }) },
    answer: RunList,
    handle: async ({ plane, query: { outcome } }) => {
      const { rows, truncated } = await plane.runs.list(outcome, LIST_LIMIT)
      return { outcome, runs: rows, truncated }
    },
  }),
  operation({
    method: 'GET',
    path: '/runs/waiting',
    operationId: 'list_waiting_runs',
    action: 'api:run.waiting',
    summary: 'Runs that wait for an event or a time, soonest due first',
    resource: '*',
    answer: WaitingRuns,
    handle: async ({ plane }) => {
      const { rows, truncated } = await plane.runs.waiting(LIST_LIMIT)
      return { runs: rows, truncated }
    },
  }),
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
  operation({
    method: 'GET',
    path: '/runs/{run}/history',
    operationId: 'run_history',
    action: 'api:run.history',
    summary: 'The records of a run',
    resource: { path: 'run' },
    query: { from: Type.String({ default: '1', pattern: '^[0-9]{1,20}$', description: 'The number of the first record; uint64' }) },
    answer: HistoryPage,
    statuses: [404],
    handle: async ({ plane, params: { run }, query }) => {
      const from = fromOf(query.from)
      const { rows, truncated } = await plane.runs.history(run, Math.min(Number(from), MAX_SEQ), HISTORY_LIMIT)
      if (rows.length === 0 && from === 1n)
        throw new Refusal(404, `cannot find run ${shown(run)}: there is no run of this id; check it, and that the token is of its tenant`)
      const last = rows.at(-1)
      return { run, from: digits(from), records: rows, truncated, next_from: truncated && last !== undefined ? last.seq + 1 : null }
    },
  }),
  operation({
    method: 'POST',
    path: '/runs/{run}/cancel',
    operationId: 'cancel_run',
    action: 'api:run.cancel',
    summary: 'Has a run stop at its next step, and undo what it did',
    resource: { path: 'run' },
    body: CancelRequest,
    status: 202,
    answer: CancelAnswer,
    statuses: [404, 409],
    handle: ({ plane, params, operator, body }) => plane.runs.cancel(params.run, operator, nonBlank(body.reason)),
  }),
  decision('reopen', 'api:run.reopen', 'Has a quarantined run go on for one pass'),
  decision('abandon', 'api:run.abandon', 'Ends a quarantined run; nothing of it is undone'),
  operation({
    method: 'POST',
    path: '/runs/{run}/reconcile',
    operationId: 'reconcile_effect',
    action: 'api:effect.reconcile',
    summary: 'Says what became of an effect in doubt; the run stays quarantined',
    resource: { path: 'run' },
    body: ReconcileRequest,
    answer: ReconcileAnswer,
    statuses: [404, 409],
    handle: async ({ plane, params, operator, body: { effect, disposition, note, output = null } }) => {
      if (!EFFECT.test(effect)) throw new Refusal(400, `${shown(effect)} is not an effect key: it is 64 hexadecimal digits`)
      if (disposition !== 'landed' && disposition !== 'did_not_happen') throw new Refusal(400, '`disposition` is one of landed, did_not_happen')
      if (disposition === 'landed' && output === null) throw new Refusal(400, '`output` is needed with landed: it is what the run reads back')
      if (disposition === 'did_not_happen' && output !== null) throw new Refusal(400, '`output` goes with landed only: what did not happen gave nothing')
      await plane.runs.reconcile(params.run, effect, { disposition, note, ...(output === null ? {} : { output: output as Json }) }, operator)
      return { asserted_by: operator.actor, effect }
    },
  }),
]

const EFFECT = /^[0-9a-f]{64}$/

/** 0 means 1. @throws Refusal 400 for more than 64 bits. */
function fromOf(text: string): bigint {
  const from = BigInt(text)
  if (from > MAX_UINT64) throw new Refusal(400, `query.from is at most ${MAX_UINT64}`)
  return from === 0n ? 1n : from
}

/** In an answer, with all its digits. */
const digits = (value: bigint): number => (value <= MAX_SEQ ? Number(value) : (jsonDigits(value) as unknown as number))

const MAX_UINT64 = 2n ** 64n - 1n
/** No journal reaches it, and the store can still compare it. */
const MAX_SEQ = 999_999_999_999
