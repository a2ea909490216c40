import { availableParallelism } from 'node:os'
import { definePlugin, MODEL_KINDS, type ModelKinds, NAMESPACES, type NamespaceLifecycle } from 'svcdb'
import { configSchema } from './config.ts'
import { DerivedSeries } from './derived/derived-series.ts'
import { DerivedHandler } from './derived/handler.ts'
import { addDerivedRoutes } from './derived/routes.ts'
import { functions } from './functions.ts'
import { ComputeThreads } from './models/compute-threads.ts'
import { customKinds } from './models/custom-kinds.ts'
import { ModelsHandler } from './models/handler.ts'
import { derivedMetrics, modelMetrics } from './models/metrics.ts'
import { Models } from './models/models.ts'
import { Registry } from './models/registry.ts'
import { addModelRoutes } from './models/routes.ts'

/** Of compute_threads. */
const MOST_THREADS = 64

export default definePlugin({
  id: 'analytics',
  summary: 'Forecasts, anomalies and statistics of time series: functions in SQL, and models that are trained, watched and kept',
  stability: 'stable',
  config: configSchema,
  capabilities: ['sql', 'sql_functions', 'points', 'jobs', 'state'],
  provides: [MODEL_KINDS],
  auditActions: ['model_create', 'model_delete', 'model_retrain', 'derived_create', 'derived_delete'],
  setup(svc, given) {
    const config = { ...given, compute_threads: given.compute_threads || Math.min(MOST_THREADS, availableParallelism()) }
    for (const declaration of functions) svc.sql.function(declaration)

    const kinds = customKinds()
    const custom = kinds.modules
    svc.provide(MODEL_KINDS, kinds satisfies ModelKinds)
    const registry = new Registry({ inAll: config.max_models, versions: config.max_versions, apart: svc.server.multi_tenancy })
    const threads = new ComputeThreads({
      ...{ threads: config.compute_threads, memoryMb: config.compute_memory_mb },
      ...{ timeoutSecs: config.training_timeout_secs, maxWaiting: config.max_waiting },
    })
    const metrics = modelMetrics(svc.metrics, () => models.figures())
    const models = new Models({ svc, config, registry, threads, metrics, custom })
    const series = new DerivedSeries({ svc, config, metrics: derivedMetrics(svc.metrics) })
    const derived = new DerivedHandler(svc, series)
    const handler = new ModelsHandler({ svc, config, registry, models, custom })

    svc.start(async () => {
      const failed = (err: Error) => svc.log.error({ err }, 'cannot read models as other nodes have changed them; it is tried again')
      await registry.open(svc.storage.state(svc.id), failed)
      await series.open(svc.storage.state(svc.id), failed)
      svc.schedule('derived', config.derived_interval_secs * 1000, ({ signal }) => series.pass(signal), series.isOwn ? { local: true } : {})
      await svc.find<Partial<NamespaceLifecycle>>(NAMESPACES)?.onDelete?.(async (name) => {
        await models.forgetNamespace(name)
        await series.forgetNamespace(name)
      }, svc.id)
    })
    svc.ready(() => models.resume())
    svc.schedule('models', config.watch_interval_secs * 1000, ({ signal }) => models.watch(signal))
    svc.drain(() => models.stop())
    svc.stop(async () => {
      await registry.close()
      await series.close()
      await threads.stop()
    })

    addModelRoutes(svc, handler)
    addDerivedRoutes(svc.http, derived)
  },
})
