import { type Static, Type } from 'svcdb/lib/schema'

/** The limits of SQL hold on every surface that takes it, so they are keys of [server]. */
export const configSchema = Type.Object({
  warm_up_statements: Type.Integer({
    default: 0,
    minimum: 0,
    maximum: 10_000,
    description:
      'Statements run in the background once the server is ready, so that the first ones asked do not wait for an engine thread to start and for code to be compiled (20 or so are enough, and take some 60 MB of memory from the start); 0 = none',
  }),
})

export type SqlConfig = Static<typeof configSchema>
