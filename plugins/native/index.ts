import { definePlugin, pointFormat, type Svc } from 'svcdb'
import { SvcError } from 'svcdb/lib/errors'
import { jsonListing } from 'svcdb/lib/json'
import { configSchema } from './config.ts'
import { DeleteHandler } from './delete.ts'
import { jsonFormat } from './format.ts'
import { declaredField, view } from './measurements.ts'
import { QueryHandler } from './query.ts'
import {
  deleteAnswer,
  deleteBatchAnswer,
  deleteBatchBody,
  deleteBody,
  fieldBody,
  listing,
  listQuery,
  measurementPath,
  measurementView,
  nothing,
  planBody,
  pointsBody,
  rows,
  scanPlan,
  uncheckedBody,
  writeQuery,
} from './schemas.ts'
import { nativeWarmUp } from './warm-up.ts'
import { WriteHandler } from './write.ts'

const JSON_BODY = { rawBody: ['application/json'] }

export default definePlugin({
  id: 'native',
  summary: 'Writes and deletes points as JSON, answers queries as a JSON plan, shows, drops and restores measurements',
  stability: 'stable',
  config: configSchema,
  capabilities: ['points'],
  provides: [pointFormat('json')],
  setup(svc, config) {
    svc.provide(pointFormat('json'), jsonFormat(svc, config))
    const writer = new WriteHandler(svc, config)
    const reader = new QueryHandler(svc, config)
    const remover = new DeleteHandler(svc, config)
    svc.ready(() => svc.storage.warmUp?.(nativeWarmUp))
    declarePointRoutes(svc, writer, reader, remover)
    declareMeasurementRoutes(svc, remover)
  },
})

function declarePointRoutes(svc: Svc, writer: WriteHandler, reader: QueryHandler, remover: DeleteHandler): void {
  const write = {
    tags: ['write'],
    summary: 'Writes points, all or none of what can be parsed',
    querystring: writeQuery,
    body: pointsBody,
    response: { 204: nothing },
  }
  svc.http.post(
    '/api/v1/write',
    { config: { ...JSON_BODY, ingest: true }, bodyLimit: svc.server.max_body_size, schema: write, validatorCompiler: uncheckedBody },
    (request, reply) => writer.write(request, reply),
  )

  const query = { tags: ['query'], summary: 'Rows of one measurement, by time and then series', body: planBody, response: { 200: rows } }
  // Rows are written as bytes: nothing may serialise them again.
  const answer = { config: { ...JSON_BODY, action: 'read' as const }, validatorCompiler: uncheckedBody }
  svc.http.post('/api/v1/svc/query', { ...answer, schema: query }, (request, reply) => reader.query(request, reply))
  const explain = { tags: ['query'], summary: 'How a query would be answered', body: planBody, response: { 200: scanPlan } }
  svc.http.post('/api/v1/svc/query/explain', { ...answer, schema: explain }, (request) => reader.explain(request))

  const deletion = { config: { ...JSON_BODY, action: 'delete' as const }, validatorCompiler: uncheckedBody }
  const remove = { tags: ['delete'], summary: 'Deletes points of one measurement', body: deleteBody, response: { 200: deleteAnswer } }
  svc.http.post('/api/v1/delete', { ...deletion, schema: remove }, (request) => remover.delete(request))
  const removeMany = { tags: ['delete'], summary: 'Deletes points of several measurements', body: deleteBatchBody, response: { 200: deleteBatchAnswer } }
  svc.http.post('/api/v1/delete_batch', { ...deletion, schema: removeMany }, (request) => remover.deleteBatch(request))
}

function declareMeasurementRoutes(svc: Svc, remover: DeleteHandler): void {
  const list = { tags: ['measurements'], summary: 'Measurements with their columns', querystring: listQuery, response: { 200: listing } }
  svc.http.get('/api/v1/measurements', { schema: list }, async (request, reply) => {
    const { offset, limit } = request.query as { offset: number; limit: number }
    const { items, total } = await svc.storage.measurementsPage({ namespace: svc.context(request).dataNamespace, offset, limit })
    const behind = `],"total":${total},"offset":${offset},"limit":${limit}}`
    return reply.type('application/json; charset=utf-8').send(jsonListing('{"items":[', items, view, behind))
  })

  const one = { tags: ['measurements'], summary: 'Columns of a measurement', params: measurementPath, response: { 200: measurementView } }
  svc.http.get('/api/v1/measurements/:name/schema', { schema: one }, async (request) => {
    const { name } = request.params as { name: string }
    const [known] = await svc.storage.measurements(svc.context(request).dataNamespace, name)
    if (known === undefined)
      throw new SvcError('NOT_FOUND', `cannot find measurement "${name.slice(0, 256)}": there is none of this name; GET /api/v1/measurements lists them`)
    return view(known)
  })

  const declare = {
    tags: ['measurements'],
    summary: 'Declares a field before its first value',
    params: measurementPath,
    body: fieldBody,
    response: { 200: measurementView },
  }
  svc.http.post('/api/v1/measurements/:name/schema/fields', { schema: declare }, async (request) => {
    const { name } = request.params as { name: string }
    const field = declaredField(request.body as { name: string; type: string; scale?: number })
    return view(await svc.storage.declareField(svc.context(request).dataNamespace, name, field))
  })

  const drop = { tags: ['measurements'], summary: 'Drops a measurement with its points', params: measurementPath, response: { 204: nothing } }
  svc.http.delete('/api/v1/measurements/:name', { config: { action: 'delete' }, schema: drop }, (request, reply) => remover.drop(request, reply))
  const undo = { tags: ['measurements'], summary: 'Undoes the drop of a measurement', params: measurementPath, response: { 204: nothing } }
  svc.http.post('/api/v1/measurements/:name/restore', { config: { action: 'write' }, schema: undo }, (request, reply) => remover.restore(request, reply))
}
