import { Type } from 'svcdb/lib/schema'

export const configSchema = Type.Object({})
