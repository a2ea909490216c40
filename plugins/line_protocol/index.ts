import { Type } from 'typebox'
import { definePlugin, type HttpRequest } from '../../kernel/plugin.ts'
import { configSchema } from './config.ts'
import { databaseName, parametersOf } from './database-name.ts'
import { addInfluxHeaders, WriteHandler } from './handler.ts'
import { namespaceSource, requireNamespaceName, requireSelected } from './namespace-source.ts'
import { answerStatement } from './statement.ts'

const writeQuery = Type.Object({
  precision: Type.Optional(Type.String({ description: 'Unit of the times: ns (default), us, ms, s; also n, u, m, h' })),
  backfill: Type.Optional(Type.Boolean({ description: 'Admits points older than the live window' })),
  db: Type.Optional(
    Type.String({ description: 'What it means says line_protocol.database; so do bucket and rp. Others, such as org and consistency, are ignored' }),
  ),
})
const WRITE_PATHS = ['/write', '/api/v2/write', '/api/v1/write/influx']
const QUERY_PATH = '/query'
const statementQuery = Type.Object({ q: Type.Optional(Type.String({ description: 'CREATE DATABASE or SHOW DATABASES' })) })

export default definePlugin({
  id: 'line_protocol',
  summary: 'Writes in InfluxDB line protocol, as Telegraf and the InfluxDB clients send it',
  stability: 'stable',
  config: configSchema,
  capabilities: ['points'],
  setup(svc, config) {
    const byName = config.database === 'namespace'
    if (byName && !svc.server.multi_tenancy)
      throw new Error('cannot use line_protocol.database "namespace": all namespaces share their data; set server.multi_tenancy = true, or use "tag"')
    if (config.database === 'tag' && config.database_tag === config.retention_policy_tag)
      throw new Error(`cannot use tag "${config.database_tag}" for both line_protocol.database_tag and retention_policy_tag: choose two keys`)
    if (byName) svc.auth.source(namespaceSource(new Set([...WRITE_PATHS, QUERY_PATH])))
    const handler = new WriteHandler(svc, config)
    for (const path of WRITE_PATHS) {
      const schema = { tags: ['write'], summary: 'Writes points in line protocol', querystring: writeQuery, consumes: ['text/plain'] }
      svc.http.post(path, { config: { rawBody: true }, bodyLimit: svc.server.max_body_size, schema, onSend: addInfluxHeaders }, (request, reply) =>
        handler.write(request, reply),
      )
    }
    const schema = { tags: ['write'], summary: 'Answers what InfluxDB 1 clients ask before they write', querystring: statementQuery }
    const answer = async (request: HttpRequest) => {
      const form = request.body === undefined ? undefined : new URLSearchParams((request.body as Buffer).toString('utf8')).get('q')
      const { namespace } = svc.context(request)
      if (byName) requireSelected(databaseName(parametersOf(request.query)).database, namespace)
      return answerStatement(form ?? (request.query as { q?: string }).q, namespace, byName ? requireNamespaceName : undefined)
    }
    svc.http.get(QUERY_PATH, { schema, onSend: addInfluxHeaders }, answer)
    svc.http.post(QUERY_PATH, { config: { rawBody: true }, schema, onSend: addInfluxHeaders }, answer)
  },
})
