/** A record of a run as histories show it. */
import { anything, closed, named, orNull, Type, uint } from './schema.ts'

export const RecordShape = named(
  'RecordView',
  closed({
    seq: uint(),
    run: Type.String(),
    case: orNull(Type.String()),
    step: orNull(Type.String({ description: 's and its number' })),
    phase: Type.String({ description: 'forward or compensating' }),
    effect_key: orNull(Type.String()),
    kind: Type.String(),
    record: anything('the payload of the record, tagged by its kind, in the published record format'),
  }),
)
