import { FILE_PATH } from 'svcdb'
import { type Static, Type } from 'svcdb/lib/schema'

/** The longest that one timer can wait. */
const LONGEST_INTERVAL_SECS = 2_147_000

export const configSchema = Type.Object({
  interval_secs: Type.Integer({
    default: 0,
    minimum: 0,
    maximum: LONGEST_INTERVAL_SECS,
    description: 'How often a checkpoint is made by itself, counted from the newest one there; 0 = never',
  }),
  directory: Type.Optional(
    Type.String({
      ...FILE_PATH,
      minLength: 1,
      maxLength: 4096,
      description:
        'Where checkpoints go, each in a directory named by its time, such as 20240101T120000Z; default `checkpoints` in `server.backup_root`; of several nodes each needs one of its own',
    }),
  ),
  keep: Type.Integer({ default: 3, minimum: 1, maximum: 10_000, description: 'Checkpoints that are kept; after each new one the oldest go' }),
})

export type CheckpointConfig = Static<typeof configSchema>
