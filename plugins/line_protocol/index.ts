import { Type } from 'typebox'
import { definePlugin, type HttpRequest } from '../../kernel/plugin.ts'
import { configSchema } from './config.ts'
import { answerStatement } from './database-door.ts'
import { addInfluxHeaders, WriteHandler } from './handler.ts'

const writeQuery = Type.Object({
  precision: Type.Optional(Type.String({ description: 'Unit of the times: ns (default), us, ms, s; also n, u, m, h' })),
  backfill: Type.Optional(Type.Boolean({ description: 'Admits points older than the live window' })),
  db: Type.Optional(Type.String({ description: 'Ignored, as are bucket, org, rp and consistency' })),
})
const statementQuery = Type.Object({ q: Type.Optional(Type.String({ description: 'CREATE DATABASE or SHOW DATABASES' })) })

export default definePlugin({
  id: 'line_protocol',
  summary: 'Writes in InfluxDB line protocol, as Telegraf and the InfluxDB clients send it',
  stability: 'stable',
  config: configSchema,
  capabilities: ['points'],
  setup(svc, config) {
    const handler = new WriteHandler(svc, config)
    for (const path of ['/write', '/api/v2/write', '/api/v1/write/influx']) {
      const schema = { tags: ['write'], summary: 'Writes points in line protocol', querystring: writeQuery, consumes: ['text/plain'] }
      svc.http.post(path, { config: { rawBody: true }, schema, onSend: addInfluxHeaders }, (request, reply) => handler.write(request, reply))
    }
    const schema = { tags: ['write'], summary: 'Answers what InfluxDB 1 clients ask before they write', querystring: statementQuery }
    const answer = async (request: HttpRequest) => {
      const form = request.body === undefined ? undefined : new URLSearchParams((request.body as Buffer).toString('utf8')).get('q')
      return answerStatement(form ?? (request.query as { q?: string }).q, svc.context(request).namespace)
    }
    svc.http.get('/query', { schema, onSend: addInfluxHeaders }, answer)
    svc.http.post('/query', { config: { rawBody: true }, schema, onSend: addInfluxHeaders }, answer)
  },
})
