/** What answers a call, whichever listener it came in by: through the gate, to its operation, and back as JSON. */
import type { AuditLog } from 'svcdb'
import { audited } from 'svcdb'
import type { OperatedPlane } from 'svcdb/agents'
import { inTurns } from 'svcdb/lib/event-loop'
import type { JsonBounds } from 'svcdb/lib/json'
import type { SchemaReader, TSchema } from 'svcdb/lib/schema'
import { type IncomingBody, parseJson, readerOf, requireJson, shaped } from './body.ts'
import type { Gate, GateDependencies } from './gate.ts'
import { type Call, identifier, type Operation } from './operation.ts'
import { NoRoom, Refusal, refusedBy } from './refusal.ts'
import { Router } from './router.ts'
import { Type } from './schema.ts'
import type { Caller } from './tokens.ts'
import { written } from './written.ts'

/** A call as a listener brings it. */
export interface Incoming {
  method: string
  /** Below the base path, without the query, as it came. */
  path: string
  query: string
  header(name: string): string | undefined
  /** Names, in lower case, and values, as they came. */
  headers(): readonly [string, string][]
  body: Pick<IncomingBody, 'read' | 'release'>
  address: string | undefined
  requestId: string
}

export interface Answer {
  status: number
  headers: Record<string, string>
  body: string | Buffer
  /** Empty where no route has the path. */
  operationId: string
}

interface ApiDependencies extends Pick<GateDependencies, 'log'> {
  gate: Gate
  operations: readonly Operation[]
  bounds: JsonBounds
  auditReads: boolean
  auditLog(): AuditLog | undefined
}

/** Names longer than any that there are stand for nothing in particular. */
const MAX_RESOURCE = 512
const AUDITED_LENGTH = 128

/** What the policies may have to be asked with before it is known to have the right form. */
interface Given {
  bytes?: Buffer
  value?: unknown
  refusal?: Refusal
}

export class OperatorApi {
  private readonly dependencies: ApiDependencies
  private readonly router: Router
  private readonly queries = new Map<Operation, SchemaReader>()
  private readonly bodies = new Map<Operation, SchemaReader>()

  constructor(dependencies: ApiDependencies) {
    this.dependencies = dependencies
    this.router = new Router(dependencies.operations)
    for (const operation of dependencies.operations) {
      const { query, body } = operation
      if (query !== undefined) this.queries.set(operation, readerOf(Type.Object(query)))
      if (body !== undefined) this.bodies.set(operation, readerOf(body))
    }
  }

  /** Never throws. */
  async answer(incoming: Incoming): Promise<Answer> {
    const found = this.router.find(incoming.method, incoming.path)
    const meant = 'operation' in found ? found.operation : undefined
    const operationId = meant?.operationId ?? ''
    try {
      const caller = await this.known(incoming)
      const plane = await this.planeOf(caller, meant, incoming)
      if (!('operation' in found)) return unknown(incoming, found.methods)
      const { operation, params } = found
      const query = new URLSearchParams(incoming.query)
      const given = typeof operation.resource === 'object' && 'body' in operation.resource ? await this.read(incoming, caller) : {}
      const enveloped = operation.envelope?.parse({ headers: incoming.headers(), body: await incoming.body.read(ownerOf(caller)) }, this.dependencies.bounds)
      const resource = enveloped?.resource ?? resourceOf(operation, { params, query, given })
      await this.permit(caller, operation, resource, incoming)
      const store = operation.store?.of(plane)
      if (operation.store !== undefined && store === undefined)
        throw new Refusal(
          501,
          `the plane has no ${operation.store.name} store, which "${operation.operationId}" needs; ${operation.store.hint ?? 'see what the node was built with'}`,
        )
      for (const name of operation.parameters) identifier(name, params[name])
      const call = {
        plane,
        caller,
        operator: { actor: caller.actor, basis: 'authenticated' as const },
        params,
        query: this.shapedQuery(operation, query),
        body: enveloped === undefined ? await this.shapedBody(operation, incoming, caller, given) : enveloped.body,
        store,
      } satisfies Call<unknown, unknown, unknown>
      if (operation.method !== 'GET') await this.permitStill(operation, resource, incoming)
      const record = { action: 'operator_call', resource: `${operation.action} ${resource}`.slice(0, AUDITED_LENGTH), decision: 'allow' as const }
      const act = async () => operation.handle(call as never)
      const isAudited = operation.method !== 'GET' || this.dependencies.auditReads
      const body = isAudited
        ? await audited(this.dependencies.auditLog(), { ...record, by: byOf(caller, incoming), metadata: metadataOf(caller) }, act)
        : await act()
      return { status: operation.status, headers: HEADERS, body: operation.status === 204 ? '' : await inTurns(written(body)), operationId }
    } catch (error) {
      return this.refused(error, meant, operationId, incoming)
    } finally {
      incoming.body.release()
    }
  }

  private async known(incoming: Incoming): Promise<Caller> {
    const authorization = incoming.header('authorization')
    try {
      return this.dependencies.gate.authenticate(authorization)
    } catch (error) {
      const by = { principal: 'anonymous', address: incoming.address, requestId: incoming.requestId }
      const metadata = { surface: 'operator_api', credential: schemeOf(authorization), reason: (error as Error).message }
      await this.dependencies.auditLog()?.record({ action: 'login_failure', resource: 'operator_api', decision: 'deny', by, metadata })
      throw error
    }
  }

  private async planeOf(caller: Caller, operation: Operation | undefined, incoming: Incoming): Promise<OperatedPlane> {
    try {
      return this.dependencies.gate.planeOf(caller)
    } catch (error) {
      await this.denied(caller, `${operation?.action ?? 'none'} *`, incoming)
      throw error
    }
  }

  private async permit(caller: Caller, { action }: Operation, resource: string, incoming: Incoming): Promise<void> {
    try {
      this.dependencies.gate.permit(caller, action, resource)
    } catch (error) {
      await this.denied(caller, `${action} ${resource}`, incoming)
      throw error
    }
  }

  /** Bodies may take minutes to arrive. @throws as `known` and `permit`. */
  private async permitStill(operation: Operation, resource: string, incoming: Incoming): Promise<void> {
    await this.permit(await this.known(incoming), operation, resource, incoming)
  }

  private async denied(caller: Caller, resource: string, incoming: Incoming): Promise<void> {
    const record = { action: 'operator_call', resource: resource.slice(0, AUDITED_LENGTH), decision: 'deny' as const }
    await this.dependencies.auditLog()?.record({ ...record, by: byOf(caller, incoming), metadata: metadataOf(caller) })
  }

  /** The body as far as it can be told. */
  private async read(incoming: Incoming, caller: Caller): Promise<Given> {
    const given: Given = {}
    try {
      given.bytes = await incoming.body.read(ownerOf(caller))
      given.value = parseJson(given.bytes, this.dependencies.bounds)
    } catch (error) {
      if (!(error instanceof Refusal) || error instanceof NoRoom) throw error
      given.refusal = error
    }
    return given
  }

  private shapedQuery(operation: Operation, query: URLSearchParams): unknown {
    const reader = this.queries.get(operation)
    if (reader === undefined) return {}
    const given: Record<string, string> = {}
    for (const name of Object.keys(operation.query ?? {})) {
      const values = query.getAll(name)
      if (values.length > 1) throw new Refusal(400, `the parameter \`${name}\` is there more than once; send it once`)
      if (values.length === 1) given[name] = values[0]
    }
    return shaped(reader, given, { name: 'query', status: 400, members: operation.query })
  }

  private async shapedBody(operation: Operation, incoming: Incoming, caller: Caller, given: Given): Promise<unknown> {
    const reader = this.bodies.get(operation)
    if (reader === undefined) return undefined
    requireJson(incoming.header('content-type'))
    if (given.refusal !== undefined) throw given.refusal
    const value = given.bytes === undefined ? parseJson(await incoming.body.read(ownerOf(caller)), this.dependencies.bounds) : given.value
    return shaped(reader, value, { name: 'body', status: 422, members: (operation.body as { properties?: Record<string, TSchema> }).properties })
  }

  private refused(error: unknown, operation: Operation | undefined, operationId: string, { method, path, requestId }: Incoming): Answer {
    const { status, sentence, fault, retryAfter } = refusedBy(error, operation?.refusals ?? ANY)
    if (fault !== undefined) this.dependencies.log.error({ err: fault, request_id: requestId, method, path }, 'an operation has failed')
    return {
      status,
      headers: {
        ...HEADERS,
        ...(status === 401 ? { 'www-authenticate': 'Bearer' } : {}),
        ...(status === 413 || error instanceof NoRoom ? { connection: 'close' } : {}),
        ...(retryAfter === undefined ? {} : { 'retry-after': String(retryAfter) }),
      },
      body: JSON.stringify({ error: sentence }),
      operationId,
    }
  }
}

const HEADERS = { 'content-type': 'application/json; charset=utf-8', 'cache-control': 'no-store' }
/** Of paths that no route has. */
const ANY: ReadonlySet<number> = new Set([401, 403])

function unknown({ method, path }: Incoming, methods: readonly string[]): Answer {
  const answer = (status: number, error: string, headers = {}) => ({
    status,
    headers: { ...HEADERS, ...headers },
    body: JSON.stringify({ error }),
    operationId: '',
  })
  const shown = JSON.stringify(path.slice(0, 128))
  if (methods.length === 0) return answer(404, `there is no operation at ${shown}; svc plane openapi describes those there are`)
  return answer(405, `cannot ${method} ${shown}: it answers to ${methods.join(', ')}`, { allow: methods.join(', ') })
}

interface Asked {
  params: Readonly<Record<string, string>>
  query: URLSearchParams
  given: Given
}

/** As it was written; a default where nothing was; `*` where nothing can be told. */
function resourceOf({ resource, query: queries = {} }: Operation, { params, query, given }: Asked): string {
  if (typeof resource === 'string') return resource
  const named =
    'path' in resource
      ? params[resource.path]
      : 'query' in resource
        ? (query.get(resource.query) ?? (queries[resource.query] as { default?: unknown }).default)
        : (given.value as Record<string, unknown> | null | undefined)?.[resource.body]
  return typeof named === 'string' && named !== '' && named.length <= MAX_RESOURCE ? named : '*'
}

/** What the caller showed, by its kind only. */
function schemeOf(authorization: string | undefined): string {
  if (authorization === undefined) return 'none'
  return /^bearer +\S/i.test(authorization) ? 'bearer' : 'other'
}

/** Whose body it is, beside the namespaces of the server. */
const ownerOf = ({ tenant }: Caller): string => `plane/${tenant}`

function byOf({ actor }: Caller, { address, requestId }: Incoming) {
  return { principal: actor, address, requestId }
}

function metadataOf({ tenant, roles }: Caller): Record<string, string> {
  return { tenant, roles: roles.join(',') }
}
