import { type Static, Type } from 'svcdb/lib/schema'

/** The limits of SQL hold on every surface that takes it, so they are keys of [server]. */
export const configSchema = Type.Object({
  warm_up_statements: Type.Integer({
    default: 20,
    minimum: 0,
    maximum: 10_000,
    description:
      'Statements run in the background after the start, so that the first ones asked do not wait for an engine thread to start and for code to be loaded and compiled; they take some 25 MB of memory, some 70 where nothing else starts the thread; 0 = none',
  }),
  warm_up_after_secs: Type.Number({ default: 1, minimum: 0, maximum: 86_400, description: 'When they run, counted from when the server is ready' }),
})

export type SqlConfig = Static<typeof configSchema>
