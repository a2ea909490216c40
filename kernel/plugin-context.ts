/** Builds what a plugin is handed: its own names, routes and hooks over the parts that all share. */
import type { FastifyInstance, FastifyRequest } from 'fastify'
import { AUTH_RANK, type Auth } from './auth/auth.ts'
import type { Cluster } from './cluster/cluster.ts'
import { OwnedWorks } from './cluster/owned-works.ts'
import type { ServerConfig, TlsConfig } from './config/schema.ts'
import { addPages } from './http/pages.ts'
import type { HttpServer } from './http/server.ts'
import type { IngestGate } from './ingest/ingest.ts'
import { PageFolder } from './lib/pages/index.ts'
import type { Logs } from './log.ts'
import type { MetricsRegistry } from './metrics.ts'
import type { Clock, Hook, HttpHandler, HttpOptions, HttpRequest, HttpRoutes, Plugin, PluginAuth, RouteConfig, Svc } from './plugin.ts'
import type { Scheduler } from './schedule/scheduler.ts'
import { NAMESPACES, type NamespaceDirectory } from './services/namespace-directory.ts'
import type { SqlFunctions } from './storage/sql-functions.ts'
import type { Storage } from './storage/storage.ts'
import type { Tracing } from './tracing.ts'

export interface SharedDependencies {
  server: ServerConfig
  tls: TlsConfig | undefined
  logs: Logs
  metrics: MetricsRegistry
  auth: Auth
  http: HttpServer
  /** Ids of plugins by method and path of their routes. */
  routeOwners: Map<string, string>
  ingest: IngestGate
  clock: Clock
  tracing: Tracing
  /** Undefined until the storage is open. */
  storage(): Storage | undefined
  dataDir: string | undefined
  readinessChecks: (() => string | undefined)[]
  stopping: AbortSignal
  scheduler: Scheduler
  cluster: Cluster
  notReady(): string | undefined
  sqlFunctions: SqlFunctions
  services: Map<string, { provider: string; service: unknown }>
  /** Names that the selected plugins say they provide. */
  provided: ReadonlySet<string>
}

/** `begin` and `end` are those of what the kernel does for the plugin: after it is ready, and before it drains. */
export type Hooks = Record<'start' | 'ready' | 'begin' | 'end' | 'drain' | 'stop', Hook[]>

/** @param scope the plugin's own fastify instance. */
export function createSvc(plugin: Plugin, scope: FastifyInstance, shared: SharedDependencies, hooks: Hooks): Svc {
  const { id } = plugin
  const metrics = shared.metrics.child(id)
  const log = shared.logs.child(id)
  const schedules = shared.scheduler.of(id, log)
  const keepsState = plugin.capabilities?.includes('state') === true
  const works = new OwnedWorks(id, shared.cluster, keepsState ? () => requireStorage(shared).state(id) : undefined)
  hooks.begin.push(
    () => schedules.start(),
    () => works.start(),
  )
  hooks.end.push(
    () => schedules.stop(),
    () => works.stop(),
  )
  let settingUp = true
  const declare = (what: string): void => {
    if (!settingUp) throw new Error(`cannot add ${what} of plugin "${id}": everything is declared in setup`)
  }
  scope.addHook('onReady', async () => {
    settingUp = false
  })
  return {
    id,
    log,
    metrics,
    http: routesOf(id, scope, shared, hooks),
    server: shared.server,
    tls: shared.tls,
    clock: shared.clock,
    get storage() {
      return storageOf(plugin, shared)
    },
    ingest: shared.ingest,
    dataDir: shared.dataDir,
    auth: authOf(id, shared, declare),
    tracing: tracingOf(shared, declare),
    sql: sqlOf(plugin, shared, declare),
    context(request: FastifyRequest) {
      const context = request.svcContext
      if (context === null) throw new Error(`cannot read the context of request ${request.id}: it was not admitted`)
      return context
    },
    async systemContext(namespace = 'default', { name } = {}) {
      if (settingUp) throw new Error(`cannot make a system context in plugin "${id}" during setup: namespaces are known in the ready phase`)
      const directory = shared.services.get(NAMESPACES)?.service as NamespaceDirectory | undefined
      const known = directory === undefined ? undefined : (given: string) => directory.get(given) !== undefined
      return shared.auth.admitSystem(name === undefined ? `system:${id}` : `system:${id}:${name}`, namespace, known)
    },
    start: (hook) => {
      declare('a start hook')
      hooks.start.push(hook)
    },
    ready: (hook) => void hooks.ready.push(hook),
    drain: (hook) => void hooks.drain.push(hook),
    stop: (hook) => void hooks.stop.push(hook),
    schedule: (name, every, job, options) => schedules.add(name, every, job, options),
    own: (name, work, options) => works.add(name, work, options),
    nodes: shared.cluster,
    readiness: (check) => void shared.readinessChecks.push(check),
    stopping: shared.stopping,
    notReady: () => shared.notReady(),
    provided: shared.provided,
    ...servicesOf(plugin, shared, () => settingUp),
  }
}

function storageOf({ id, capabilities = [] }: Plugin, shared: SharedDependencies): Storage {
  if (capabilities.length === 0) throw new Error(`cannot use the storage in plugin "${id}": it declares no capabilities; name what it needs in definePlugin`)
  const storage = shared.storage()
  if (storage === undefined)
    throw new Error(`cannot use the storage in plugin "${id}" during setup: it opens in the start phase; use it in start() or in a handler`)
  return storage
}

/** @param declare throws when setup is over. */
function sqlOf({ id, capabilities }: Plugin, shared: SharedDependencies, declare: (what: string) => void): Svc['sql'] {
  return {
    function(declaration) {
      declare('a SQL function')
      if (!capabilities?.includes('sql_functions'))
        throw new Error(`cannot add a SQL function of plugin "${id}": it does not declare the capability "sql_functions"; name it in definePlugin`)
      shared.sqlFunctions.add(id, declaration)
    },
  }
}

function servicesOf(plugin: Plugin, shared: SharedDependencies, isSettingUp: () => boolean): Pick<Svc, 'provide' | 'use' | 'find'> {
  const { id } = plugin
  return {
    provide(name, service) {
      if (!plugin.provides?.includes(name)) throw new Error(`cannot provide "${name}" from plugin "${id}": it is not in its provides; add it to definePlugin`)
      shared.services.set(name, { provider: id, service })
    },
    use<T>(name: string): T {
      if (!plugin.requires?.includes(name)) throw new Error(`cannot use "${name}" in plugin "${id}": it is not in its requires; add it to definePlugin`)
      const known = shared.services.get(name)
      if (known === undefined) throw new Error(`cannot use "${name}" in plugin "${id}": nothing was provided under that name`)
      return known.service as T
    },
    find<T>(name: string): T | undefined {
      if (isSettingUp())
        throw new Error(`cannot find "${name}" in plugin "${id}" during setup: its provider may be set up later; call it in start() or in a handler`)
      return shared.services.get(name)?.service as T | undefined
    },
  }
}

/** @param declare throws when setup is over. */
function authOf(id: string, shared: SharedDependencies, declare: (what: string) => void): PluginAuth {
  return {
    get open() {
      return shared.auth.open
    },
    get authenticators() {
      return shared.auth.owners
    },
    source(source) {
      declare('a source of credentials')
      shared.auth.addSource(source)
    },
    limiter(limiter) {
      declare('a limiter')
      shared.auth.addLimiter(limiter)
    },
    authenticator(authenticate, rank = AUTH_RANK.other) {
      declare('an authenticator')
      shared.auth.addAuthenticator(authenticate, rank, id)
    },
    authorizer(authorize) {
      declare('an authorizer')
      shared.auth.addAuthorizer(authorize)
    },
    observer(observe) {
      declare('an observer')
      shared.auth.addObserver(observe)
    },
    scoped(resource) {
      declare('a scoped resource')
      shared.auth.addScoped(resource)
    },
    admit: (credentials, action, resource) => shared.auth.admit(credentials, action, resource),
    admitCaller: (credentials, action, resource) => shared.auth.admitCaller(credentials, action, resource),
    authorize: (context, action, resource) => shared.auth.authorize(context, action, resource),
    standing: (context, action, resource) => shared.auth.standing(context, action, resource, shared.clock),
  }
}

function tracingOf(shared: SharedDependencies, declare: (what: string) => void): Svc['tracing'] {
  return {
    get on() {
      return shared.tracing.on
    },
    tracer(tracer) {
      declare('a tracer')
      shared.tracing.tracer(tracer)
    },
    begin: (name, options, from) => shared.tracing.begin(name, options, from),
    failed: (name, options, from, error) => shared.tracing.failed(name, options, from, error),
    operation: (name, work, options) => shared.tracing.operation(name, work, options),
  }
}

function requireStorage({ storage }: SharedDependencies): Storage {
  const open = storage()
  if (open === undefined) throw new Error('cannot use the storage: it is not open')
  return open
}

function routesOf(id: string, scope: FastifyInstance, { http, ingest, routeOwners }: SharedDependencies, hooks: Hooks): HttpRoutes {
  /** Failures of routes that write points are counted wherever they come from: the body, the handler, the storage. */
  const counting = <T extends { config?: RouteConfig; errorHandler?: unknown }>(options: T): T => {
    if (options.config?.ingest === undefined) return options
    const answer = (options.errorHandler ?? http.fail.bind(http)) as HttpServer['fail']
    const errorHandler: HttpServer['fail'] = (error, request, reply) => {
      if (request.svcContext !== null) ingest.failed(request.svcContext, error)
      return answer(error, request, reply)
    }
    return { ...options, errorHandler }
  }
  const add = (method: 'GET' | 'POST' | 'PUT' | 'DELETE') => (path: string, options: HttpOptions | HttpHandler, handler?: HttpHandler) => {
    const [given, handle] = typeof options === 'function' ? [{}, options] : [options, handler as HttpHandler]
    routes.route({ ...given, method, url: path, handler: handle } as Parameters<HttpRoutes['route']>[0])
  }
  const routes: HttpRoutes = {
    get: add('GET'),
    post: add('POST'),
    put: add('PUT'),
    delete: add('DELETE'),
    route(options) {
      const keys = [options.method].flat().map((method) => `${method} ${options.url}`)
      try {
        scope.route({ ...counting(options), schema: tagged(id, options.schema), handler: wrap(options.handler) as never })
      } catch (error) {
        if ((error as { code?: string }).code !== 'FST_ERR_DUPLICATED_ROUTE') throw error
        const key = keys.find((each) => routeOwners.has(each))
        const owner = key === undefined ? 'the server itself has it' : `plugin "${routeOwners.get(key)}" has it already`
        throw new Error(`cannot add the route "${key ?? keys.join(', ')}": ${owner}; give it another path, or select one of the two`)
      }
      for (const key of keys) routeOwners.set(key, id)
    },
    pages(path, directory, { action, ...options } = {}) {
      const folder = new PageFolder(directory, options)
      addPages(routes, path, folder, action)
      hooks.start.push(() => folder.open())
    },
    parser(contentType, parse) {
      http.parser(scope, contentType, (body, request) => parse(body, request as HttpRequest))
    },
    bodyHold: (owner, connection) => http.bodyHold(owner, connection),
    hintBelow: (prefix, hint) => http.hintBelow(prefix, hint),
    errorsBelow: (prefix, errorHandler) => http.errorsBelow(prefix, (error, request, reply) => errorHandler(error, request as HttpRequest, reply)),
  }
  return routes
}

/** The description groups a plugin's routes under its id. */
function tagged(id: string, schema: object | undefined): object {
  return { tags: [id], ...schema }
}

/** A promise whatever the handler is: fastify must never wait for a `reply.send` that a handler's return value stands for. A body is held until it ends. */
function wrap(handler: HttpHandler): HttpHandler {
  return async (request, reply) => {
    const hold = request.bodyHold
    if (hold === null) return handler(request, reply)
    hold.begin()
    try {
      return await handler(request, reply)
    } finally {
      hold.end()
    }
  }
}
