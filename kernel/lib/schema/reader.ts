/**
 * Reads values by a schema, where they are as it says: almost always. Whatever is not, or is not decided here, is REFUSED: TypeBox then decides and says why, and is
 * loaded for it. What is read here is what TypeBox would have made of the value: conversions and defaults are put into it in place, as TypeBox puts them.
 */

export const REFUSED = Symbol('refused')

/** @param convert text becomes what the schema says, as in a URL. @returns the value, with defaults; or REFUSED. */
export type Reader = (value: unknown, convert: boolean) => unknown

interface Compiled {
  read: Reader
  /** It puts no default into what it reads. */
  plain: boolean
}

type Schema = Record<string, unknown>

/** Keywords of JSON Schema, and of TypeBox, that say more than is looked at here. */
const FOREIGN = [
  '$defs',
  '$dynamicRef',
  '$recursiveRef',
  '$ref',
  'additionalItems',
  'allOf',
  'contains',
  'dependencies',
  'dependentRequired',
  'dependentSchemas',
  'else',
  'if',
  'maxContains',
  'maxProperties',
  'minContains',
  'minProperties',
  'multipleOf',
  'not',
  'oneOf',
  'prefixItems',
  'propertyNames',
  'then',
  'unevaluatedItems',
  'unevaluatedProperties',
  'uniqueItems',
  '~codec',
  '~refine',
]
/** Of numbers; a schema of anything else that has them is TypeBox's. */
const EXCLUSIVE = ['exclusiveMaximum', 'exclusiveMinimum']
/** What a schema of each `type` may have, beside what only describes it. */
const STRUCTURE = ['anyOf', 'const', 'enum', 'items', 'patternProperties', 'properties']
const ALLOWED: Record<string, readonly string[]> = {
  Array: ['items'],
  Enum: ['enum'],
  Literal: ['const'],
  Object: ['properties'],
  Record: ['patternProperties'],
  Union: ['anyOf'],
}
const TYPES: Record<string, string> = { String: 'string', Integer: 'integer', Number: 'number', Boolean: 'boolean', Null: 'null' }
const KINDS = Object.fromEntries(Object.entries(TYPES).map(([kind, type]) => [type, kind]))
/** Numbers that every reader takes for the same. */
const INTEGER_TEXT = /^-?(?:0|[1-9]\d{0,14})$/
const NUMBER_TEXT = /^-?(?:0|[1-9]\d{0,9})(?:\.\d{1,5})?$/
/** To convert, TypeBox takes names and patterns for regular expressions of its own: these mean the same. */
const PLAIN_NAME = /^[\w-]+$/
const ANY_NAME = '^.*$'
const PRINTABLE = /^[\x20-\x7e]*$/

/** @returns undefined for a schema that only TypeBox reads. */
export function compile(schema: unknown): Reader | undefined {
  return compiled(schema)?.read
}

function compiled(given: unknown): Compiled | undefined {
  if (typeof given !== 'object' || given === null) return undefined
  const schema = given as Schema
  if (FOREIGN.some((keyword) => keyword in schema)) return undefined
  const marked = schema['~kind'] as string | undefined
  // Without its mark TypeBox checks it, but converts nothing.
  const kind = marked ?? (STRUCTURE.some((keyword) => keyword !== 'enum' && keyword in schema) ? undefined : KINDS[String(schema.type)])
  if (kind === undefined) return undefined
  if (kind !== 'Integer' && kind !== 'Number' && EXCLUSIVE.some((keyword) => keyword in schema)) return undefined
  const allowed = marked === undefined ? ['enum'] : (ALLOWED[kind] ?? [])
  if (STRUCTURE.some((keyword) => keyword in schema && !allowed.includes(keyword))) return undefined
  if (kind in TYPES && schema.type !== TYPES[kind]) return undefined
  const made = ofKind(kind, schema)
  if (made === undefined) return undefined
  const { read, plain } = marked === undefined ? { ...made, read: (value: unknown) => made.read(value, false) } : made
  if (!('default' in schema)) return { read, plain }
  const { default: value } = schema
  if (typeof value === 'function') return undefined
  return { plain: false, read: (given, convert) => (given !== undefined ? read(given, convert) : convert ? REFUSED : read(structuredClone(value), false)) }
}

function ofKind(kind: string, schema: Schema): Compiled | undefined {
  switch (kind) {
    case 'Any':
    case 'Unknown':
      return { read: (value) => value, plain: true }
    case 'Null':
      return checked((value) => value === null)
    case 'Boolean':
      return { read: (value, convert) => readBoolean(value, convert), plain: true }
    case 'Integer':
      return numbers(schema, INTEGER_TEXT, Number.isInteger)
    case 'Number':
      return numbers(schema, NUMBER_TEXT, Number.isFinite)
    case 'String':
      return texts(schema)
    case 'Literal':
      return constants([schema.const])
    case 'Enum':
      return constants(schema.enum as unknown[])
    case 'Array':
      return arrays(schema)
    case 'Object':
      return objects(schema)
    case 'Record':
      return records(schema)
    case 'Union':
      return unions(schema)
    default:
      return undefined
  }
}

const checked = (holds: (value: unknown) => boolean): Compiled => ({ read: (value) => (holds(value) ? value : REFUSED), plain: true })

function readBoolean(value: unknown, convert: boolean): unknown {
  if (typeof value === 'boolean') return value
  return convert && value === 'true' ? true : convert && value === 'false' ? false : REFUSED
}

function constants(values: unknown[]): Compiled | undefined {
  if (!Array.isArray(values) || !values.every((value) => ['string', 'number', 'boolean'].includes(typeof value))) return undefined
  return checked((value) => values.includes(value))
}

/** An `enum` beside a type. @returns undefined where there is none. */
function oneOf({ enum: values }: Schema): ((value: unknown) => boolean) | undefined {
  return values === undefined ? undefined : (value) => (values as unknown[]).includes(value)
}

function numbers(schema: Schema, text: RegExp, isOne: (value: unknown) => boolean): Compiled {
  const { minimum = -Infinity, maximum = Infinity } = schema as { minimum?: number; maximum?: number }
  const { exclusiveMinimum: above = -Infinity, exclusiveMaximum: below = Infinity } = schema as { exclusiveMinimum?: number; exclusiveMaximum?: number }
  const isWithin = (value: number): boolean =>
    value >= minimum && value <= maximum && (value > above || above === -Infinity) && (value < below || below === Infinity)
  const member = oneOf(schema)
  return {
    plain: true,
    read(given, convert) {
      const value = convert && typeof given === 'string' && text.test(given) ? Number(given) : given
      return isOne(value) && isWithin(value as number) && (member === undefined || member(value)) ? value : REFUSED
    },
  }
}

function texts(schema: Schema): Compiled | undefined {
  const { minLength = 0, maxLength = Infinity, pattern, format } = schema as { minLength?: number; maxLength?: number; pattern?: string; format?: string }
  if (format !== undefined || (pattern !== undefined && typeof pattern !== 'string')) return undefined
  const expression = pattern === undefined ? undefined : new RegExp(pattern, 'u')
  const member = oneOf(schema)
  return checked((value) => {
    if (typeof value !== 'string' || value.length < minLength || value.length > maxLength) return false
    // What TypeBox counts may be fewer than there are UTF-16 units; of any there is one.
    if (minLength > 1 && !PRINTABLE.test(value)) return false
    return (expression === undefined || expression.test(value)) && (member === undefined || member(value))
  })
}

function arrays(schema: Schema): Compiled | undefined {
  const { minItems = 0, maxItems = Infinity } = schema as { minItems?: number; maxItems?: number }
  const item = compiled(schema.items)
  if (item === undefined) return undefined
  return {
    plain: item.plain,
    read(value, convert) {
      if (!Array.isArray(value) || value.length < minItems || value.length > maxItems) return REFUSED
      for (let i = 0; i < value.length; i++) {
        const read = item.read(value[i], convert)
        if (read === REFUSED) return REFUSED
        value[i] = read
      }
      return value
    },
  }
}

function objects(schema: Schema): Compiled | undefined {
  const { properties, additionalProperties = true, required = [] } = schema as { properties: Schema; additionalProperties?: unknown; required?: string[] }
  if (typeof additionalProperties !== 'boolean') return undefined
  const members: { name: string; read: Reader; needed: boolean; filled: boolean }[] = []
  let plain = true
  for (const [name, property] of Object.entries(properties)) {
    const member = compiled(property)
    if (member === undefined || name in Object.prototype) return undefined
    plain &&= member.plain
    members.push({ name, read: member.read, needed: required.includes(name), filled: 'default' in (property as Schema) })
  }
  if (required.some((name) => !Object.hasOwn(properties, name))) return undefined
  const names = new Set(Object.keys(properties))
  const convertible = [...names].every((name) => PLAIN_NAME.test(name))
  return {
    plain,
    read(value, convert) {
      if (!isObject(value) || (convert && !convertible)) return REFUSED
      for (const { name, read, needed, filled } of members) {
        const given = Object.hasOwn(value, name) ? value[name] : undefined
        if (given === undefined) {
          if (name in value || (needed && !filled)) return REFUSED
          if (!filled) continue
        }
        const member = read(given, convert && given !== undefined)
        if (member === REFUSED) return REFUSED
        if (member !== given) value[name] = member
      }
      if (!additionalProperties) for (const name of Object.keys(value)) if (!names.has(name)) return REFUSED
      return value
    },
  }
}

function records({ patternProperties, additionalProperties }: Schema): Compiled | undefined {
  const [entry, ...more] = Object.entries(patternProperties as Schema)
  if (entry === undefined || more.length > 0 || additionalProperties !== undefined) return undefined
  const [pattern, schema] = entry
  const expression = new RegExp(pattern, 'u')
  const member = compiled(schema)
  if (member === undefined || !member.plain) return undefined
  return {
    plain: true,
    read(value, convert) {
      if (!isObject(value) || (convert && pattern !== ANY_NAME)) return REFUSED
      for (const name of Object.keys(value)) {
        if (!expression.test(name)) continue
        const read = member.read(value[name], convert)
        if (read === REFUSED) return REFUSED
        if (read !== value[name]) value[name] = read
      }
      return value
    },
  }
}

function unions({ anyOf }: Schema): Compiled | undefined {
  const variants = (anyOf as unknown[]).map(compiled)
  if (!variants.every((variant) => variant?.plain === true)) return undefined
  return checked((value) => variants.some((variant) => variant?.read(value, false) !== REFUSED))
}

/** One whose members are its own to set. */
function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value) && !Object.hasOwn(value, '__proto__')
}
