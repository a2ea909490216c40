/** The OpenAPI 3.1 document of the operations. Members are sorted, so that two of them can be compared. */
import { type Operation, PARAMETERS } from './operation.ts'
import { ErrorBody, nameOf, type TSchema } from './schema.ts'

const INTERFACE_VERSION = '0.46.0'
const DIALECT = 'https://json-schema.org/draft/2020-12/schema'

type Json = Record<string, unknown>

const REFUSALS: Readonly<Record<number, string>> = {
  400: 'An identifier does not parse, the content is wrong, or the body is no JSON',
  401: 'No credentials, or none that are accepted',
  403: 'The policies refuse it, or the tenant of the caller has no plane here',
  404: 'There is none of this name',
  409: 'How things stand refuses it',
  412: 'What was decided about is no longer what is stored; nothing was recorded',
  413: 'The body is too large',
  415: 'The body is not application/json',
  422: 'The body has another shape, or the plane cannot do what it says',
  500: 'The store failed, or the policies could not be evaluated',
  501: 'The plane has no store for it',
  503: 'The store failed; send it again',
}

/** @param server what the paths are relative to. */
export function openapiDocument(operations: readonly Operation[], server = '/api/v1/plane'): Json {
  const schemas: Json = {}
  /** With what has a name in its place; plain JSON. */
  const written = (value: unknown): unknown => {
    if (Array.isArray(value)) return value.map(written)
    if (typeof value !== 'object' || value === null) return value
    const name = nameOf(value)
    const plain = () => Object.fromEntries(Object.entries(value).map(([member, one]) => [member, written(one)]))
    if (name === undefined) return plain()
    if (!Object.hasOwn(schemas, name)) {
      schemas[name] = null
      schemas[name] = plain()
    }
    return { $ref: `#/components/schemas/${name}` }
  }
  const json = (schema: TSchema) => ({ 'application/json': { schema: written(schema) } })
  const paths: Record<string, Json> = {}
  for (const operation of operations) {
    const { path, method, operationId, action, summary, feature, parameters, query = {}, body, envelope, answer, status, refusals } = operation
    const answers: Json = {
      [status]: { description: answer === undefined ? 'Done' : 'The answer', ...(answer === undefined ? {} : { content: json(answer) }) },
    }
    for (const refusal of refusals) answers[refusal] = { description: REFUSALS[refusal] ?? 'Refused', content: json(ErrorBody) }
    const content = envelope === undefined ? (body === undefined ? undefined : json(body)) : bodies(envelope.content, written)
    const inPath = parameters.map((name) => ({ name, in: 'path', required: true, description: PARAMETERS[name].description, schema: { type: 'string' } }))
    const inQuery = Object.entries(query).map(([name, schema]) => {
      const { description, ...rest } = written(schema) as Json
      return { name, in: 'query', required: false, ...(description === undefined ? {} : { description }), schema: rest }
    })
    const all = [...inPath, ...inQuery]
    paths[path] = {
      ...paths[path],
      [method.toLowerCase()]: {
        operationId,
        summary,
        tags: [path.split('/')[1]],
        'x-svc-action': action,
        ...(feature === undefined ? {} : { 'x-svc-feature': feature }),
        ...(all.length === 0 ? {} : { parameters: all }),
        ...(content === undefined ? {} : { requestBody: { required: true, content } }),
        responses: answers,
      },
    }
  }
  return sorted({
    openapi: '3.1.0',
    jsonSchemaDialect: DIALECT,
    info: {
      title: 'svc operator API',
      version: INTERFACE_VERSION,
      description: 'What people and their tools see of the agent plane, and do to it. The tenant is that of the credential.',
      license: { name: 'Apache-2.0', identifier: 'Apache-2.0' },
    },
    servers: [{ url: server }],
    security: [{ bearer: [] }],
    paths,
    components: { schemas, securitySchemes: { bearer: { type: 'http', scheme: 'bearer', description: 'A token of the tokens file' } } },
  }) as Json
}

function bodies(content: Record<string, TSchema>, written: (value: unknown) => unknown): Json {
  return Object.fromEntries(Object.entries(content).map(([type, schema]) => [type, { schema: written(schema) }]))
}

function sorted(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(sorted)
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(
    Object.entries(value)
      .sort(([a], [b]) => (a < b ? -1 : 1))
      .map(([name, one]) => [name, sorted(one)]),
  )
}
