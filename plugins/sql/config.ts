import { type Static, Type } from 'typebox'

/** The limits of SQL hold on every surface that takes it, so they are keys of [server]. */
export const configSchema = Type.Object({})

export type SqlConfig = Static<typeof configSchema>
