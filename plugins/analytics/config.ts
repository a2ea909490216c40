import { Type } from 'svcdb/lib/schema'

/** Nothing can be set. */
export const configSchema = Type.Object({})
