/** For tests: a node with the plugin, calls with a token, and who they were taken for. */
import { randomBytes } from 'node:crypto'
import { fileURLToPath } from 'node:url'
import { crc32 } from 'node:zlib'
import { type CallContext, type Credentials, definePlugin, type Plugin, type Storage } from 'svcdb'
import { type BootOptions, boot, MetricsRegistry, systemClock, type TestNode } from 'svcdb/testkit'
import { FailureLimiter } from './failure-limiter.ts'
import { Gate, type GateDependencies } from './gate.ts'
import plugin from './index.ts'
import { keyMetrics } from './metrics.ts'
import { VerificationQueue } from './verification-queue.ts'
import { VerifiedCache } from './verified-cache.ts'

export const PATH = '/api/v1/admin/auth/keys'

/** The text of a key, as they are made. */
export const keyText = (prefix = 'svc_'): string => prefix + randomBytes(32).toString('base64url')

/** GET /who answers the context of the call. */
export const who = definePlugin({
  id: 'who',
  summary: 'Says who calls',
  stability: 'experimental',
  capabilities: ['points'],
  setup(svc) {
    svc.http.get('/who', async (request) => svc.context(request))
  },
})

export interface KeyNode extends TestNode {
  who(
    token: string | undefined,
    headers?: Record<string, string>,
  ): Promise<{ status: number; headers: Record<string, unknown> } & CallContext & { error: string; code: string }>
  call(
    method: 'GET' | 'POST' | 'DELETE',
    token: string,
    path?: string,
    payload?: object,
  ): Promise<{ status: number; body: Any; headers: Record<string, unknown> }>
  metric(token: string, name: string): Promise<number>
}

// biome-ignore lint/suspicious/noExplicitAny: answers of several routes
type Any = any

export interface KeyOptions extends BootOptions {
  keys?: readonly Record<string, unknown>[]
  /** Of [auth.api_key]. */
  tuning?: Record<string, unknown>
  auth?: Record<string, unknown>
  others?: readonly (Plugin | string)[]
  /** Plugins that start before. */
  before?: readonly Plugin[]
  /** A data directory that stays when the node stops. */
  dir?: string
}

const ROOT = fileURLToPath(new URL('../..', import.meta.url))

export async function start({ keys = [], tuning = {}, auth = {}, others = [], before = [], config = {}, dir, ...rest }: KeyOptions = {}): Promise<KeyNode> {
  const kept = dir === undefined ? {} : { storage: './storage/embedded/index.ts', folder: ROOT }
  const database = dir === undefined ? {} : { database: { data_dir: dir } }
  const auths = { api_keys: keys, api_key: tuning, ...auth }
  const node = await boot({ ...rest, ...kept, plugins: [...before, plugin, who, ...others], config: { ...config, ...database, auth: auths } })
  const bearer = (token: string | undefined): Record<string, string> => (token === undefined ? {} : { authorization: `Bearer ${token}` })
  return Object.assign(node, {
    async who(token: string | undefined, headers: Record<string, string> = {}) {
      const answer = await node.inject({ url: '/who', headers: { ...bearer(token), ...headers } })
      return { ...answer.json(), status: answer.statusCode, headers: answer.headers }
    },
    async call(method: 'GET' | 'POST' | 'DELETE', token: string, path = '', payload?: object) {
      const answer = await node.inject({ method, url: PATH + path, headers: bearer(token), ...(payload === undefined ? {} : { payload }) })
      return { status: answer.statusCode, body: answer.body === '' ? undefined : answer.json(), headers: answer.headers }
    },
    async metric(token: string, name: string) {
      const text = (await node.inject({ url: '/metrics', headers: bearer(token) })).body
      const line = text.split('\n').find((one) => one.startsWith(`svc_${name} `))
      return line === undefined ? Number.NaN : Number(line.slice(line.lastIndexOf(' ') + 1))
    },
  })
}

type Transaction = ReturnType<Storage['state']>['transaction']

/** A plugin through which transactions of the state store go. It is to start before those whose they are. */
export const aroundTransactions = (id: string, around: (transaction: Transaction) => Transaction): Plugin =>
  definePlugin({
    id,
    summary: 'Stands between the state store and those who use it',
    stability: 'experimental',
    capabilities: ['state'],
    setup: (svc) =>
      svc.start(() => {
        const { storage } = svc
        const state = storage.state.bind(storage)
        storage.state = (owner) => {
          const store = state(owner)
          store.transaction = around(store.transaction.bind(store))
          return store
        }
      }),
  })

/** A plugin that has the state store fail with an error while there is one. It is to start before what it is to fail for. */
export function faultyState(): { plugin: Plugin; failure: Error | undefined } {
  const faulty: { plugin: Plugin; failure: Error | undefined } = {
    failure: undefined,
    plugin: aroundTransactions('faulty_state', (transaction) => (body) => (faulty.failure === undefined ? transaction(body) : Promise.reject(faulty.failure))),
  }
  return faulty
}

/** The file in which older versions kept keys. */
export function legacyFile(keys: readonly object[], revoked: readonly object[] = []): string {
  const body = JSON.stringify({ version: 1, keys, revoked }, null, 2).slice(0, -2)
  return `${body},\n  "checksum": "${crc32(body).toString(16).padStart(8, '0')}"\n}\n`
}

/** A gate without a node: all dependencies but the keyring are those of a node with nothing else to do. Close the registry at the end. */
export function bareGate(
  dependencies: Pick<GateDependencies, 'keyring' | 'matches'> & Partial<GateDependencies>,
  monotonic: () => number,
): { gate: Gate; registry: MetricsRegistry } {
  const registry = new MetricsRegistry()
  const cache = new VerifiedCache({ maxEntries: 100, ttlMs: 1000 }, monotonic)
  const gate = new Gate({
    prefix: 'svc_',
    cache,
    limiter: new FailureLimiter({ maxFailures: 0, windowMs: 1000 }, monotonic),
    queue: new VerificationQueue({ maxRunning: 1, maxWaiting: 100 }),
    metrics: keyMetrics(registry.child('test'), { queueDepth: () => 0, cached: () => 0, count: () => 0 }),
    clock: { ...systemClock, now: monotonic, nowNanos: () => BigInt(monotonic()) * 1_000_000n, monotonic },
    refresh: async () => {},
    confirm: async (key) => key,
    ...dependencies,
  })
  return { gate, registry }
}

/** Of a call with one header. */
export function credentialsOf(authorization: string, address?: string): Credentials {
  return { protocol: 'http', path: '/', header: () => authorization, query: () => undefined, address, requestId: '' }
}
