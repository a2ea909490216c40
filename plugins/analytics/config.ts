import { Type } from 'typebox'

/** Nothing can be set. */
export const configSchema = Type.Object({})
