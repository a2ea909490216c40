/** The catalog's routes over the server's namespaces. They show and change nothing. */
import type { FastifyReply } from 'fastify'
import {
  type CallContext,
  type HttpHandler,
  type HttpRequest,
  NAMESPACES,
  type NamespaceDefinition,
  type NamespaceDirectory,
  type Svc,
  toSvcError,
} from 'svcdb'
import { type ErrorKind, logged, SvcError } from 'svcdb/lib/errors'
import type { TSchema } from 'svcdb/lib/schema'
import type { Audit } from './audit.ts'
import { answerOf, noSuchNamespace } from './envelope.ts'
import { maySee, type Page, pageOf, parseList, propertiesOf, visiblePage } from './listing.ts'
import { CONFIG, CONTEXT, NAMESPACE, NAMESPACES_LIST } from './paths.ts'
import { contextAnswer } from './principal.ts'
import * as schemas from './schemas.ts'

/** What a token may see must not outlive it in a cache. */
const NO_STORE = 'no-store'
const JSON_TYPE = 'application/json; charset=utf-8'
/** What a client of the Iceberg REST catalog may call; without the list it would think that there are tables. */
const ENDPOINTS = ['GET /v1/{prefix}/namespaces', 'GET /v1/{prefix}/namespaces/{namespace}', 'HEAD /v1/{prefix}/namespaces/{namespace}']
const NO_ANONYMOUS = 'cannot use the catalog without credentials: send "Authorization: Bearer <token>"; auth.require_authentication = false lets anybody in'

interface CatalogDependencies {
  audit: Audit
  requireAuthentication: boolean
}

export class Catalog {
  private readonly svc: Svc
  private readonly audit: Audit
  private readonly requireAuthentication: boolean

  constructor(svc: Svc, { audit, requireAuthentication }: CatalogDependencies) {
    this.svc = svc
    this.audit = audit
    this.requireAuthentication = requireAuthentication
  }

  /** Call it in setup. */
  serve(): void {
    this.svc.http.errorsBelow('/v1/', (error, request, reply) => this.fail(error, request, reply, 'NotFoundException'))
    this.get(CONFIG, 'What the catalog is set to and which of its endpoints there are', schemas.tokenQuery, schemas.configAnswer, () => ({
      defaults: {},
      overrides: {},
      endpoints: ENDPOINTS,
    }))
    this.get(NAMESPACES_LIST, 'Lists the namespaces that the credential may see', schemas.listQuery, schemas.listAnswer, (request) => this.list(request))
    // Before GET, whose answer would be 200.
    this.route('HEAD', NAMESPACE, 'Whether there is a namespace', schemas.tokenQuery, { 204: { description: 'There is', type: 'null' } }, (request, reply) => {
      this.find(request)
      return reply.code(204).send()
    })
    this.get(NAMESPACE, 'Shows a namespace with its description, owner and quota', schemas.tokenQuery, schemas.namespaceAnswer, (request) => {
      const found = this.find(request)
      return { namespace: [found.name], properties: propertiesOf(found) }
    })
    this.get(CONTEXT, 'Who the credential says the caller is, and what it may do', schemas.tokenQuery, schemas.contextAnswer, (request) =>
      contextAnswer(this.svc.context(request)),
    )
  }

  /** Why a caller that nobody authenticated is refused; undefined where it is not, or is somebody. */
  refusal({ method }: CallContext): SvcError | undefined {
    return this.requireAuthentication && method === 'none' ? new SvcError('UNAUTHORIZED', NO_ANONYMOUS) : undefined
  }

  private list(request: HttpRequest): Page {
    const { svc } = this
    const { parent, ...paging } = parseList(request.query)
    const context = svc.context(request)
    if (parent === undefined) return visiblePage(context, this.directory, svc.server.multi_tenancy, paging)
    if (!this.visible(context, parent)) throw noSuchNamespace(parent)
    return pageOf([], paging.pageSize) // namespaces have one level
  }

  private find(request: HttpRequest): NamespaceDefinition {
    const { namespace: name } = request.params as { namespace: string }
    const context = this.svc.context(request)
    // The source of credentials has had the call admitted for the namespace of the path; a path that is exempt has no such admission.
    const admitted = context.method === 'none' || context.namespace === name
    const definition = admitted && this.visible(context, name) ? this.directory.get(name) : undefined
    if (definition === undefined) throw noSuchNamespace(name)
    return definition
  }

  private visible(context: CallContext, name: string): boolean {
    return maySee(context, name, this.svc.server.multi_tenancy) && this.directory.get(name) !== undefined
  }

  private get directory(): NamespaceDirectory {
    return this.svc.use<NamespaceDirectory>(NAMESPACES)
  }

  private get(path: string, summary: string, querystring: TSchema, answer: TSchema, handler: HttpHandler): void {
    this.route('GET', path, summary, querystring, { 200: answer }, handler)
    // Other methods, so that they are refused in the catalog's shape. Nothing of a body is read.
    const allow = 'GET, HEAD'
    this.svc.http.route({
      method: ['POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS'],
      url: path,
      config: { action: 'read' },
      schema: { hide: true },
      errorHandler: (error, request, reply) => this.fail(error, request as HttpRequest, reply),
      onRequest: (request, _reply, done) =>
        done(new SvcError('METHOD_NOT_ALLOWED', `cannot ${request.method} "${path}": the path answers to ${allow}`, { headers: { allow } })),
      handler: () => undefined,
    })
  }

  private route(method: 'GET' | 'HEAD', url: string, summary: string, querystring: TSchema, response: object, handler: HttpHandler): void {
    this.svc.http.route({
      method,
      url,
      config: { action: 'read' },
      schema: { summary, querystring, response: { ...response, default: schemas.failure } } as never,
      validatorCompiler: unchecked,
      errorHandler: (error, request, reply) => this.fail(error, request as HttpRequest, reply),
      onRequest: async (request, reply) => {
        const context = this.svc.context(request)
        const refusal = this.refusal(context)
        if (refusal !== undefined) {
          await this.audit.refusedAnonymous(context)
          throw refusal
        }
        reply.header('cache-control', NO_STORE)
      },
      handler,
    })
  }

  private fail(error: unknown, request: HttpRequest, reply: FastifyReply, notFound?: string): void {
    const known = toSvcError(error)
    if ((known.kind as ErrorKind).redact) this.svc.log.error({ err: logged(known), code: known.code, request_id: request.id }, 'request failed')
    const { namespace } = (request.params ?? {}) as { namespace?: string }
    // Whether a namespace is another's is not for the caller to know.
    const hidden = namespace !== undefined && (known.code === 'FORBIDDEN' || known.code === 'NOT_FOUND')
    const { status, headers, body } = answerOf(hidden ? noSuchNamespace(namespace) : known, notFound)
    reply
      .code(status)
      .headers({ ...headers, 'cache-control': NO_STORE })
      .type(JSON_TYPE)
      .serializer(JSON.stringify)
      .send(body)
  }
}

const unchecked = () => (value: unknown) => ({ value })
