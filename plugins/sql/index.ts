import { definePlugin } from 'svcdb'
import { configSchema } from './config.ts'
import { SqlHandler } from './handler.ts'
import { sqlAnswer, sqlBody, sqlQuery } from './schemas.ts'
import { sqlWarmUp } from './warm-up.ts'

export default definePlugin({
  id: 'sql',
  summary: 'Answers read-only SQL over the measurements of a namespace',
  stability: 'stable',
  config: configSchema,
  includes: ['analytics'],
  capabilities: ['sql', 'jobs'],
  setup(svc) {
    const handler = new SqlHandler(svc)
    const schema = { tags: ['query'], summary: 'Runs one SQL query', body: sqlBody, response: { 200: sqlAnswer } }
    svc.ready(() => svc.storage.warmUp?.(sqlWarmUp))
    svc.http.post('/api/v1/svc/sql', { config: { action: 'read' }, schema }, (request, reply) => handler.query(request, reply, request.body.query as string))
    const read = { tags: ['query'], summary: 'Runs one SQL query that stands in the address', querystring: sqlQuery, response: { 200: sqlAnswer } }
    svc.http.get('/api/v1/svc/sql', { config: { action: 'read' }, schema: read }, (request, reply) => {
      const { q, format } = request.query as { q: string; format?: 'json' | 'csv' }
      return handler.query(request, reply, q, format)
    })
  },
})
