/** Shapes of requests and answers. */
import { Type } from 'svcdb/lib/schema'

export const begin = Type.Object(
  {
    capability: Type.String({ minLength: 1, maxLength: 128, description: 'What is to be done: the capability of a skill' }),
    input: Type.Optional(Type.Unknown({ description: 'As the skill says; default null' })),
    idempotency_key: Type.Optional(
      Type.String({
        minLength: 1,
        maxLength: 512,
        description: 'A run that was begun with the same key is the answer; refused where that was of something else',
      }),
    ),
    case: Type.Optional(
      Type.Union(
        [
          Type.Object({ id: Type.String({ maxLength: 64 }) }, { additionalProperties: false }),
          Type.Object(
            {
              kind: Type.String({ maxLength: 128 }),
              correlation: Type.Array(Type.Object({ namespace: Type.String(), value: Type.String() }, { additionalProperties: false }), {
                minItems: 1,
                maxItems: 16,
              }),
            },
            { additionalProperties: false },
          ),
        ],
        { description: 'That the run is in: one that is there, or the open one that has one of these keys, or else a new one with all of them' },
      ),
    ),
  },
  { additionalProperties: false },
)
export const begun = Type.Object({
  run: Type.String(),
  status: Type.String(),
  existing: Type.Boolean({ description: 'It was begun before, with the same key' }),
})
export const runPath = Type.Object({ run: Type.String() })
export const reason = Type.Object({ reason: Type.String({ minLength: 1, maxLength: 4096 }) }, { additionalProperties: false })
export const mode = Type.Object(
  {
    mode: Type.Enum(['strict', 'resume'], {
      description: 'strict: the code of now is run against the journal, and nothing is done; resume: the run goes on',
    }),
  },
  { additionalProperties: false },
)
export const replayed = Type.Object({
  run: Type.String(),
  status: Type.String({ description: 'That the run has; of a resumed one, that it got to' }),
  divergences: Type.Array(Type.String(), { description: 'Where the code of now does something else than the journal has; empty = the same' }),
  output: Type.Optional(Type.Unknown({ description: 'What it gave, when it succeeded' })),
  exhaustion: Type.Optional(Type.Unknown({ description: 'Which budget had run out, as far as the journal can say' })),
})
export const cancelled = Type.Object({
  requested_by: Type.String(),
  recorded: Type.Boolean({ description: 'false: somebody has asked before, and stays on record' }),
})
export const standing = Type.Object({
  run: Type.String(),
  status: Type.String({ description: 'running, suspended, or how it was concluded: succeeded, failed, exhausted, quarantined, cancelled, abandoned' }),
  concluded: Type.Boolean({ description: 'Nothing can change it any more' }),
  records: Type.Integer({ description: 'Of its journal' }),
  reason: Type.Optional(Type.String({ description: 'Why it was concluded so' })),
  waiting_for: Type.Optional(Type.String()),
  cancellation_requested_by: Type.Optional(Type.Object({ actor: Type.String(), basis: Type.String() })),
  undecided: Type.Array(
    Type.Object({
      effect: Type.String(),
      step: Type.Integer(),
      phase: Type.String(),
      kind: Type.String(),
      doubt: Type.String({ description: 'announced or inconclusive' }),
    }),
    { description: 'Effects of which nobody knows whether they have happened' },
  ),
  output: Type.Optional(Type.Unknown({ description: 'What it gave, when it succeeded' })),
})
export const tenantQuery = Type.Object({ tenant: Type.Optional(Type.String({ maxLength: 64, description: 'Whose plane; default "default"' })) })
