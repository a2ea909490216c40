/** The OpenAPI 3.1 description of the routes that are loaded, and a page to browse it. */
import Fastify, { type FastifyInstance, type RouteOptions } from 'fastify'
import type { Auth } from '../auth/auth.ts'
import { nextTurn } from '../lib/event-loop/index.ts'
import { Type } from '../lib/schema/index.ts'
import type { RouteConfig } from '../plugin.ts'
import { docsPage } from './docs-page.ts'
import { byMediaType } from './media-type.ts'

/** For the description of an answer without a body. */
export const NOTHING = Type.Null({ description: 'Done' })

interface DescriptionOptions {
  version: string
  publicUrl: string | undefined
  /** Asked when somebody wants the description: everything is declared by then. */
  auth: Auth
}

/**
 * Notes the routes that are declared from here on. The description is made, and what makes it loaded, when it is first asked for: few nodes are ever asked.
 * @returns the description as JSON.
 */
export function describeRoutes(http: FastifyInstance, options: DescriptionOptions): () => Promise<string> {
  const routes: RouteOptions[] = []
  http.addHook('onRoute', (route) => {
    if (route.method !== 'HEAD') routes.push(route)
  })
  let made: Promise<string> | undefined
  return () => {
    made ??= describe(routes, options).catch((error) => {
      made = undefined
      throw error
    })
    return made
  }
}

/** Routes that are described in one turn of the event loop. */
const AT_ONCE = 12

/** @param routes as fastify's hook has them. */
async function describe(routes: readonly RouteOptions[], options: DescriptionOptions): Promise<string> {
  const description = await describeSome(routes.slice(0, AT_ONCE), options)
  for (let at = AT_ONCE; at < routes.length; at += AT_ONCE) {
    await nextTurn()
    const { paths = {} } = await describeSome(routes.slice(at, at + AT_ONCE), options)
    for (const [path, operations] of Object.entries(paths)) Object.assign(((description.paths ??= {})[path] ??= {}), operations)
  }
  await nextTurn()
  return JSON.stringify(description)
}

async function describeSome(routes: readonly RouteOptions[], { auth, publicUrl, version }: DescriptionOptions): Promise<Description> {
  const { default: swagger } = await import('@fastify/swagger')
  const nothing = () => () => true as never
  const described = Fastify({
    exposeHeadRoutes: false,
    routerOptions: { constraints: { mediaType: byMediaType } },
    schemaController: { compilersFactory: { buildValidator: () => nothing, buildSerializer: () => nothing } },
  })
  await described.register(swagger, {
    openapi: {
      openapi: '3.1.0',
      info: { title: 'svc', description: 'Time-series database server', version, license: { name: 'Apache-2.0', identifier: 'Apache-2.0' } },
      servers: [{ url: publicUrl ?? '/' }],
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
  for (const { method, url, schema, config, constraints } of routes) {
    const declared = { method, url, config, handler: () => {} }
    described.route({ ...declared, ...(schema === undefined ? {} : { schema }), ...(constraints === undefined ? {} : { constraints }) })
  }
  await described.ready()
  const description = described.swagger() as Description
  await described.close()
  return description
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

export function addOpenapiRoutes(http: FastifyInstance, description: () => Promise<string>): void {
  const schema = { tags: ['description'], summary: 'This description' }
  http.get('/api/v1/openapi.json', { config: { action: 'read' }, schema }, async (_request, reply) =>
    reply.type('application/json; charset=utf-8').send(await description()),
  )
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
