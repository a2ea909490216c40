import { AUDIT_LOG, AUTH_RANK, type AuditLog, definePlugin, NAMESPACES, type NamespaceLifecycle } from 'svcdb'
import { checkKeys } from './check.ts'
import { configSchema } from './config.ts'
import { FailureLimiter } from './failure-limiter.ts'
import { Gate } from './gate.ts'
import { generateKey } from './generate-key.ts'
import { KeyAdmin } from './key-admin.ts'
import { KeySources } from './key-sources.ts'
import { keyMetrics } from './metrics.ts'
import { matches } from './phc.ts'
import { createBody, createdKey, keyPath, listing, listQuery, nothing } from './schemas.ts'
import { placesOf, requireWayIn } from './start.ts'
import { VerificationQueue } from './verification-queue.ts'
import { VerifiedCache } from './verified-cache.ts'

const PATH = '/api/v1/admin/auth/keys'
const config = { action: 'admin' as const }

export default definePlugin({
  id: 'api_keys',
  summary: 'Lets in callers with API keys: of the config, made over HTTP, or kept as objects',
  stability: 'stable',
  section: '',
  config: configSchema,
  capabilities: ['state'],
  commands: [generateKey],
  check: checkKeys,
  setup(svc, section) {
    const { api_key: options, api_key_prefix: prefix } = section.auth
    const { clock, log, server } = svc
    const multiTenancy = server.multi_tenancy
    const monotonic = () => clock.monotonic()
    const cache = new VerifiedCache({ maxEntries: options.cache_max_entries, ttlMs: options.cache_ttl_secs * 1000 }, monotonic)
    const limiter = new FailureLimiter({ maxFailures: options.max_failures, windowMs: options.failure_window_secs * 1000 }, monotonic)
    const queue = new VerificationQueue({ maxRunning: options.max_verifications, maxWaiting: options.max_queued_verifications })
    const sources = new KeySources({ config: section, env: process.env, multiTenancy, cache, clock, log })
    const { keyring } = sources
    const metrics = keyMetrics(svc.metrics, {
      queueDepth: () => queue.depth,
      cached: () => cache.size,
      count: (source) => keyring.values().filter((key) => key.source === source).length,
    })
    const [refresh, confirm] = [() => sources.refresh(), sources.confirm.bind(sources)]
    const gate = new Gate({ prefix, keyring, cache, limiter, queue, metrics, clock, matches, refresh, confirm })
    if (options.enabled) svc.auth.authenticator((credentials) => gate.authenticate(credentials), AUTH_RANK.key)

    const hasOtherWayIn = () => svc.auth.authenticators.some((id) => id !== svc.id)
    svc.start(async () => {
      const places = placesOf(section, svc)
      await sources.start(places)
      // What is open under a key that others take away ends though nobody asks.
      if (places.store !== undefined || places.inbox !== undefined)
        svc.schedule('refresh', options.cache_ttl_secs * 1000, () => sources.takeUpFiles(), { local: true, jitter: 0 })
      await svc.find<Partial<NamespaceLifecycle>>(NAMESPACES)?.onDelete?.((namespace) => admin.forgetNamespace(namespace), svc.id)
      requireWayIn(section, keyring, hasOtherWayIn())
    })
    svc.stop(() => sources.stop())

    for (const path of [PATH, `${PATH}/:name`]) svc.auth.scoped(path)
    const audit = () => svc.find<AuditLog>(AUDIT_LOG)
    const maxKeysPerNamespace = options.max_keys_per_namespace
    const admin = new KeyAdmin({ sources, prefix, multiTenancy, maxKeysPerNamespace, clock, log, audit, hasOtherWayIn })
    const create = { summary: 'Makes an API key; the answer has it, this once', body: createBody, response: { 201: createdKey } }
    svc.http.post(PATH, { config, schema: create }, async (request, reply) => {
      const made = await admin.create(request.body, svc.context(request))
      return reply.code(201).header('cache-control', 'no-store').send(made)
    })
    const list = { summary: 'Lists API keys, by name', querystring: listQuery, response: { 200: listing } }
    svc.http.get(PATH, { config, schema: list }, (request) => admin.list(request.query, svc.context(request)))
    const revoke = { summary: 'Revokes an API key, at once', params: keyPath, response: { 204: nothing } }
    svc.http.delete(`${PATH}/:name`, { config, schema: revoke }, async (request, reply) => {
      await admin.revoke(request.params.name, svc.context(request))
      return reply.code(204).send()
    })
  },
})
