/** Checks one section against its schema: unknown keys with the nearest name, defaults, bounds, secrets wrapped. Pure. */
import { SchemaReader } from '../lib/schema/index.ts'
import { didYouMean } from '../lib/text/index.ts'
import { isSecretSchema, Secret } from './secret.ts'
import { shown } from './shown.ts'

/** The JSON Schema members that are looked at. */
export interface Schema {
  type?: string
  properties?: Record<string, Schema>
  items?: Schema
  patternProperties?: object
  additionalProperties?: unknown
  anyOf?: Schema[]
  required?: string[]
  enum?: unknown[]
  const?: unknown
  description?: string
  default?: unknown
  /** Another name of the key, with its section. */
  alias?: string
  /** It names a file or a folder, of `FILE_PATH`. */
  filePath?: true
  /** Flags and environment variables that set it, of `settableBy`. */
  settable?: { flag?: string; env: readonly string[]; needsSection?: true }
}

/** Where a value came from, for messages: the file, an environment variable, a flag. */
export type Origin = (path: string) => string

/**
 * The section with defaults and secrets; what is wrong goes to `problems`, one line each.
 * @param unset keys whose values are not known, and not judged.
 */
export function checkSection(schema: Schema, raw: unknown, path: string, origin: Origin, problems: string[], unset: ReadonlySet<string>): unknown {
  const before = problems.length
  findUnknown(schema, raw, path, origin, problems)
  const { value, problems: wrong } = new SchemaReader(schema).read(structuredClone(raw))
  const reported = new Set<string>()
  for (const error of wrong) {
    if (error.keyword === 'required') {
      for (const name of (error.params as { requiredProperties: string[] }).requiredProperties) {
        const key = keyOf(path, `${error.instancePath}/${name}`)
        const at = schemaAt(schema, `${error.instancePath}/${name}`)
        problems.push(`cannot find "${key}" in ${origin(key)}: it is needed; ${at?.description ?? (at?.type === 'object' ? `add [${key}]` : 'set it')}`)
      }
      continue
    }
    const key = keyOf(path, error.instancePath)
    // An unknown key is named already, and what it holds may be a secret under a wrong name.
    if (reported.has(key) || unset.has(key) || error.keyword === 'additionalProperties' || error.keyword === 'boolean') continue
    reported.add(key)
    const at = schemaAt(schema, error.instancePath)
    const description = descriptionAt(schema, error.instancePath)
    const given = valueAt(value, error.instancePath)
    const text = at !== undefined && holdsSecret(at) ? '' : ` ${shown(given)}`
    const choices = at === undefined ? undefined : choicesOf(at)
    const why =
      choices === undefined
        ? withMeaning(`${error.message}${text === '' ? '' : otherwiseWritten(at?.type, given)}`, description)
        : outsideOf(choices, given, description)
    problems.push(`cannot use "${key}"${text} in ${origin(key)}: ${why}`)
  }
  return problems.length > before ? value : wrapSecrets(schema, value)
}

/** The fixed values of a key, also where they are literals of a union, and what else it may be. Undefined = it has none. */
function choicesOf({ enum: values, const: only, anyOf = [] }: Schema): { values: unknown[]; others: string[] } | undefined {
  if (values !== undefined) return { values, others: [] }
  if (only !== undefined) return { values: [only], others: [] }
  const each = anyOf.map((at) => choicesOf(at) ?? { values: [], others: at.type === undefined ? [] : [at.type] })
  const found = { values: each.flatMap((at) => at.values), others: each.flatMap((at) => at.others) }
  return found.values.length === 0 ? undefined : found
}

function outsideOf({ values, others }: { values: unknown[]; others: string[] }, given: unknown, description: string | undefined): string {
  // Such a description is the list, and may say more of each.
  if (description?.startsWith(`${values[0]}, `)) return `must be one of ${description}`
  // TOML has 1.2 as a number.
  const quotes = values.includes(String(given)) ? `; write "${given}", in quotes` : ''
  return withMeaning(`must be one of ${values.join(', ')}${others.map((type) => `, or ${type}`).join('')}${quotes}`, description)
}

const withMeaning = (text: string, description: string | undefined): string => (description === undefined ? text : `${text}; ${description}`)

/** What values of another type are mostly meant to be. */
function otherwiseWritten(type: string | undefined, given: unknown): string {
  const text = typeof given === 'string'
  if ((type === 'integer' || type === 'number') && text) return '; write digits alone, without quotes and unit'
  if (type === 'boolean' && text) return '; write true or false, without quotes'
  if (type === 'string' && (typeof given === 'number' || typeof given === 'boolean')) return `; write "${given}", in quotes`
  if (type === 'array' && text) return `; write [${shown(given)}], a list`
  return ''
}

/** Whether what is written there may have a secret in it: of the wrong type, too. */
function holdsSecret(schema: Schema): boolean {
  return (
    isSecretSchema(schema) ||
    [schema.items, ...(schema.anyOf ?? []), ...Object.values(schema.properties ?? {})].some((at) => at !== undefined && holdsSecret(at))
  )
}

function findUnknown(schema: Schema, value: unknown, path: string, origin: Origin, problems: string[]): void {
  if (Array.isArray(value)) {
    if (schema.items !== undefined) for (const [i, item] of value.entries()) findUnknown(schema.items, item, `${path}[${i}]`, origin, problems)
    return
  }
  if (typeof value !== 'object' || value === null) return
  if (schema.properties === undefined) return findMisnamed(schema, value, path, origin, problems)
  const open = schema.patternProperties !== undefined || (schema.additionalProperties !== undefined && schema.additionalProperties !== false)
  const names = Object.keys(schema.properties)
  for (const [name, member] of Object.entries(value)) {
    const key = `${path}.${name}`
    if (Object.hasOwn(schema.properties, name)) findUnknown(schema.properties[name], member, key, origin, problems)
    else if (!open)
      problems.push(
        `cannot use "${key}" in ${origin(key)}: there is no such key; ${didYouMean(name, names, `the keys of [${path}] are ${names.join(', ') || 'none'}`)}`,
      )
  }
}

/** Keys of a table of free names that its pattern does not take: the reader passes them over. */
function findMisnamed({ patternProperties = {}, description }: Schema, value: object, path: string, origin: Origin, problems: string[]): void {
  const [pattern] = Object.keys(patternProperties)
  if (pattern === undefined) return
  const taken = new RegExp(pattern)
  for (const name of Object.keys(value)) {
    const key = `${path}.${name}`
    if (!taken.test(name)) problems.push(withMeaning(`cannot use "${key}" in ${origin(key)}: the names there must match pattern "${pattern}"`, description))
  }
}

function wrapSecrets(schema: Schema, value: unknown): unknown {
  if (isSecretSchema(schema) && typeof value === 'string') return new Secret(value)
  if (Array.isArray(value)) return schema.items === undefined ? value : value.map((item) => wrapSecrets(schema.items as Schema, item))
  if (schema.properties === undefined || typeof value !== 'object' || value === null) return value
  const wrapped: Record<string, unknown> = { ...value }
  for (const [name, property] of Object.entries(schema.properties)) {
    if (Object.hasOwn(wrapped, name)) wrapped[name] = wrapSecrets(property, wrapped[name])
  }
  return wrapped
}

/** Environment variables and flags are text: read them as the schema's type; what does not fit stays text and is refused by the check. */
export function fromText(schema: Schema | undefined, text: string): unknown {
  if (schema?.type === 'integer' || schema?.type === 'number') return text.trim() !== '' && Number.isFinite(Number(text)) ? Number(text) : text
  if (schema?.type === 'boolean') return text === 'true' ? true : text === 'false' ? false : text
  // Lists of texts, with commas between.
  if (schema?.type === 'array')
    return text
      .split(',')
      .map((item) => item.trim())
      .filter((item) => item !== '')
  return text
}

function keyOf(path: string, pointer: string): string {
  return path + pointer.replace(/\/(\d+)(?=\/|$)/g, '[$1]').replaceAll('/', '.')
}

function schemaAt(schema: Schema, pointer: string): Schema | undefined {
  let at: Schema | undefined = schema
  for (const part of pointer.split('/').slice(1)) at = at?.items !== undefined ? at.items : at?.properties?.[part]
  return at
}

/** Items of a list, and members of a table whose names are free, are described by it where they say nothing themselves. */
function descriptionAt(schema: Schema, pointer: string): string | undefined {
  let at: Schema | undefined = schema
  let description: string | undefined
  for (const part of pointer.split('/').slice(1)) {
    const property: Schema | undefined = at?.properties?.[part]
    at = property ?? at?.items
    description = property === undefined ? (at?.description ?? description) : property.description
  }
  return description
}

function valueAt(value: unknown, pointer: string): unknown {
  let at = value
  for (const part of pointer.split('/').slice(1)) at = (at as Record<string, unknown> | undefined)?.[part]
  return at
}
