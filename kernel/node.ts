/** Assembles a node from its config and runs it: setup, start, listen, ready; and all the way back. */
import type { FastifyInstance } from 'fastify'
import { Auth } from './auth/auth.ts'
import { Cluster } from './cluster/cluster.ts'
import { dataDirOf, type NodeConfig } from './config/config.ts'
import { runGraceMs, type ServerConfig } from './config/schema.ts'
import { addHealthRoutes, addLogLevelRoute, addMetricsRoute } from './http/health.ts'
import { addOpenapiRoutes, describeRoutes } from './http/openapi.ts'
import { HttpServer } from './http/server.ts'
import { IngestGate } from './ingest/ingest.ts'
import { SvcError } from './lib/errors/index.ts'
import { drainMs, drainTime, openProblem } from './lib/network/index.ts'
import { Lifecycle, type Step, type TimeLimits } from './lifecycle.ts'
import { builtinPlugins, builtinRoutes } from './loader.ts'
import { Logs } from './log.ts'
import { MetricsRegistry } from './metrics.ts'
import { type Clock, type Plugin, systemClock } from './plugin.ts'
import { createSvc, type Hooks, type SharedDependencies } from './plugin-context.ts'
import { addSchedulesRoute } from './schedule/route.ts'
import { Scheduler, type Schedules } from './schedule/scheduler.ts'
import { SqlFunctions } from './storage/sql-functions.ts'
import { joinState, requireOwnState, type StateEngine } from './storage/state-engine.ts'
import { unusedState } from './storage/state-unused.ts'
import type { Storage, StorageEngine } from './storage/storage.ts'
import { NodeTracing } from './tracing.ts'
import { VERSION } from './version.ts'

/** The first time there is. */
const EVERYTHING = -(2n ** 63n)

interface NodeOptions {
  logs?: Logs
  clock?: Clock
}

/** One node. `setup` and `start` in turn, `stop` at any time. */
export class SvcNode {
  readonly config: NodeConfig
  readonly logs: Logs
  readonly metrics = new MetricsRegistry()
  /** Ids of plugins by "METHOD path". */
  readonly routeOwners = new Map<string, string>()
  readonly auth: Auth
  private readonly clock: Clock
  private readonly lifecycle: Lifecycle
  private readonly startedAt: number
  readonly sqlFunctions = new SqlFunctions()
  private readonly tracing = new NodeTracing()
  private readonly readinessChecks: (() => string | undefined)[] = []
  private readonly hooks = new Map<Plugin, Hooks>()
  private readonly stopping = new AbortController()
  private readonly cluster: Cluster
  private readonly scheduler: Scheduler
  /** The kernel's own. */
  private readonly schedules: Schedules
  private http: HttpServer | undefined
  private engine: StorageEngine | undefined
  private stateEngine: StateEngine | undefined
  private releaseRetention: () => void = () => {}
  private open: StorageEngine | undefined
  private state: 'starting' | 'running' | 'stopping' = 'starting'
  /** Where it listens, once started. */
  url = ''

  constructor(config: NodeConfig, options: NodeOptions = {}) {
    this.config = config
    this.logs = options.logs ?? new Logs({ level: config.server.log_level, format: config.server.log_format })
    this.clock = options.clock ?? systemClock
    this.startedAt = this.clock.monotonic()
    const { multi_tenancy, metrics_require_auth, metrics_path } = config.server
    this.auth = new Auth({
      multiTenancy: multi_tenancy,
      metricsPath: metrics_path,
      exempt: [...config.auth.exempt_paths, ...(metrics_require_auth ? [] : [metrics_path])],
    })
    const metricsOfKernel = this.metrics.child('kernel')
    const graceMs = runGraceMs(config.server)
    this.cluster = new Cluster({
      clock: this.clock,
      log: this.logs.child('kernel'),
      metrics: metricsOfKernel,
      graceMs,
      state: () =>
        this.open?.capabilities.has('state') ? { store: this.open.state('kernel'), shared: this.open.capabilities.has('shared_state') } : undefined,
      turnAway: (reason) => this.auth.turnAway(reason),
    })
    const { clock, cluster, tracing } = this
    this.scheduler = new Scheduler({ clock, metrics: metricsOfKernel, stopping: this.stopping.signal, graceMs, cluster, tracing })
    this.schedules = this.scheduler.of('kernel', this.logs.child('kernel'))
    this.lifecycle = new Lifecycle(limitsOf(config.server), this.logs.child('kernel'))
  }

  /** The fastify instance, once set up. */
  get app(): FastifyInstance {
    return (this.http as HttpServer).app
  }

  get storage(): Storage | undefined {
    return this.open
  }

  /** Declares everything; no I/O but reading the TLS files. @throws SvcError naming the plugin. */
  async setup(): Promise<void> {
    await this.lifecycle.up([
      ...this.checkStorage(),
      { phase: 'setup', name: 'the HTTP server', run: () => this.createHttp(), stop: () => this.http?.close(0) },
      ...this.config.plugins.map((plugin): Step => ({ phase: 'setup', name: `plugin "${plugin.id}"`, run: () => this.setupPlugin(plugin) })),
      {
        phase: 'setup',
        name: 'the HTTP routes',
        run: async () => {
          this.auth.verify()
          await this.config.storage?.module.checkSqlFunctions?.(this.sqlFunctions.all())
          const exposed = this.auth.open && !this.config.server.allow_open ? openProblem(this.config.listeners) : undefined
          if (exposed !== undefined) throw new SvcError('CONFIG_ERROR', exposed)
          await this.app.ready()
        },
      },
    ])
  }

  /** Opens the storage, starts the plugins, then listens. @throws SvcError naming what failed; everything is closed again then. */
  async start(): Promise<void> {
    const steps: Step[] = []
    const { storage, state, plugins, server } = this.config
    const left = drainTime({ clock: this.clock, server, stopping: this.stopping.signal })
    if (state !== undefined)
      steps.push({ phase: 'start', name: `state store "${state.engine}"`, run: () => this.openState(), stop: () => this.stateEngine?.close() })
    if (storage !== undefined) {
      const close = async () => {
        this.open = undefined
        await this.engine?.close()
      }
      steps.push({ phase: 'start', name: `storage engine "${storage.engine}"`, run: () => this.openStorage(), stop: close })
    }
    steps.push({ phase: 'start', name: 'the cluster', run: () => this.cluster.start(), stop: () => this.cluster.stop() })
    for (const plugin of plugins) steps.push(this.startStep(plugin))
    steps.push({
      phase: 'start',
      name: 'the HTTP listener',
      run: async () => {
        this.url = await (this.http as HttpServer).listen()
      },
      drain: () => this.http?.close(left(drainMs(server))),
    })
    for (const plugin of plugins) steps.push({ phase: 'ready', name: `plugin "${plugin.id}"`, run: () => this.makeReady(plugin) })
    steps.push({ phase: 'ready', name: 'the schedules', run: () => this.schedules.start(), drain: () => this.schedules.stop() })
    await this.lifecycle.up(steps)
    this.releaseRetention()
    if (this.state !== 'starting') return // it was stopped meanwhile
    this.state = 'running'
    const log = this.logs.child('kernel')
    log.info({ url: this.url, version: VERSION, storage: storage?.engine ?? 'none', plugins: plugins.map((p) => p.id).join(',') }, 'ready')
    if (this.auth.open) log.warn('no plugin authenticates: anyone who reaches the server may read, write and administer it')
    else if (this.config.tls === undefined) log.warn('credentials travel in plain text: add a [tls] section, or let only a proxy with TLS reach the server')
    const ends = this.http?.term?.news(this.clock.now())
    if (ends !== undefined) log.warn(ends)
    for (const problem of this.http?.authorities?.news(this.clock.now()) ?? []) log.warn(problem)
  }

  /** What clients will hold against the certificate of [tls], and why its authorities let none of theirs in. */
  get certificateProblems(): string[] {
    const now = this.clock.now()
    const own = this.http?.term?.problem(now)
    return [...(own === undefined ? [] : [own]), ...(this.http?.authorities?.problems(now) ?? [])]
  }

  /** What a stop waits for now, such as `drain of plugin "sql"`. */
  get stopsAt(): string | undefined {
    return this.lifecycle.undoing
  }

  /** Safe twice and at any time. @returns what failed on the way. */
  async stop(): Promise<Error[]> {
    this.state = 'stopping'
    this.stopping.abort()
    const failures = await this.lifecycle.down()
    this.metrics.close()
    return failures
  }

  /** Why the node is not ready, or undefined. */
  notReady(): string | undefined {
    if (this.state !== 'running') return this.state === 'starting' ? 'the server is starting' : 'the server is stopping'
    for (const check of this.readinessChecks) {
      const reason = check()
      if (reason !== undefined) return reason
    }
    const alone = this.cluster.notReady()
    if (alone !== undefined) return alone
    const status = this.open?.status()
    return status === undefined || status.accepting ? undefined : (status.reason ?? 'the storage does not accept writes')
  }

  private checkStorage(): Step[] {
    const { storage, state } = this.config
    const steps: Step[] = []
    if (storage !== undefined)
      steps.push({ phase: 'setup', name: `storage engine "${storage.engine}"`, run: async () => storage.module.check?.(storage.config) })
    if (state !== undefined) steps.push({ phase: 'setup', name: `state store "${state.engine}"`, run: async () => state.module.check?.(state.config) })
    return steps
  }

  private async createHttp(): Promise<void> {
    const { server, tls } = this.config
    const { auth, tracing } = this
    const [log, metrics, { clock }] = [this.logs.child('http'), this.metrics.child('kernel'), this]
    const idlePlugins = () => {
      const ids = builtinPlugins().filter((id) => !this.config.plugins.some((plugin) => plugin.id === id))
      const routes = builtinRoutes()
      return new Map(ids.map((id) => [id, routes.get(id) ?? []]))
    }
    this.http = await HttpServer.create({ server, tls, auth, tracing, log, metrics, idlePlugins, clock })
    if (tls !== undefined && this.http.reloadTls !== undefined && tls.reload_interval_secs > 0)
      this.schedules.add('tls_reload', tls.reload_interval_secs * 1000, this.http.reloadTls, { local: true })
    const app = this.http.app
    const description = describeRoutes(app, { version: VERSION, publicUrl: server.public_url, auth: this.auth })
    const started = new Date(clock.now()).toISOString()
    const uptimeSecs = () => Math.floor((this.clock.monotonic() - this.startedAt) / 1000)
    app.register(async (scope) => {
      addHealthRoutes(scope, { version: VERSION, notReady: () => this.notReady(), uptimeSecs, started })
      addMetricsRoute(scope, server.metrics_path, this.metrics, server.multi_tenancy ? 'admin' : 'read')
      addLogLevelRoute(scope, this.logs)
      addSchedulesRoute(scope, () => this.scheduler.list())
      addOpenapiRoutes(scope, description)
    })
    await app.after()
    const storage = (): Storage => {
      if (this.open === undefined) throw new SvcError('DATABASE_CLOSED', 'the storage is not open; retry when /ready answers 200')
      return this.open
    }
    const limits = {
      writeTimeoutMs: server.write_timeout_secs * 1000,
      dedupWindowMs: server.dedup_window_secs * 1000,
      maxDedupEntries: server.max_dedup_entries,
      multiTenancy: server.multi_tenancy,
      maxPoints: server.max_write_batch_size,
      maxBytes: server.max_body_size,
    }
    this.shared = {
      server: Object.freeze(server),
      tls: tls === undefined ? undefined : Object.freeze(tls),
      logs: this.logs,
      metrics: this.metrics,
      auth: this.auth,
      http: this.http,
      routeOwners: this.routeOwners,
      ingest: new IngestGate(storage, limits, this.metrics.child('kernel'), this.clock),
      clock: this.clock,
      tracing,
      storage: () => this.open,
      dataDir: dataDirOf(this.config),
      readinessChecks: this.readinessChecks,
      stopping: this.stopping.signal,
      scheduler: this.scheduler,
      cluster: this.cluster,
      notReady: () => this.notReady(),
      sqlFunctions: this.sqlFunctions,
      services: new Map(),
      provided: new Set(this.config.plugins.flatMap(({ provides = [] }) => provides)),
    }
  }

  private shared: SharedDependencies | undefined

  private async setupPlugin(plugin: Plugin): Promise<void> {
    const shared = this.shared as SharedDependencies
    // `register` gives the plugin an instance of its own, so that its parsers and hooks stay with its routes. Its setup runs outside of
    // it: fastify could not be closed while a setup that hangs is a part of its boot.
    let own: FastifyInstance | undefined
    this.app.register(async (scope) => {
      own = scope
    })
    await this.app.after()
    await plugin.setup(createSvc(plugin, own as unknown as FastifyInstance, shared, this.hooksOf(plugin)), this.config.sections.get(plugin.id) as never)
    for (const name of plugin.provides ?? []) {
      if (!shared.services.has(name)) throw new Error(`it declares that it provides "${name}" but did not call provide`)
    }
  }

  private startStep(plugin: Plugin): Step {
    const hooks = this.hooksOf(plugin)
    return {
      phase: 'start',
      name: `plugin "${plugin.id}"`,
      run: () => inOrder(hooks.start),
      drain: () => inOrder([...hooks.end, ...hooks.drain.toReversed()]),
      stop: () => inOrder([...hooks.stop].reverse()),
    }
  }

  private makeReady(plugin: Plugin): Promise<void> {
    const { ready, begin } = this.hooksOf(plugin)
    return inOrder([...ready, ...begin])
  }

  private hooksOf(plugin: Plugin): Hooks {
    let hooks = this.hooks.get(plugin)
    if (hooks === undefined) this.hooks.set(plugin, (hooks = { start: [], ready: [], begin: [], end: [], drain: [], stop: [] }))
    return hooks
  }

  private async openState(): Promise<void> {
    const { module, config, engine } = this.config.state as NonNullable<NodeConfig['state']>
    const context = { config, log: this.logs.child('state'), metrics: this.metrics.child(`storage/${engine}`), now: () => this.clock.now() }
    this.stateEngine = module.createState(context)
    await this.stateEngine.open()
  }

  private async openStorage(): Promise<void> {
    const { module, config, engine } = this.config.storage as NonNullable<NodeConfig['storage']>
    const context = {
      config,
      log: this.logs.child('storage'),
      metrics: this.metrics.child(`storage/${engine}`),
      sqlFunctions: this.sqlFunctions.all(),
      now: () => this.clock.now(),
      tracing: this.tracing,
    }
    this.engine = module.createEngine(context)
    // Nobody has said yet what raw data is still needed: plugins do so when they start.
    this.releaseRetention = this.engine.holdRetention(() => EVERYTHING)
    await this.engine.open()
    if (this.stateEngine === undefined) await requireOwnState(this.engine)
    else await joinState(this.engine, this.stateEngine, this.config.state?.engine as string)
    await this.warnOfUnusedState(this.engine)
    await this.warnOfOutOfReach(this.engine)
    this.open = this.engine
  }

  private async warnOfUnusedState(engine: StorageEngine): Promise<void> {
    const owners = (await (this.stateEngine ?? { owners: () => engine.stateOwners?.() }).owners()) ?? []
    const unused = await unusedState(owners, new Set(this.config.plugins.map(({ id }) => id)), (owner) => engine.state(owner))
    if (unused.length > 0)
      this.logs
        .child('kernel')
        .warn(
          { plugins: unused.join(',') },
          'plugins that are not selected, or lack their section, have state: it is kept, and nothing is done by it until they are selected again',
        )
  }

  /** Never rejects: an engine that cannot say it now is no reason not to start. */
  private async warnOfOutOfReach(engine: StorageEngine): Promise<void> {
    const log = this.logs.child('storage')
    try {
      const unreachable = outOfReach(await engine.namespaces(), this.config.server.multi_tenancy)
      if (unreachable !== undefined) log.warn({}, unreachable)
    } catch (error) {
      log.debug({ err: error }, 'cannot say whether there are points that nobody can read')
    }
  }
}

/** What server.multi_tenancy, switched since, keeps everybody from reading, if anything. */
function outOfReach(namespaces: readonly string[], multiTenancy: boolean): string | undefined {
  if (multiTenancy)
    return namespaces.includes('')
      ? 'points that were written without server.multi_tenancy belong to no namespace, and cannot be read; switch it off to read them, or write them again'
      : undefined
  const named = namespaces.filter((name) => name !== '').sort()
  if (named.length === 0) return undefined
  const shown = named.slice(0, 3).map((name) => JSON.stringify(name))
  if (named.length > shown.length) shown.push('...')
  return `points of ${named.length} namespaces (${shown.join(', ')}) were written with server.multi_tenancy, and cannot be read; switch it on to read them`
}

async function inOrder(hooks: readonly (() => void | Promise<void>)[]): Promise<void> {
  for (const hook of hooks) await hook()
}

function limitsOf(server: ServerConfig): TimeLimits {
  const start = { ms: server.start_timeout_secs * 1000, setting: 'server.start_timeout_secs' }
  const down = { ms: server.shutdown_timeout_secs * 1000, setting: 'server.shutdown_timeout_secs' }
  // The HTTP server cuts requests at the limit itself, and must not be called late for it.
  const drain = { ms: down.ms + 1000, setting: down.setting }
  return { setup: { ms: server.setup_timeout_secs * 1000, setting: 'server.setup_timeout_secs' }, start, ready: start, drain, stop: down }
}
