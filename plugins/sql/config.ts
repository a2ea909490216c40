import { Type } from 'svcdb/lib/schema'

/** The limits of SQL hold on every surface that takes it, so they are keys of [server]. */
export const configSchema = Type.Object({})
