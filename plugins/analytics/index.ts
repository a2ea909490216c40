import { availableParallelism } from 'node:os'
import { definePlugin, MODEL_KINDS, type ModelKinds, NAMESPACES, type NamespaceLifecycle } from 'svcdb'
import { configSchema } from './config.ts'
import { DerivedSeries } from './derived/derived-series.ts'
import { DerivedHandler } from './derived/handler.ts'
import * as derivedSchemas from './derived/schemas.ts'
import { functions } from './functions.ts'
import { ComputeThreads } from './models/compute-threads.ts'
import { customKinds } from './models/custom-kinds.ts'
import { ModelsHandler } from './models/handler.ts'
import { derivedMetrics, modelMetrics } from './models/metrics.ts'
import { Models } from './models/models.ts'
import { Registry } from './models/registry.ts'
import * as schemas from './models/schemas.ts'

const ADMIN = '/api/v1/admin/analytics'
const DATA = '/api/v1/analytics'
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
    const registry = new Registry({ inAll: config.max_models, versions: config.max_versions })
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
        for (const entry of registry.list(name)) await models.delete(entry)
        for (const each of series.list(name)) await series.delete(each)
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

    const tags = ['analytics']
    const admin = { action: 'admin' } as const
    const params = schemas.modelPath
    const json = 'application/json'
    for (const path of ['/models', '/models/:measurement/:name', '/retrain']) svc.auth.scoped(ADMIN + path)
    const create = { tags, summary: 'Trains a model on a series and keeps it', body: schemas.createBody, response: { 201: schemas.model } }
    svc.http.post(`${ADMIN}/models`, { config: admin, schema: create, serializerCompiler: asItIs }, async (request, reply) =>
      reply
        .type(json)
        .code(201)
        .send(await handler.create(request, reply)),
    )
    const list = { tags, summary: 'Models by measurement and name', querystring: schemas.listQuery, response: { 200: schemas.listing } }
    svc.http.get(`${ADMIN}/models`, { config: admin, schema: list, serializerCompiler: asItIs }, (request, reply) =>
      reply.type(json).send(handler.list(request)),
    )
    const get = { tags, summary: 'A model with its versions', params, response: { 200: schemas.model } }
    svc.http.get(`${ADMIN}/models/:measurement/:name`, { config: admin, schema: get, serializerCompiler: asItIs }, async (request, reply) =>
      reply.type(json).send(await handler.get(request)),
    )
    const remove = { tags, summary: 'Deletes a model with all its versions', params, response: { 200: schemas.deleted } }
    svc.http.delete(`${ADMIN}/models/:measurement/:name`, { config: admin, schema: remove }, (request) => handler.delete(request))
    const retrain = {
      ...{ tags, summary: 'Has models of a measurement trained again', body: schemas.retrainBody },
      response: { 200: schemas.retrained, 202: schemas.retrained },
    }
    svc.http.post(`${ADMIN}/retrain`, { config: admin, schema: retrain }, (request, reply) => handler.retrain(request, reply))
    const forecast = {
      tags,
      summary: 'What a model forecasts from the newest sample on',
      params,
      querystring: schemas.forecastQuery,
      response: { 200: schemas.forecast },
    }
    svc.http.get(
      `${DATA}/models/:measurement/:name/forecast`,
      { config: { action: 'read' }, schema: forecast, serializerCompiler: asItIs },
      async (request, reply) => reply.type(json).send(await handler.forecast(request, reply)),
    )
    const anomalies = { tags, summary: 'Samples of a series that a detector finds unusual', body: schemas.anomaliesBody, response: { 200: schemas.anomalies } }
    svc.http.post(`${DATA}/anomalies`, { config: { action: 'read' }, schema: anomalies, serializerCompiler: asItIs }, async (request, reply) =>
      reply.type(json).send(await handler.anomalies(request, reply)),
    )

    const derive = {
      tags,
      summary: 'Has the result of a statement kept up to date as a measurement',
      body: derivedSchemas.createBody,
      response: { 201: derivedSchemas.derived },
    }
    svc.http.post(`${DATA}/derived`, { schema: derive, serializerCompiler: asItIs }, async (request, reply) =>
      reply
        .type(json)
        .code(201)
        .send(await derived.create(request)),
    )
    const allDerived = { tags, summary: 'Derived series by name', response: { 200: derivedSchemas.listing } }
    svc.http.get(`${DATA}/derived`, { schema: allDerived, serializerCompiler: asItIs }, (request, reply) => reply.type(json).send(derived.list(request)))
    const underive = { tags, summary: 'Deletes a derived series; its points stay', params: derivedSchemas.namePath, response: { 200: derivedSchemas.deleted } }
    svc.http.delete(`${DATA}/derived/:name`, { schema: underive }, (request) => derived.delete(request))
  },
})

/** The answer is JSON text already. */
const asItIs = () => (text: unknown) => text as string
