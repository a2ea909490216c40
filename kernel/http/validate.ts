/** Checks of route schemas, made once. Text from the URL is converted to the schema's types; bodies never are. */
import { type Problem, SchemaReader } from '../lib/schema/index.ts'

interface Compiled {
  value?: unknown
  error?: Error
}

/** The `validatorCompiler` of all routes (Fastify's word): for a route that has its own for one part of the request and leaves the others to this. */
export function validatorCompiler({ schema, httpPart }: { schema: unknown; httpPart?: string }): (data: unknown) => Compiled {
  const reader = new SchemaReader(schema as object)
  const isBody = httpPart === 'body'
  const numbers = isBody ? [] : numbersOf(schema as { properties?: Record<string, { type?: unknown }> })
  return (data) => {
    const { value, problems } = reader.read(withoutFalseNumbers(data, numbers), !isBody)
    const [first] = problems
    if (first === undefined) return { value }
    const name = first.instancePath.slice(1)
    if (httpPart === 'querystring' && Array.isArray((data as Record<string, unknown>)[name]))
      return { error: new Error(`cannot use parameter "${name}": it is there more than once; send it once`) }
    return { error: new Error(describe(httpPart ?? 'request', first, problems, schema as Described)) }
  }
}

type Described = { description?: string } & { [keyword: string]: Described }

/** How a number is written in a URL. TypeBox takes more for one: an empty text, "true", "0x10", and of "1.5" what an integer holds. */
const WRITTEN: Record<string, RegExp> = { integer: /^-?\d+$/, number: /^-?\d+(\.\d+)?(e[+-]?\d+)?$/i }

function numbersOf({ properties = {} }: { properties?: Record<string, { type?: unknown }> }): [name: string, written: RegExp][] {
  return Object.entries(properties).flatMap(([name, { type }]) => {
    const written = WRITTEN[String(type)]
    return written === undefined ? [] : [[name, written]]
  })
}

/** A text that is no number becomes NaN, which is none to TypeBox either. */
function withoutFalseNumbers(data: unknown, numbers: readonly [string, RegExp][]): unknown {
  let texts = data as Record<string, unknown>
  for (const [name, written] of numbers) {
    const text = texts?.[name]
    if (typeof text === 'string' && !written.test(text)) texts = { ...texts, [name]: Number.NaN }
  }
  return texts
}

/** @param schema of the whole part. */
function describe(part: string, problem: Problem, problems: readonly Problem[], schema: Described): string {
  const { instancePath, keyword, message } = problem
  const where = `${part}${instancePath.replace(/\/(\d+)(?=\/|$)/g, '[$1]').replaceAll('/', '.')}`
  // Of a choice there is a problem for each value that may be.
  const choice = problems.flatMap((at) => (at.instancePath === instancePath ? choicesOf(at) : []))
  if (choice.length > 0) return `${where} must be ${choice.join(' or ')}`
  if (keyword === 'required') {
    const { requiredProperties } = problem.params as { requiredProperties: string[] }
    const unknown = problems.find((at) => isUnknown(at) && parentOf(at.instancePath) === instancePath)
    const misnamed = unknown === undefined ? '' : `; ${JSON.stringify(nameOf(unknown.instancePath.slice(instancePath.length + 1)))} is not a known member`
    return `${where} must have ${requiredProperties.map((name) => JSON.stringify(name)).join(' and ')}${misnamed}`
  }
  if (isUnknown(problem)) return `${where} is not a known member`
  const meaning = schemaAt(schema, (problem as Problem & { schemaPath: string }).schemaPath)?.description
  return `${where} ${message}${meaning === undefined ? '' : `; ${meaning}`}`
}

/** TypeBox reports a member that is not in the schema as one whose schema is `false`. */
const isUnknown = ({ keyword }: Problem): boolean => keyword === 'boolean'

/** Characters of a name that are shown. */
const MAX_SHOWN = 100

/** @param token of a JSON pointer. */
function nameOf(token: string): string {
  const name = token.replaceAll('~1', '/').replaceAll('~0', '~')
  return name.length > MAX_SHOWN ? `${name.slice(0, MAX_SHOWN)}...` : name
}

const parentOf = (pointer: string): string => pointer.slice(0, pointer.lastIndexOf('/'))

/** @param pointer JSON pointer with "#" before it. */
const schemaAt = (schema: Described, pointer: string): Described | undefined =>
  pointer
    .split('/')
    .slice(1)
    .reduce<Described | undefined>((at, name) => at?.[name], schema)

function choicesOf({ keyword, params }: Problem): string[] {
  if (keyword === 'const') return [JSON.stringify((params as { allowedValue: unknown }).allowedValue)]
  if (keyword === 'enum') return (params as { allowedValues: unknown[] }).allowedValues.map((value) => JSON.stringify(value))
  return []
}
