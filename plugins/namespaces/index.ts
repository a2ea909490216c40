import { join } from 'node:path'
import { definePlugin, NAMESPACES, namespaceProblem, REQUEST_LIMITS, type RequestLimits, type Svc } from 'svcdb'
import { ownHistory } from 'svcdb/lib/changes'
import { configSchema } from './config.ts'
import { Deletion } from './deletion.ts'
import { Directory } from './directory.ts'
import { NamespacesHandler } from './handler.ts'
import { namespacesMetrics } from './metrics.ts'
import { Owed } from './owed.ts'
import { limiterProblem } from './quota.ts'
import { QuotaGuard } from './quota-guard.ts'
import { Registry } from './registry.ts'
import { createBody, deleted, listing, listQuery, namePath, quotaBody, record, usageAnswer } from './schemas.ts'

/** Where older versions kept the definitions. */
const LEGACY_FILE = 'namespaces.json'
const PATH = '/api/v1/namespaces'
const tags = ['admin']
const config = { action: 'admin' as const }

export default definePlugin({
  id: 'namespaces',
  summary: 'Defines namespaces, bounds what each may hold and how fast it is written to, and removes them with their data',
  stability: 'stable',
  config: configSchema,
  capabilities: ['points', 'delete', 'state'],
  provides: [NAMESPACES],
  setup(svc, settings) {
    const { clock, log } = svc
    const { multi_tenancy: multiTenancy } = svc.server
    const requireLimiter = (limits: RequestLimits | undefined) => {
      const { default_max_request_rps: max_request_rps, default_max_request_burst: max_request_burst } = settings
      const problem = limiterProblem({ max_request_rps, max_request_burst }, limits)
      if (problem !== undefined) throw new Error(`cannot use namespaces.default_max_request_rps: ${problem}`)
    }
    // What there is of a limiter is known once it has started; that there is none, at once.
    if (!svc.provided.has(REQUEST_LIMITS)) requireLimiter(undefined)
    const registry = new Registry()
    const owed = new Owed(() => svc.storage.state(svc.id))
    const { refusals } = namespacesMetrics(svc.metrics, () => directory.count)
    // Without others that share the state nothing is owed once the node is up.
    const settle = async () => (svc.storage.capabilities.has('shared_state') ? owed.settleAll() : undefined)
    const full = () => refusals.inc({ quota: 'namespaces' })
    const directory = new Directory({ registry, owed, config: settings, multiTenancy, clock, settle, full })
    const failed = (err: Error, namespace: string) => log.warn({ err, namespace }, 'cannot keep a namespace that was written to; it is tried again')
    const guard = new QuotaGuard({ directory, config: settings, multiTenancy, clock, storage: () => svc.storage, refusals, failed })
    const deletion = new Deletion({ directory, multiTenancy, storage: () => svc.storage, log, gone: (name) => guard.forget(name) })
    const handler = new NamespacesHandler(svc, directory, guard, deletion)

    svc.provide(NAMESPACES, directory)
    svc.ingest.admit(guard.admit, guard.admitAny)
    directory.onEnd((name) => svc.ingest.forget(name))
    // A limiter makes every call wait a turn: none where it would refuse nothing.
    if (!settings.auto_create) svc.auth.limiter({ admitted: directory.admitted })
    svc.start(async () => {
      const limits = svc.find<RequestLimits>(REQUEST_LIMITS)
      requireLimiter(limits)
      await registry.open(svc.storage.state(svc.id), svc.dataDir === undefined ? undefined : join(svc.dataDir, LEGACY_FILE), {
        settle,
        async gone(name) {
          guard.forget(name)
          if (!multiTenancy) return
          await directory.end(name)
          svc.storage.endJobs?.(name)
        },
        failed: (err) => log.warn({ err }, 'cannot read what other nodes have changed of namespaces; it is tried again'),
      })
      const history = multiTenancy ? await ownHistory(svc.storage) : undefined
      if (history !== undefined) await owed.begin(`points-${history}`, (name) => deletion.removePoints(name))
      await owed.open((err) => log.warn({ err }, 'plugins cannot forget what they keep for namespaces that are gone; it is tried again'))
      svc.storage.guard(guard)
      const unlimited = [...registry.values()].filter(({ quota }) => limiterProblem(quota, limits) !== undefined)
      if (unlimited.length > 0)
        log.warn(
          { namespaces: unlimited.slice(0, 10).map(({ name }) => name) },
          'max_request_rps of these namespaces has no effect: rate_limit is not selected, or off',
        )
      if (!multiTenancy) return
      // Written to before the plugin was selected, or in the moment of a crash.
      const unknown = (await svc.storage.namespaces()).filter((name) => namespaceProblem(name) === undefined && registry.get(name) === undefined)
      await Promise.all(unknown.map((name) => directory.adopt(name)))
    })
    // Behind the start of all others: they are asked to forget what they keep.
    svc.ready(() => void deletion.resume())
    svc.stop(async () => {
      const stopped = deletion.stop()
      await registry.close()
      await owed.close()
      await stopped
      await registry.settled()
    })
    declareRoutes(svc, handler)
  },
})

function declareRoutes({ auth, http }: Svc, handler: NamespacesHandler): void {
  const route = (summary: string, answer: object, more: object = {}) => ({ config, schema: { tags, summary, ...more, response: answer } })
  const params = namePath
  auth.scoped(`${PATH}/:name/usage`)
  http.post(PATH, route('Creates a namespace', { 201: record }, { body: createBody }), async (request, reply) => {
    const created = await handler.create(request)
    reply.code(201)
    return created
  })
  http.get(PATH, route('Namespaces with quota and usage', { 200: listing }, { querystring: listQuery }), (request) => handler.list(request))
  http.get(`${PATH}/:name`, route('A namespace with quota and usage', { 200: record }, { params }), (request) => handler.get(request))
  http.delete(`${PATH}/:name`, route('Deletes a namespace, with its data where namespaces are kept apart', { 200: deleted }, { params }), (request) =>
    handler.delete(request),
  )
  http.get(`${PATH}/:name/usage`, route('What a namespace holds, and what it may', { 200: usageAnswer }, { params }), (request) => handler.usage(request))
  http.put(`${PATH}/:name/quota`, route('Changes parts of a quota', { 200: record }, { params, body: quotaBody }), (request) => handler.setQuota(request))
}
