/** What shapes are made of: closed objects, those with names in the description, and the types that several areas use. */
import { type Static, type TSchema, Type } from 'svcdb/lib/schema'

const NAME = Symbol('name')

/** An object with these members and no others. */
export const closed = ((properties: object, options?: object) =>
  Type.Object(properties as never, { additionalProperties: false, ...options })) as typeof Type.Object

/** Gives a shape its name in the description, under which it is there once. Kept by Type.Optional. */
export function named<T extends TSchema>(name: string, schema: T): T {
  return Object.defineProperty(schema, NAME, { value: name, enumerable: false })
}

export function nameOf(schema: object): string | undefined {
  return (schema as { [NAME]?: string })[NAME]
}

/** A member that may be null. */
export const orNull = <T extends TSchema>(schema: T) => Type.Union([schema, Type.Null()])

/** A member that holds whatever somebody else put there. @param holds a sentence that says what. */
export const anything = (holds: string, options?: object) => Type.Unknown({ 'x-svc-holds': holds, ...options })

/** A list answer: its rows, and whether there were more. */
export const listOf = <K extends string, T extends TSchema>(name: string, key: K, row: T) =>
  named(
    name,
    closed({ [key]: Type.Array(row), truncated: Type.Boolean({ description: 'There are more than these' }) } as {
      [N in K]: ReturnType<typeof Type.Array<T>>
    } & {
      truncated: ReturnType<typeof Type.Boolean>
    }),
  )

export const uint = (description?: string) => Type.Integer({ minimum: 0, ...(description === undefined ? {} : { description }) })
/** RFC 3339, UTC. */
export const timestamp = (description?: string) => Type.String({ description: description ?? 'RFC 3339, UTC' })
export const digest = () => Type.String({ pattern: '^[0-9a-f]{64}$', description: 'SHA-256, lower case hexadecimal' })

export const Basis = named(
  'Basis',
  Type.Enum(['authenticated', 'asserted', 'connected'], {
    description: 'authenticated: the API knew the caller; asserted: somebody with access to the store said so; connected: a channel',
  }),
)
export const OperatorShape = named('Operator', closed({ actor: Type.String(), basis: Basis }))
export const ActorView = named('ActorView', closed({ actor: Type.String(), basis: Type.String() }))
export const CorrelationKeyShape = named('CorrelationKey', closed({ namespace: Type.String(), value: Type.String() }))
export const ErrorBody = named('ErrorBody', closed({ error: Type.String({ description: 'A sentence' }) }))

export type { Static, TSchema }
export { Type }
