import { SvcError } from '../../kernel/errors.ts'
import { definePlugin } from '../../kernel/plugin.ts'
import { configSchema } from './config.ts'
import { declaredField, view } from './measurements.ts'
import { QueryHandler } from './query.ts'
import { fieldBody, listing, listQuery, measurementPath, measurementView, planBody, pointsBody, rows, scanPlan, uncheckedBody, writeQuery } from './schemas.ts'
import { WriteHandler } from './write.ts'

const JSON_BODY = { rawBody: ['application/json'] }

export default definePlugin({
  id: 'native',
  summary: 'Writes points as JSON, answers queries as a JSON plan, and shows measurements and their columns',
  stability: 'stable',
  config: configSchema,
  capabilities: ['points', 'jobs'],
  setup(svc, config) {
    const writer = new WriteHandler(svc, config)
    const reader = new QueryHandler(svc)

    const write = { tags: ['write'], summary: 'Writes points, all or none of what can be parsed', querystring: writeQuery, body: pointsBody }
    svc.http.post('/api/v1/write', { config: JSON_BODY, schema: write, validatorCompiler: uncheckedBody }, (request, reply) => writer.write(request, reply))

    const query = { tags: ['query'], summary: 'Rows of one measurement, by time and then series', body: planBody, response: { 200: rows } }
    // Rows are written as bytes: nothing may serialise them again.
    const answer = { config: { ...JSON_BODY, action: 'read' as const }, validatorCompiler: uncheckedBody }
    svc.http.post('/api/v1/svc/query', { ...answer, schema: query }, (request, reply) => reader.query(request, reply))
    const explain = { tags: ['query'], summary: 'How a query would be answered', body: planBody, response: { 200: scanPlan } }
    svc.http.post('/api/v1/svc/query/explain', { ...answer, schema: explain }, (request) => reader.explain(request))

    const list = { tags: ['measurements'], summary: 'Measurements with their columns', querystring: listQuery, response: { 200: listing } }
    svc.http.get('/api/v1/measurements', { schema: list }, async (request) => {
      const { offset, limit } = request.query as { offset: number; limit: number }
      const all = svc.storage.measurements(svc.context(request).dataNamespace)
      return { items: all.slice(offset, offset + limit).map(view), total: all.length, offset, limit }
    })

    const one = { tags: ['measurements'], summary: 'Columns of a measurement', params: measurementPath, response: { 200: measurementView } }
    svc.http.get('/api/v1/measurements/:name/schema', { schema: one }, async (request) => {
      const { name } = request.params as { name: string }
      const known = svc.storage.measurements(svc.context(request).dataNamespace).find((measurement) => measurement.name === name)
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
  },
})
