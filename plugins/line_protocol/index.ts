import { definePlugin, type HttpRequest, NOTHING, pointFormat } from 'svcdb'
import { Type } from 'svcdb/lib/schema'
import { configSchema } from './config.ts'
import { databaseName, parametersOf } from './database-name.ts'
import { alwaysJson, DeleteHandler } from './delete.ts'
import { type BucketQuery, bucketList, QUESTDB_SETTINGS } from './discovery.ts'
import { ELSEWHERE } from './elsewhere.ts'
import { lineFormat } from './format.ts'
import { DIALECTS, WriteHandler } from './handler.ts'
import { namespaceSource, requireNamespaceName, requireSelected } from './namespace-source.ts'
import { influxHooks } from './refuse.ts'
import { answerStatement } from './statement.ts'
import { passwordSource } from './url-password.ts'

const writeQuery = Type.Object({
  precision: Type.Optional(Type.String({ description: 'Unit of the times: ns (default), us, ms, s; also n, u, m, h' })),
  backfill: Type.Optional(Type.Boolean({ description: 'Admits points older than the live window' })),
  db: Type.Optional(Type.String({ description: 'A database of InfluxDB 1; what it means says line_protocol.database' })),
  rp: Type.Optional(Type.String({ description: 'A retention policy of it; as for db' })),
  bucket: Type.Optional(Type.String({ description: 'A bucket of InfluxDB 2; as for db' })),
  org: Type.Optional(Type.String({ description: 'Ignored' })),
  consistency: Type.Optional(Type.String({ description: 'Ignored' })),
})
const writeQuery3 = Type.Object({
  ...{ db: writeQuery.properties.db, rp: writeQuery.properties.rp, bucket: writeQuery.properties.bucket, backfill: writeQuery.properties.backfill },
  precision: Type.Optional(
    Type.String({
      description: 'Unit of the times: auto (default: that of each by its size), nanosecond, microsecond, millisecond, second; also ns, us, ms, s',
    }),
  ),
  accept_partial: Type.Optional(Type.Boolean({ description: 'false: nothing is written when a line cannot be parsed; default true' })),
  no_sync: Type.Optional(Type.Boolean({ description: 'Ignored: when a write is on disk says database.wal_fsync_policy' })),
})
const WRITES = [
  ...['/write', '/api/v2/write', '/api/v1/write/influx'].map((path) => ({ path, querystring: writeQuery, dialect: DIALECTS[2] })),
  { path: '/api/v3/write_lp', querystring: writeQuery3, dialect: DIALECTS[3] },
]
const QUERY_PATH = '/query'
/** Of InfluxDB 1. */
const V1_PATHS: ReadonlySet<string> = new Set(['/write', QUERY_PATH])
const DELETE_PATH = '/api/v2/delete'
const statementQuery = Type.Object({ q: Type.Optional(Type.String({ description: 'CREATE DATABASE or SHOW DATABASES' })) })
const deleteQuery = Type.Object({
  bucket: Type.Optional(Type.String({ description: 'What it means says line_protocol.database; org is ignored' })),
})
/** Strict: a misspelled predicate would be a delete of the whole range. */
const deleteBody = Type.Object(
  {
    start: Type.String({ description: 'First time, RFC 3339' }),
    stop: Type.String({ description: 'Last time, RFC 3339' }),
    predicate: Type.Optional(
      Type.Union([Type.String(), Type.Null()], { description: '_measurement="cpu" AND host="a"; operators are = and !=; null is as none' }),
    ),
  },
  { additionalProperties: false },
)
const bucketQuery = Type.Object({
  name: Type.Optional(Type.String()),
  id: Type.Optional(Type.String()),
  limit: Type.Optional(Type.Integer({ minimum: 1, maximum: 100 })),
  offset: Type.Optional(Type.Integer({ minimum: 0 })),
})

export default definePlugin({
  id: 'line_protocol',
  summary: 'Writes in InfluxDB line protocol, as Telegraf and the InfluxDB clients send it',
  stability: 'stable',
  config: configSchema,
  capabilities: ['points'],
  provides: [pointFormat('line_protocol')],
  setup(svc, config) {
    const byName = config.database === 'namespace'
    if (byName && !svc.server.multi_tenancy)
      throw new Error('cannot use line_protocol.database "namespace": all namespaces share their data; set server.multi_tenancy = true, or use "tag"')
    if (config.database === 'tag' && config.database_tag === config.retention_policy_tag)
      throw new Error(`cannot use tag "${config.database_tag}" for both line_protocol.database_tag and retention_policy_tag: choose two keys`)
    if (byName) svc.auth.source(namespaceSource(new Set([...WRITES.map(({ path }) => path), QUERY_PATH, DELETE_PATH])))
    if (config.url_password) svc.auth.source(passwordSource(V1_PATHS))
    svc.provide(pointFormat('line_protocol'), lineFormat(svc, config))
    const hooks = influxHooks(svc.log)
    const handler = new WriteHandler(svc, config)
    for (const { path, querystring, dialect } of WRITES) {
      const schema = {
        tags: ['write'],
        summary: 'Writes points in line protocol',
        querystring,
        consumes: ['text/plain'],
        response: { 204: NOTHING },
      }
      svc.http.post(path, { config: { rawBody: true, ingest: true }, bodyLimit: svc.server.max_body_size, schema, ...hooks }, (request, reply) =>
        handler.write(request, reply, dialect),
      )
    }
    const schema = { tags: ['write'], summary: 'Answers what InfluxDB 1 clients ask before they write', querystring: statementQuery }
    const answer = async (request: HttpRequest) => {
      const form = request.body === undefined ? undefined : new URLSearchParams((request.body as Buffer).toString('utf8'))
      const { namespace } = svc.context(request)
      const { database } = databaseName(parametersOf(request.query))
      if (byName) requireSelected(database, namespace)
      const named = byName ? namespace : (database ?? (form?.get('db') || undefined))
      const text = form?.get('q') ?? (request.query as { q?: string }).q
      return answerStatement(text, config.max_query_statements, namespace, named, byName ? requireNamespaceName : undefined)
    }
    svc.http.get(QUERY_PATH, { schema, ...hooks }, answer)
    svc.http.post(QUERY_PATH, { config: { rawBody: true }, schema, ...hooks }, answer)
    const remover = new DeleteHandler(svc, config)
    const removal = {
      tags: ['delete'],
      summary: 'Deletes points by time and predicate, as InfluxDB 2 does',
      querystring: deleteQuery,
      body: deleteBody,
      response: { 204: NOTHING },
    }
    const deletes = { config: { action: 'delete' as const }, schema: removal, onRequest: alwaysJson, ...hooks }
    svc.http.post(DELETE_PATH, deletes, (request, reply) => remover.delete(request, reply))
    const list = { tags: ['write'], summary: 'Buckets that can be written to, as InfluxDB 2 lists them', querystring: bucketQuery }
    svc.http.get('/api/v2/buckets', { schema: list, ...hooks }, async (request) =>
      bucketList(request.query as BucketQuery, svc.context(request).namespace, byName),
    )
    svc.http.errorsBelow('/api/v2/', hooks.errorHandler)
    for (const [path, hint] of Object.entries(ELSEWHERE)) svc.http.hintBelow(path, hint)
    const settings = { tags: ['write'], summary: "Versions of the line protocol, for QuestDB's clients" }
    svc.http.get('/settings', { config: { action: 'public' }, schema: settings }, async () => QUESTDB_SETTINGS)
  },
})
