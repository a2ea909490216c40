/** TypeBox's builders of the kinds of schema that sections and routes are made of: they make what TypeBox makes, without its 680 modules. */
import type * as TypeBox from 'typebox'

type Options = object
type Members = Record<string, object>

/** Marks that TypeBox knows a schema by, which are not members of the JSON Schema. */
function marked<T extends object>(schema: T, mark: '~kind' | '~optional' | '~unsafe', value: unknown): T {
  return Object.defineProperty(schema, mark, { value, enumerable: false, writable: true, configurable: true })
}

const simple = (kind: string, members: object) => (options?: Options) => marked({ ...members, ...options }, '~kind', kind)

function object(properties: Members, options?: Options): object {
  const required = Object.keys(properties).filter((name) => !('~optional' in properties[name]))
  return marked({ type: 'object', ...(required.length === 0 ? {} : { required }), properties, ...options }, '~kind', 'Object')
}

function record(key: { pattern?: string }, value: object, options?: Options): object {
  return marked({ type: 'object', patternProperties: { [key.pattern ?? '^.*$']: value }, ...options }, '~kind', 'Record')
}

/** A copy with its marks. */
function optional(schema: object): object {
  return marked(Object.defineProperties({}, Object.getOwnPropertyDescriptors(schema)), '~optional', true)
}

type Builders = Pick<
  typeof TypeBox,
  | 'Any'
  | 'Array'
  | 'Boolean'
  | 'Enum'
  | 'Integer'
  | 'Literal'
  | 'Null'
  | 'Number'
  | 'Object'
  | 'Optional'
  | 'Record'
  | 'String'
  | 'Union'
  | 'Unknown'
  | 'Unsafe'
>

/** @public Builders of schemas, with TypeBox's names, arguments and types. A schema of any other kind is TypeBox's own to make, and goes wherever these go. */
export const Type: Builders = {
  Any: simple('Any', {}),
  Array: (items: object, options?: Options) => marked({ type: 'array', items, ...options }, '~kind', 'Array'),
  Boolean: simple('Boolean', { type: 'boolean' }),
  Enum: (values: unknown[], options?: Options) => marked({ enum: values, ...options }, '~kind', 'Enum'),
  Integer: simple('Integer', { type: 'integer' }),
  Literal: (value: unknown, options?: Options) => marked({ type: typeof value, const: value, ...options }, '~kind', 'Literal'),
  Null: simple('Null', { type: 'null' }),
  Number: simple('Number', { type: 'number' }),
  Object: object,
  Optional: optional,
  Record: record,
  String: simple('String', { type: 'string' }),
  Union: (anyOf: object[], options?: Options) => marked({ anyOf, ...options }, '~kind', 'Union'),
  Unknown: simple('Unknown', {}),
  Unsafe: (schema: object) => marked({ ...schema }, '~unsafe', null),
} as never
