import { AUDIT_LOG, type AuditLog, audited, definePlugin, NAMESPACES, type NamespaceLifecycle, WEBHOOKS, type WebhookRef } from 'svcdb'
import { jsonListing } from 'svcdb/lib/json'
import { authoritiesOf } from './authorities.ts'
import { configSchema, type WebhooksConfig } from './config.ts'
import { endpointPath, listing, listQuery, rearmed } from './schemas.ts'
import type { WebhookPage } from './service.ts'
import { assemble } from './wiring.ts'

const PATH = '/api/v1/admin/webhooks'
const tags = ['admin']
const config = { action: 'admin' as const }
/** A run ends when the work is lost: how soon it is tried to have it again. */
const RUN_MS = 5000

export default definePlugin({
  id: 'webhooks',
  summary: 'Delivers events of other plugins by HTTPS: CloudEvents, signed as Standard Webhooks says, out of an outbox that survives restarts',
  stability: 'beta',
  config: configSchema,
  capabilities: ['state'],
  provides: [WEBHOOKS],
  auditActions: ['webhook_rearm'],
  check: async ({ section }) => void (await authoritiesOf((section as WebhooksConfig).ca_file)),
  setup(svc, settings) {
    const { service, start, run, drain, stop } = assemble(svc, settings)
    svc.provide(WEBHOOKS, service)
    svc.start(async () => {
      await start()
      // Whoever provides the names alone has none to delete.
      await svc.find<Partial<NamespaceLifecycle>>(NAMESPACES)?.onDelete?.((name) => service.forget(name), svc.id)
    })
    svc.schedule('deliver', RUN_MS, run, { first: 0, jitter: 0, lasting: true })
    svc.drain(drain)
    svc.stop(stop)

    const list = { tags, summary: 'Webhook endpoints, and how they fare', querystring: listQuery, response: { 200: listing } }
    svc.http.get(PATH, { config, schema: list }, async (request, reply) => {
      const page = request.query as WebhookPage
      const { items, total } = await service.page(page)
      const behind = `],"total":${total},"offset":${page.offset},"limit":${page.limit}}`
      return reply.type('application/json; charset=utf-8').send(jsonListing('{"items":[', items, (item) => item, behind))
    })
    const rearm = { tags, summary: 'Sends to a webhook endpoint again that is parked', params: endpointPath, response: { 200: rearmed } }
    svc.http.post(`${PATH}/:namespace/:owner/:name/rearm`, { config, schema: rearm }, async (request) => {
      const { namespace, owner, name } = request.params as WebhookRef
      const record = { action: 'webhook_rearm', resource: `${namespace}/${owner}/${name}`, decision: 'allow' as const, by: svc.context(request) }
      const done = await audited(svc.find<AuditLog>(AUDIT_LOG), record, () => service.rearm({ namespace, owner, name }))
      return { rearmed: done.rearmed, endpoint: done.status }
    })
  },
})
