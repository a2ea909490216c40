/** The OpenAPI description is what the server does: each operation is called, and every answer has a status and a shape that are written down. */
import { compressSync } from 'snappy'
import { definePlugin } from 'svcdb'
import { AGENTS, type AgentPlane, defineSkill } from 'svcdb/agents'
import { Type } from 'svcdb/lib/schema'
import { boot, builtinPlugins } from 'svcdb/testkit'
import t from 'tap'
import { Value } from 'typebox/value'
import { ENDLESS } from '../security/routes.ts'
import { LET_ALONE } from '../security/sections.ts'

interface Operation {
  parameters?: { name: string; in: string }[]
  requestBody?: { content: Record<string, { schema: { required?: string[]; type?: string } }> }
  responses: Record<string, { description?: string; content?: Record<string, { schema: object }> }>
}
interface Description {
  paths: Record<string, Record<string, Operation>>
  components: { schemas: { Error: object } }
}

/** Credentials, certificates and an archive have tests of their own: here everybody may call. */
const LEFT_OUT = ['mtls', 'cold_archive', 'cedar', 'jwt', 'api_keys', 'audit']
const held: { plane?: AgentPlane } = {}
const agent = definePlugin({
  id: 'agent',
  summary: 'Waits',
  stability: 'experimental',
  requires: [AGENTS],
  setup(svc) {
    const invoke = (context: { sleep(ms: number): Promise<void> }) => context.sleep(3_600_000)
    held.plane = svc.use<AgentPlane>(AGENTS)
    held.plane.skill(defineSkill({ capability: 'of.test', summary: 'Waits', input: Type.Any(), output: Type.Any(), invoke }))
  },
})
const node = await boot({
  plugins: [...builtinPlugins().filter((id) => !LEFT_OUT.includes(id)), agent],
  storage: 'embedded',
  config: {
    ...LET_ALONE,
    triggers: {},
    agent_plane: {},
    grpc: { addr: '127.0.0.1:0' },
    flight_sql: { addr: '127.0.0.1:0' },
    otlp_grpc: { addr: '127.0.0.1:0' },
    promql: { admin_api: 'on' },
    auth: { require_authentication: false },
    database: { soft_delete_ttl_secs: 60 },
  },
})
t.teardown(() => node.stop())
const waiting = (await held.plane?.run({ capability: 'of.test', input: null, actor: 'test' }))?.run
const description = (await node.inject('/api/v1/openapi.json')).json() as Description
const operations = Object.entries(description.paths).flatMap(([path, item]) =>
  Object.entries(item).map(([method, operation]) => ({
    name: `${method.toUpperCase()} ${path}`,
    method: method.toUpperCase() as 'GET' | 'POST' | 'PUT' | 'DELETE',
    path,
    operation,
  })),
)

type Ask = { url?: string; type?: string; payload?: string | Buffer | object }
const now = `${Date.now()}000000`
const json = (payload: object): Ask => ({ type: 'application/json', payload })
const lines: Ask = {
  type: 'text/plain',
  payload: `air,room=a temp=1 ${now}\nair,room=a temp=2 ${BigInt(now) - 10_000_000_000n}\nair,room=a temp=4 ${BigInt(now) - 20_000_000_000n}`,
}
const form: Ask = { type: 'application/x-www-form-urlencoded', payload: 'query=1&start=0&end=10&step=5&match[]=air_temp' }
const metrics = json({ resourceMetrics: [{ scopeMetrics: [{ metrics: [{ name: 'm', gauge: { dataPoints: [{ timeUnixNano: now, asDouble: 1 }] } }] }] }] })
const partly = json({
  resourceMetrics: [
    {
      scopeMetrics: [
        {
          metrics: [
            {
              name: 'm',
              gauge: {
                dataPoints: [
                  { timeUnixNano: now, asDouble: 1 },
                  { timeUnixNano: '1', asDouble: 1 },
                ],
              },
            },
          ],
        },
      ],
    },
  ],
})
const snappy: Ask = { type: 'application/x-protobuf', payload: compressSync(Buffer.alloc(0)) }

/** Requests that are good, in an order in which they are; what is not here is asked without parameters. */
const GOOD: Record<string, Ask[]> = {
  'GET /ping': [{}, { url: '/ping?verbose=true' }],
  'POST /write': [lines],
  'POST /api/v2/write': [{ ...lines, url: '/api/v2/write?org=o&bucket=b&precision=ns' }],
  'POST /api/v1/write/influx': [lines],
  'POST /api/v3/write_lp': [{ ...lines, url: '/api/v3/write_lp?db=any&precision=nanosecond&accept_partial=false' }],
  'POST /api/v1/write': [json([{ measurement: 'air', tags: { room: 'a' }, fields: { temp: 2 } }])],
  'POST /api/v1/prom/write': [snappy, { url: '/api/v1/prom/write?get_vm_proto_version=1' }],
  'POST /v1/metrics': [metrics, partly],
  'POST /api/v1/otlp/metrics': [metrics, partly],
  'POST /query': [{ url: '/query?q=CREATE%20DATABASE%20x' }],
  'GET /query': [{ url: '/query?q=SHOW%20DATABASES' }],
  'POST /api/v1/svc/query': [json({ measurement: 'air' })],
  'POST /api/v1/svc/query/explain': [json({ measurement: 'air' })],
  'POST /api/v1/svc/sql': [json({ query: 'SELECT 1' })],
  'GET /api/v1/svc/sql': [{ url: '/api/v1/svc/sql?q=SELECT%201' }],
  'POST /api/v1/export/parquet': [json({ measurement: 'air' })],
  'POST /api/v1/delete': [json({ measurement: 'air', tags: { room: 'none' } })],
  'POST /api/v2/delete': [
    {
      url: '/api/v2/delete?bucket=a&org=o',
      ...json({ start: '1970-01-01T00:00:00Z', stop: '1970-01-02T00:00:00Z', predicate: '_measurement="air" AND room="none"' }),
    },
  ],
  'POST /api/v1/delete_batch': [json({ deletes: [{ measurement: 'air', tags: { room: 'none' } }] })],
  'GET /api/v1/measurements/{name}/schema': [{ url: '/api/v1/measurements/air/schema' }],
  'POST /api/v1/measurements/{name}/schema/fields': [{ url: '/api/v1/measurements/air/schema/fields', ...json({ name: 'price', type: 'decimal', scale: 2 }) }],
  'DELETE /api/v1/measurements/{name}': [{ url: '/api/v1/measurements/air' }],
  'POST /api/v1/measurements/{name}/restore': [{ url: '/api/v1/measurements/air/restore' }],
  'PUT /api/v1/admin/log-level': [json({ level: 'info' })],
  'POST /api/v1/admin/backup': [json({ target_dir: 'one' })],
  'POST /api/v1/admin/backup/verify': [json({ backup_dir: 'one' })],
  'POST /api/v1/admin/restore': [json({ backup_dir: 'one', target_dir: 'two' })],
  'POST /api/v1/namespaces': [json({ name: 'red' })],
  'GET /api/v1/namespaces/{name}': [{ url: '/api/v1/namespaces/red' }],
  'GET /api/v1/namespaces/{name}/usage': [{ url: '/api/v1/namespaces/red/usage' }],
  'PUT /api/v1/namespaces/{name}/quota': [{ url: '/api/v1/namespaces/red/quota', ...json({ max_series: 10 }) }],
  'GET /v1/namespaces/{namespace}': [{ url: '/v1/namespaces/red' }],
  'DELETE /api/v1/namespaces/{name}': [{ url: '/api/v1/namespaces/red' }],
  'DELETE /api/v1/admin/rate-limit/bans/{address}': [{ url: '/api/v1/admin/rate-limit/bans/192.0.2.1' }],
  'POST /api/v1/admin/webhooks/{namespace}/{owner}/{name}/rearm': [{ url: '/api/v1/admin/webhooks/default/triggers/hot/rearm' }],
  ...Object.fromEntries(
    ['/api/v1', '/api/v1/prom'].flatMap((prefix) =>
      ['POST', 'PUT'].map((method) => [`${method} ${prefix}/admin/tsdb/delete_series`, [{ url: `${prefix}/admin/tsdb/delete_series?match[]=there_is_none` }]]),
    ),
  ),
  'POST /api/v1/admin/analytics/models': [json({ name: 'x', measurement: 'air', field: 'temp', forecast: { horizon: 3 } })],
  'POST /api/v1/admin/analytics/retrain': [json({ measurement: 'none' }), json({ measurement: 'air' })],
  'GET /api/v1/admin/analytics/models/{measurement}/{name}': [{ url: '/api/v1/admin/analytics/models/air/x' }],
  'DELETE /api/v1/admin/analytics/models/{measurement}/{name}': [{ url: '/api/v1/admin/analytics/models/air/x' }],
  'GET /api/v1/analytics/models/{measurement}/{name}/forecast': [{ url: '/api/v1/analytics/models/air/x/forecast?horizon=2' }],
  'POST /api/v1/analytics/derived': [json({ name: 'x', query: 'SELECT _time, temp FROM air WHERE _time >= $1 AND _time < $2' })],
  'POST /api/v1/analytics/anomalies': [json({ measurement: 'air', field: 'temp' })],
  'POST /api/v1/admin/nodes': [json({ node_id: 7, addr: 'seven:8086' })],
  'POST /api/v1/admin/rebalance': [{}],
  'POST /api/v1/admin/heartbeat': [json({ node_id: 7, generation: 1 })],
  'POST /api/v1/admin/regions': [json({ region_id: 1, measurement: 'air', leader_node_id: 7 })],
  'PUT /api/v1/admin/regions/{id}/state': [{ url: '/api/v1/admin/regions/1/state', ...json({ state: 'migrating' }) }],
  'POST /api/v1/admin/nodes/{id}/decommission': [{ url: '/api/v1/admin/nodes/7/decommission' }],
  'DELETE /api/v1/admin/nodes': [json({ node_id: 7 })],
  'POST /api/v1/rollups': [json({ name: 'x', source_measurement: 'air', target_measurement: 'air_1h', every: '1h', aggregations: ['avg'] })],
  'POST /api/v1/admin/connectors/{name}/dead-letters/replay': [{}],
  'POST /api/v1/rollups/{name}/refresh': [{}],
  'POST /api/v1/triggers': [json({ query: 'CREATE TRIGGER x ON air WHEN temp > 100' })],
  'POST /api/v1/admin/agents/runs': [json({ capability: 'of.test' })],
  'GET /api/v1/admin/agents/runs/{run}': [{ url: `/api/v1/admin/agents/runs/${waiting}` }],
  'POST /api/v1/admin/agents/runs/{run}/replay': [{ url: `/api/v1/admin/agents/runs/${waiting}/replay`, ...json({ mode: 'strict' }) }],
  'POST /api/v1/admin/agents/runs/{run}/cancel': [{ url: `/api/v1/admin/agents/runs/${waiting}/cancel`, ...json({ reason: 'not wanted' }) }],
  'POST /api/v1/read': [snappy],
  'POST /api/v1/prom/read': [snappy],
}
/** Success that takes more than one request to a node that runs. */
const NOT_ASKED = new Set([
  'DELETE /api/v1/admin/rate-limit/bans/{address} 200',
  'POST /api/v1/admin/webhooks/{namespace}/{owner}/{name}/rearm 200',
  'POST /api/v1/admin/connectors/{name}/dead-letters/replay 200',
])
/** Orders that matter. */
const LAST = [
  'POST /api/v1/admin/nodes/{id}/decommission',
  'DELETE /api/v1/admin/nodes',
  'POST /api/v1/admin/agents/runs/{run}/cancel',
  'DELETE /api/v1/admin/analytics/models/{measurement}/{name}',
  'DELETE /api/v1/analytics/derived/{name}',
  'DELETE /api/v1/triggers/{name}',
  'DELETE /api/v1/rollups/{name}',
  'DELETE /api/v1/measurements/{name}',
  'POST /api/v1/measurements/{name}/restore',
  'DELETE /api/v1/namespaces/{name}',
]
const ordered = [...operations].sort((a, b) => LAST.indexOf(a.name) - LAST.indexOf(b.name))

async function ask({ name, method, path }: (typeof operations)[number], { url, type, payload }: Ask) {
  const promql = form.payload as string
  const query = method === 'GET' && GOOD[name] === undefined && /^\/api\/v1\/(prom\/)?[a-z_]+($|\/\{name\}\/values)/.test(path) ? `?${promql}` : ''
  const answer = await node.inject({
    method,
    // What does not end is asked for what it refuses.
    url: url ?? path.replaceAll(/\{\w+\}/g, 'x') + (ENDLESS[path] ?? query),
    ...(type === undefined ? {} : { headers: { 'content-type': type } }),
    ...(payload === undefined ? {} : { payload }),
  })
  return { status: answer.statusCode, type: String(answer.headers['content-type'] ?? ''), body: answer.body }
}

t.before(async () => {
  await node.inject({ method: 'POST', url: '/write', payload: lines.payload as string })
})

/** Resolved by hand: there is one reference. */
const schemaOf = (schema: object): object => ('$ref' in schema ? description.components.schemas.Error : schema)

t.test('each good request has the success that is written down, and each of these is seen', async (t) => {
  for (const each of ordered) {
    const { name, method, operation } = each
    if (ENDLESS[each.path] !== undefined) continue
    if (!Object.keys(operation.responses).some((status) => /^2/.test(status))) continue
    const seen = new Set<string>()
    for (const request of GOOD[name] ?? [method === 'POST' ? form : {}]) {
      const { status, type, body } = await ask(each, request)
      if (NOT_ASKED.has(`${name} 200`) && status === 404) continue
      const documented = operation.responses[status]
      if (status >= 400 || documented === undefined) t.fail(`${name}: ${status} ${body.slice(0, 200)}`)
      seen.add(String(status))
      const schema = documented?.content?.['application/json']?.schema
      if (schema !== undefined && type.startsWith('application/json')) t.ok(Value.Check(schema as never, JSON.parse(body)), `${name}: ${body.slice(0, 100)}`)
      if (status === 204) t.equal(body, '', name)
    }
    for (const status of Object.keys(operation.responses))
      if (/^2/.test(status) && !NOT_ASKED.has(`${name} ${status}`)) t.ok(seen.has(status), `${name} answers ${status}`)
  }
})

t.test('what is refused has a status and a shape that are written down', async (t) => {
  for (const each of operations) {
    const { name, operation } = each
    const bodies: Ask[] = [{}, json({}), json([]), { type: 'application/json', payload: '{' }, { type: 'text/css', payload: 'x' }]
    for (const request of bodies) {
      const { status, type, body } = await ask(each, request)
      const documented = operation.responses[status] ?? (status >= 400 ? operation.responses.default : undefined)
      if (documented === undefined) t.fail(`${name}: ${status} is not documented: ${body.slice(0, 100)}`)
      const schema = documented?.content?.['application/json']?.schema
      if (status >= 400) {
        t.ok(schema !== undefined && /^application\/json/.test(type), `${name} ${status}: ${type}`)
        t.ok(Value.Check(schemaOf(schema as object) as never, JSON.parse(body)), `${name} ${status}: ${body.slice(0, 200)}`)
      }
    }
  }
})

/** As InfluxDB 2 does: clients of it send no type. */
const OF_ANY_TYPE = new Set(['POST /api/v2/delete'])

t.test('one rule for JSON bodies: 415 without a type, 422 without a member that is needed', async (t) => {
  let needing = 0
  for (const each of operations) {
    const schema = each.operation.requestBody?.content['application/json']?.schema
    if (schema === undefined) continue
    const anyType = OF_ANY_TYPE.has(each.name)
    const none = await ask(each, {})
    t.same([none.status, JSON.parse(none.body).code], anyType ? [400, 'BAD_REQUEST'] : [415, 'UNSUPPORTED_MEDIA_TYPE'], `${each.name} without a body`)
    const other = await ask(each, { type: 'text/plain', payload: '{}' })
    t.same([other.status, JSON.parse(other.body).code], anyType ? [422, 'INVALID_BODY'] : [415, 'UNSUPPORTED_MEDIA_TYPE'], `${each.name} of another type`)
    if ((schema.required ?? []).length === 0) continue
    needing++
    const empty = await ask(each, json({}))
    t.same([empty.status, JSON.parse(empty.body).code], [422, 'INVALID_BODY'], `${each.name}: ${empty.body}`)
  }
  t.ok(needing >= 10)
})

t.test('parameters of InfluxDB are named', async (t) => {
  for (const path of ['/write', '/api/v2/write', '/api/v1/write/influx'])
    t.match(
      new Set(description.paths[path].post.parameters?.map(({ name }) => name)),
      new Set(['precision', 'backfill', 'db', 'rp', 'bucket', 'org', 'consistency']),
    )
})

t.test('an empty OTLP request is a message in protobuf, and nothing in JSON', async (t) => {
  const post = (type: string) => node.inject({ method: 'POST', url: '/v1/metrics', headers: { 'content-type': type }, payload: '' })
  t.equal((await post('application/x-protobuf')).statusCode, 204)
  const refused = await post('application/json')
  t.equal(refused.statusCode, 400)
  t.match(refused.json(), { code: 3, message: /^BAD_REQUEST: cannot read the body as JSON/ })
})

t.test('a node that is not ready says so as it is written down', async (t) => {
  const unready = definePlugin({
    id: 'unready',
    summary: 'Is never ready',
    stability: 'experimental',
    setup: (svc) => svc.readiness(() => 'something is missing'),
  })
  const other = await boot({ plugins: [unready] })
  t.teardown(() => other.stop())
  const answer = await other.inject('/ready')
  t.equal(answer.statusCode, 503)
  t.same(answer.json(), { ready: false, reason: 'something is missing' })
  t.ok(Value.Check(description.paths['/ready'].get.responses[503].content?.['application/json'].schema as never, answer.json()))
})
