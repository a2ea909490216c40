/** The OpenAPI 3.1 description of the routes that are loaded, and a page to browse it. */
import swagger from '@fastify/swagger'
import type { FastifyInstance } from 'fastify'
import { Type } from 'typebox'
import type { Auth } from '../auth/auth.ts'
import type { RouteConfig } from '../plugin.ts'
import { docsPage } from './docs-page.ts'

/** For the description of an answer without a body. */
export const NOTHING = Type.Null({ description: 'Done' })

export interface DescriptionOptions {
  version: string
  publicUrl: string | undefined
  /** Asked when somebody wants the description: everything is declared by then. */
  auth: Auth
}

/** Before any route. */
export async function describeRoutes(http: FastifyInstance, options: DescriptionOptions): Promise<void> {
  const { auth } = options
  await http.register(swagger, {
    openapi: {
      openapi: '3.1.0',
      info: { title: 'svc', description: 'Time-series database server', version: options.version, license: { name: 'Apache-2.0', identifier: 'Apache-2.0' } },
      servers: [{ url: options.publicUrl ?? '/' }],
      components: {
        securitySchemes: { bearer: { type: 'http', scheme: 'bearer', description: 'An API key, or a token of an issuer that the server trusts' } },
        schemas: {
          Error: {
            type: 'object',
            required: ['error', 'code'],
            properties: {
              error: { type: 'string', description: 'What went wrong, for people' },
              code: { type: 'string', description: 'What went wrong, for programs' },
            },
          },
        },
      },
    },
    transform: ({ schema, url, route }) => {
      const { action = 'read' } = (route.config ?? {}) as RouteConfig
      return { url, schema: auth.open || auth.needsCredentials(action, url) ? schema : { ...schema, security: [] } }
    },
    transformObject: (document) => {
      const description = withErrors(('openapiObject' in document ? document.openapiObject : {}) as Description)
      if (!auth.open) description.security = [{ bearer: [] }]
      return description as never
    },
  })
}

interface Description {
  security?: Record<string, string[]>[]
  paths?: Record<string, Record<string, { responses?: Record<string, unknown> }>>
}

/** Every operation may answer with the envelope. */
function withErrors(document: Description): Description {
  for (const item of Object.values(document.paths ?? {})) {
    for (const operation of Object.values(item)) {
      if (typeof operation !== 'object' || operation.responses === undefined) continue
      operation.responses.default ??= { description: 'Any failure', content: { 'application/json': { schema: { $ref: '#/components/schemas/Error' } } } }
    }
  }
  return document
}

export function addOpenapiRoutes(http: FastifyInstance): void {
  http.get('/api/v1/openapi.json', { config: { action: 'read' }, schema: { tags: ['description'], summary: 'This description' } }, async () => http.swagger())
  http.get(
    '/api/v1/docs',
    { config: { action: 'read' }, schema: { tags: ['description'], summary: 'This description as a page' } },
    async (_request, reply) => {
      return reply
        .type('text/html; charset=utf-8')
        .header('content-security-policy', "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'")
        .send(docsPage)
    },
  )
}
