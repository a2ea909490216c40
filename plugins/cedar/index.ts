import { AUDIT_LOG, type AuditLog, definePlugin, POLICIES } from 'svcdb'
import { loadCedar } from './cedar-library.ts'
import { policyCommand } from './command.ts'
import { type CedarSections, configSchema } from './config.ts'
import { PolicyEngine } from './engine.ts'
import { Guard } from './guard.ts'
import { PolicyLoader } from './loaded-policies.ts'
import { policyMetrics } from './metrics.ts'
import { readPolicies } from './policy-files.ts'
import { PolicyReloader } from './reloader.ts'
import { sourceOf } from './source.ts'

export default definePlugin({
  id: 'cedar',
  summary: 'Permits or refuses each call by Cedar policies, which are reloaded while the server runs',
  stability: 'stable',
  section: '',
  config: configSchema,
  provides: [POLICIES],
  commands: [policyCommand],
  // What they say is for `svc policy check`, which takes longer.
  async check({ section }) {
    const sections = section as CedarSections
    if (sections.authorization.engine !== 'none') await readPolicies(sourceOf(sections))
  },
  setup(svc, sections) {
    const { authorization: config } = sections
    const loader = new PolicyLoader(config.max_policy_bytes)
    svc.provide(POLICIES, loader)
    svc.stop(() => loader.close())
    if (config.engine === 'none') return
    let engine: PolicyEngine | undefined
    let reloader: PolicyReloader | undefined
    const metrics = policyMetrics(svc.metrics, { policies: () => engine?.policyCount ?? 0, cacheEntries: () => engine?.cacheSize ?? 0 })
    const source = sourceOf(sections)
    const { log, clock } = svc
    const guard = new Guard({ engine: () => engine, metricsPath: svc.server.metrics_path, metrics, clock, log })
    svc.auth.authorizer((request) => guard.authorize(request))
    svc.readiness(() => guard.broken)
    svc.start(async () => {
      engine = new PolicyEngine(await loadCedar(), config.decision_cache_entries)
      reloader = new PolicyReloader({
        source,
        engine,
        hot: config.hot_reload,
        multiTenancy: svc.server.multi_tenancy,
        metrics,
        log,
        auditLog: () => svc.find<AuditLog>(AUDIT_LOG),
      })
      await reloader.load()
    })
    svc.ready(() => reloader?.watch())
    if (config.hot_reload) svc.schedule('policy_reload', config.hot_reload_interval_secs * 1000, () => reloader?.reload(), { local: true })
    svc.stop(async () => {
      await reloader?.stop()
      engine?.close()
    })
  },
})
