import { Type } from 'svcdb/lib/schema'

/** The limits of SQL hold for every protocol that takes it, so they are keys of [server]. */
export const configSchema = Type.Object({})
