/** A node in one call, for tests: on an ephemeral port, with its data in a temporary folder that goes with it. */
import { hash } from 'node:crypto'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { FastifyInstance, InjectOptions, LightMyRequestResponse } from 'fastify'
import { resolveConfig, type Tree } from '../config/config.ts'
import type { EngineModule } from '../loader.ts'
import { Logs } from '../log.ts'
import { SvcNode } from '../node.ts'
import type { Clock, Plugin } from '../plugin.ts'
import type { Storage, StorageEngine } from '../storage/storage.ts'

/** What the node of a test has; all by default as in an empty config file, with the engine `memory` and a free port. */
export interface BootOptions {
  /** Plugins as objects, or as in a config file: ids, paths, package names. */
  plugins?: readonly (Plugin | string | URL)[]
  /** Sections as in a config file. */
  config?: Tree
  /** An engine's name (default `memory`), or an engine of the test's own, which then has every capability it names. */
  storage?: string | StorageEngine
  /** Where `embedded` or `forward` has its data; it stays when the node stops. Default: a temporary folder, which goes with the node. */
  dataDir?: string
  /** What relative paths and package names are resolved from; default the current folder. */
  folder?: string
  clock?: Clock
  /** Gets each log line as JSON; by default nothing is logged. */
  log?: (line: string) => void
}

/** A node that runs in the process of the test. Stop it, or the test does not end. */
export interface TestNode {
  url: string
  app: FastifyInstance
  node: SvcNode
  /** The port of a listener that a plugin opened: what its log entry "listening" names. @throws Error when there is none. */
  port(plugin: string): number
  /** A request without a socket. */
  inject(request: InjectOptions | string): Promise<LightMyRequestResponse>
  /** @throws Error when no plugin needs a storage. */
  readonly storage: Storage
  dataDir: string
  stop(): Promise<Error[]>
}

/** Starts a node in this process; resolves when it is ready. @throws what a start would end with. */
export async function boot(options: BootOptions = {}): Promise<TestNode> {
  const { storage = 'memory' } = options
  const dataDir = options.dataDir ?? (await mkdtemp(join(tmpdir(), 'svc-test-')))
  const clear = async () => {
    if (options.dataDir === undefined) await rm(dataDir, { recursive: true, force: true })
  }
  const given = options.plugins ?? []
  const objects = given.filter((plugin): plugin is Plugin => typeof plugin === 'object' && !(plugin instanceof URL))
  const names = given.flatMap((plugin) => (plugin instanceof URL ? fileURLToPath(plugin) : typeof plugin === 'string' ? plugin : []))
  const ports = new Map<string, number>()
  const write = (line: string): void => {
    if (line.includes('"listening"')) {
      const { name, msg, port } = JSON.parse(line) as { name?: string; msg?: string; port?: number }
      if (msg === 'listening' && name !== undefined && port !== undefined) ports.set(name, port)
    }
    options.log?.(line)
  }
  const logs = new Logs({ level: options.log === undefined ? 'info' : 'debug', format: 'json', destination: { write } })
  let node: SvcNode | undefined
  try {
    const tree: Tree = { plugins: names, ...options.config, server: { http_addr: '127.0.0.1:0', ...(options.config?.server as Tree) } }
    const overrides = new Map<string, { text: string; from: string }>()
    if (typeof storage === 'string') overrides.set('database.engine', { text: storage, from: 'boot({ storage })' })
    if (storage === 'embedded' || storage === 'forward') overrides.set('database.data_dir', { text: dataDir, from: 'boot' })
    // It would take its time beside what is tested.
    const warmUp = (options.config?.database as Tree | undefined)?.warm_up_ms ?? 0
    if (storage === 'embedded') overrides.set('database.warm_up_ms', { text: String(warmUp), from: 'boot' })
    for (const [key, text] of stateOverrides(options)) overrides.set(`state.${key}`, { text, from: 'SVC_TEST_STATE_URL' })
    const source = { tree, file: 'the test', folder: options.folder ?? process.cwd(), overrides }
    const config = await resolveConfig(source, { plugins: objects, ...(typeof storage === 'string' ? {} : { engine: engineOf(storage) }) })
    node = new SvcNode(config, { logs, ...(options.clock === undefined ? {} : { clock: options.clock }) })
    await node.setup()
    await node.start()
  } catch (error) {
    await node?.stop()
    await clear()
    throw error
  }
  const running = node
  return {
    url: running.url,
    app: running.app,
    node: running,
    port(plugin) {
      const port = ports.get(plugin)
      if (port === undefined) throw new Error(`cannot say the port of plugin "${plugin}": it opened no listener`)
      return port
    },
    inject: (request) => running.app.inject(request),
    get storage(): Storage {
      if (running.storage === undefined) throw new Error('cannot use the storage of this node: no plugin of it declares capabilities')
      return running.storage
    },
    dataDir,
    async stop() {
      const failures = await running.stop()
      await clear()
      return failures
    },
  }
}

let schemas = 0
const schemaOfEngine = new WeakMap<StorageEngine, string>()

/**
 * With SVC_TEST_STATE_URL the state of every node is in that PostgreSQL database, in a schema of the node's own: of its data directory, or of its engine, where the
 * test has one.
 */
function stateOverrides({ config, storage }: BootOptions): [string, string][] {
  const url = process.env.SVC_TEST_STATE_URL
  if (url === undefined || config?.state !== undefined) return []
  const dataDir = (config?.database as Tree | undefined)?.data_dir
  const engine = typeof storage === 'object' ? storage : undefined
  const known = engine === undefined ? undefined : schemaOfEngine.get(engine)
  const own = typeof dataDir === 'string' ? `dir_${hash('sha256', dataDir).slice(0, 24)}` : `boot_${process.pid}_${++schemas}`
  const schema = known ?? own
  if (engine !== undefined) schemaOfEngine.set(engine, schema)
  return Object.entries({ engine: 'postgres', url, schema })
}

function engineOf(engine: StorageEngine): EngineModule {
  return { createEngine: () => engine, configSchema: { type: 'object', properties: {} }, capabilities: engine.capabilities }
}

export { run } from '../cli/cli.ts'
export { type NodeConfig, readConfig, resolveConfig } from '../config/config.ts'
export { builtinPlugins, type EngineModule, loadEngine, loadPlugin } from '../loader.ts'
export { Logs } from '../log.ts'
export { MetricsRegistry } from '../metrics.ts'
export { SvcNode } from '../node.ts'
export { systemClock } from '../plugin.ts'
export { type DecodedPoint, FakeResolver, pointsOf } from './decoded-points.ts'
export { ManualClock } from './manual-clock.ts'
export { mapState } from './map-state.ts'
export { Message, varintAt, type WireField, walkFields, zigzag } from './protobuf-message.ts'
export { SharedState } from './shared-state.ts'
export { temporaryFolder } from './temporary-folder.ts'
