import { Type } from 'svcdb/lib/schema'

export const configSchema = Type.Object({
  max_exemplars: Type.Integer({
    default: 100_000,
    minimum: 1,
    maximum: 10_000_000,
    description: 'Exemplars that are kept in all; the oldest gives way: of the same namespace where that has its share, else of the one that has most',
  }),
  max_bytes: Type.Integer({
    default: 67_108_864,
    minimum: 65_536,
    maximum: 17_179_869_184,
    description: 'Bytes of memory that they may take, with the labels of their series, likewise',
  }),
  max_age_secs: Type.Integer({ default: 86_400, minimum: 1, maximum: 315_360_000, description: 'How long one is kept, from its own time on' }),
  max_future_secs: Type.Integer({
    default: 3600,
    minimum: 0,
    maximum: 3_153_600_000,
    description:
      'How far past the server clock the time of one may be, as database.future_write_tolerance_secs has it for points; one further ahead is not kept',
  }),
})
