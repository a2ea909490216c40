import { definePlugin, namespaceProblem, REQUEST_LIMITS, type RequestLimits } from 'svcdb'
import { configSchema } from './config.ts'
import { Guard } from './guard.ts'
import { BanHandler } from './handler.ts'
import { banList, banPath, lifted, listQuery } from './schemas.ts'

const tags = ['admin']
const config = { action: 'admin' as const }

export default definePlugin({
  id: 'rate_limit',
  summary: 'Bounds how often callers may ask, by address, namespace and principal, and shuts out those whose credentials fail',
  stability: 'stable',
  section: '',
  provides: [REQUEST_LIMITS],
  config: configSchema,
  setup(svc, { rate_limit, server }) {
    const section = { ...rate_limit, ...server }
    const { enabled, trust_proxy_headers: behindProxy, trusted_proxies: proxies, track_auth_failures: tracking, tenants } = section
    if (!behindProxy && proxies.length > 0)
      throw new Error('cannot use rate_limit.trusted_proxies: rate_limit.trust_proxy_headers is false; set it to true, or remove the list')
    const everybody = proxies.find((network) => network.endsWith('/0'))
    if (everybody !== undefined)
      throw new Error(`cannot use rate_limit.trusted_proxies "${everybody}": callers would be proxies too, and claim any address; list the proxies`)
    svc.provide(REQUEST_LIMITS, { enforced: enabled } satisfies RequestLimits)
    const guard = new Guard(svc, section)
    const handler = new BanHandler(guard, svc.clock)
    const list = { tags, summary: 'Addresses that are shut out after failed authentications', querystring: listQuery, response: { 200: banList } }
    svc.http.get('/api/v1/admin/rate-limit/bans', { config, schema: list }, async ({ query }) => handler.list(query))
    const lift = { tags, summary: 'Lets an address in again', params: banPath, response: { 200: lifted } }
    svc.http.delete('/api/v1/admin/rate-limit/bans/:address', { config, schema: lift }, (request) => handler.lift(request.params.address, svc.context(request)))
    if (enabled || behindProxy) svc.auth.source((given) => guard.source(given))
    svc.start(() => {
      if (behindProxy && proxies.length === 0)
        svc.log.warn('whoever reaches the server without the proxy can claim any address: list the proxy in rate_limit.trusted_proxies')
      for (const name of Object.keys(tenants)) {
        const problem = namespaceProblem(name)
        if (problem !== undefined) svc.log.warn({ key: 'rate_limit.tenants' }, problem)
      }
    })
    if (!enabled) return
    svc.auth.limiter({ arrival: (credentials) => guard.arrival(credentials), admitted: (request) => guard.admitted(request) })
    if (tracking) svc.auth.observer((decision) => guard.observe(decision))
    svc.start(() => {
      const { requests_per_second: address, rate_limit_rps: global, per_user_rate_limit_rps: principal } = section
      svc.log.info({ address, global, principal, bans: tracking }, 'requests a second are limited; 0 = not')
    })
    svc.schedule('cleanup', section.cleanup_interval_secs * 1000, () => guard.sweep(), { local: true })
  },
})
