/** Questions by all protocols, with what others were handed and with others' names. Each answer is looked through. */

import { EventClient } from '../../../plugins/cdc/testing.ts'
import { command, descriptor, field, infoOf, message } from '../../../plugins/flight_sql/testing.ts'
import { OPERATIONS } from '../../../plugins/operator_api/routes/index.ts'
import { PROMQL, SQL } from '../tricks.ts'
import { guess, LEDGER, leaksOf, other, pick, TENANTS, type Tenant, type World } from './world.ts'

type Act = (world: World, tenant: Tenant) => Promise<void>

const names = (random: () => number, tenant: Tenant): string => (random() < 0.5 ? LEDGER : guess(random, tenant))

const viaGrpc: Act = async ({ grpc, node, random, leak, got }, tenant) => {
  const measurement = names(random, tenant)
  const claims = random() < 0.2
  const metadata = { ...tenant.user, ...(claims && { 'x-namespace': other(random, tenant).namespace }) }
  const [what, ask] = pick(random, [
    ['Query', () => grpc.query({ measurement, format: pick(random, ['ROWS', 'ARROW']), limit: '0' }, { metadata })],
    ['GetSchema', () => grpc.call('GetSchema', { measurement }, { metadata })],
    ['ListMeasurements', () => grpc.call('ListMeasurements', {}, { metadata })],
    ['ServerInfo', () => grpc.call('ServerInfo', {}, { metadata })],
    ['ExecuteSql', () => grpc.call('ExecuteSql', { query: random() < 0.7 ? pick(random, SQL) : `SELECT * FROM "${measurement}"` }, { metadata })],
  ] as [string, () => Promise<unknown>][])
  const answer = await ask().then(
    (value) => ({
      text: JSON.stringify(value, (_, each) => (each?.type === 'Buffer' ? Buffer.from(each.data).toString('latin1') : each)),
      value,
      refused: false,
    }),
    (error) => ({ text: `${error.code} ${error.details} ${JSON.stringify(error.metadata?.getMap())}`, value: undefined, refused: true }),
  )
  leak(tenant, `gRPC ${what} ${measurement}`, leaksOf(tenant, answer.text))
  if (answer.text.includes(tenant.mark)) got(`gRPC ${what}`)
  if (claims && !answer.refused) leak(tenant, `gRPC ${what}`, ['was answered for another'])
  if (what === 'ServerInfo' && !answer.refused) {
    const count = Number((answer.value as { measurement_count: string }).measurement_count)
    const most = (await node.storage.measurements(tenant.namespace)).length
    if (count > most + 1) leak(tenant, 'ServerInfo', [`${count} measurements of ${most}`])
  }
}

const viaFlight: Act = async ({ flight, random, leak, got, tickets, handles }, tenant) => {
  const { namespace } = other(random, tenant)
  const metadata = { ...tenant.user, ...(random() < 0.1 && { 'x-namespace': namespace }) }
  const query = random() < 0.6 ? pick(random, SQL) : `SELECT * FROM "${names(random, tenant)}"`
  const prepared = handles.length === 0 ? undefined : pick(random, handles)
  const byHandle = prepared === undefined ? command('CommandGetCatalogs', {}) : command('CommandPreparedStatementQuery', { 1: prepared.handle })
  const bodies: (() => Uint8Array)[] = [
    () => command('CommandGetTables', { 1: pick(random, ['', namespace]), 2: '%', 3: pick(random, ['%', LEDGER, guess(random, tenant)]), 5: true }),
    () => command('CommandGetDbSchemas', { 1: namespace }),
    () => command('CommandGetCatalogs', {}),
    () => command('CommandGetPrimaryKeys', { 1: namespace, 3: LEDGER }),
    () => command('CommandStatementQuery', { 1: query }),
    () => command('CommandStatementQuery', { 1: query }),
    () => byHandle,
  ]
  const body = pick(random, bodies)()
  const seen = async (what: string, method: string, request: Uint8Array) => {
    const answer = await flight.call(method, request, metadata)
    const told = [...leaksOf(tenant, Buffer.concat(answer.messages)), ...leaksOf(tenant, `${answer.error?.details} ${JSON.stringify(answer.header.getMap())}`)]
    leak(tenant, `Flight SQL ${what} ${Buffer.from(request).toString('latin1').slice(-80)}`, told)
    if (Buffer.concat(answer.messages).includes(tenant.mark)) got(`Flight SQL ${what}`)
    return answer
  }
  const info = await seen('GetFlightInfo', 'GetFlightInfo', descriptor(body))
  if (info.error === undefined && body === byHandle && prepared !== undefined && prepared.owner !== tenant)
    leak(tenant, 'the statement of another', ['was run'])
  if (info.error === undefined && info.messages.length === 1) tickets.push(...infoOf(info.messages[0]).tickets)
  await seen('GetSchema', 'GetSchema', descriptor(body))
  if (tickets.length > 0) await seen('DoGet', 'DoGet', message({ 1: pick(random, tickets) }))
  await seen('a path', 'GetFlightInfo', descriptor(pick(random, [LEDGER, `${namespace}/${LEDGER}`, guess(random, tenant)])))
  await seen('ListFlights', 'ListFlights', message({ 1: pick(random, ['', '%', `${namespace}%`]) }))
}

const prepared: Act = async ({ flight, random, leak, got, handles, tickets }, tenant) => {
  const act = async (type: string, body: Uint8Array) => {
    const answer = await flight.call('DoAction', message({ 1: type, 2: body }), tenant.user)
    leak(tenant, type, [...leaksOf(tenant, Buffer.concat(answer.messages)), ...leaksOf(tenant, `${answer.error?.details}`)])
    return answer
  }
  const text = pick(random, [`SELECT * FROM ${LEDGER} WHERE owner = '${tenant.mark}'`, `SELECT *, '${tenant.mark}' FROM ${LEDGER} WHERE n = ?`, LEDGER])
  const made = await act('CreatePreparedStatement', command('ActionCreatePreparedStatementRequest', { 1: text }))
  const result = made.messages.length === 1 ? field(made.messages[0], 1) : undefined
  if (result !== undefined) got('prepared statements')
  if (result !== undefined) handles.push({ owner: tenant, handle: field(field(result, 2) as Uint8Array, 1) as Uint8Array })
  if (handles.length > 0) {
    const { owner, handle } = pick(random, handles)
    const bound = await flight.put('DoPut', [message({ 1: descriptor(command('CommandPreparedStatementQuery', { 1: handle })) })], tenant.user)
    leak(tenant, 'values of a statement', [...leaksOf(tenant, Buffer.concat(bound.messages)), ...leaksOf(tenant, `${bound.error?.details}`)])
    if (bound.error === undefined && owner !== tenant) leak(tenant, 'values for the statement of another', ['were taken'])
    if (random() < 0.3) await act('ClosePreparedStatement', command('ActionClosePreparedStatementRequest', { 1: handle }))
  }
  if (tickets.length > 0 && random() < 0.3) await act('CancelFlightInfo', message({ 1: message({ 3: message({ 1: message({ 1: pick(random, tickets) }) }) }) }))
  const { namespace } = other(random, tenant)
  await act('SetSessionOptions', message({ 1: message({ 1: 'catalog', 2: message({ 1: namespace }) }) }))
  await act('GetSessionOptions', new Uint8Array(0))
}

const stream: Act = async ({ node, random, leak, got, places }, tenant) => {
  if (tenant.streams.length > 1) {
    const ended = tenant.streams.shift() as EventClient
    await ended.close()
    leak(tenant, 'the change stream', leaksOf(tenant, JSON.stringify(ended.events)))
    for (const { event } of ended.events) got(`event ${event}`)
    if (ended.lastId !== '') places.push(ended.lastId)
  }
  const query = pick(random, [
    '',
    `?measurement=${LEDGER},${guess(random, tenant)}`,
    '?event_type=point_written',
    '?event_type=measurement_dropped,measurement_restored',
  ])
  const headers = { ...tenant.user, ...(places.length > 0 && random() < 0.8 && { 'last-event-id': pick(random, places) }) }
  try {
    tenant.streams.push(await EventClient.open(`${node.url}/api/v1/cdc/stream${query}`, headers))
  } catch (error) {
    leak(tenant, 'the change stream', leaksOf(tenant, String(error)))
  }
}

const subscribe: Act = async ({ grpc, random, leak, got, positions }, tenant) => {
  if (tenant.subscriptions.length > 1) {
    const ended = tenant.subscriptions.shift()
    ended?.stream.cancel()
    for (const each of ended?.messages ?? []) {
      positions.push(each.position)
      got(`change ${each.kind}`)
      const bytes = Object.values(each).filter((value) => Buffer.isBuffer(value)) as Buffer[]
      leak(tenant, 'Subscribe', [...leaksOf(tenant, JSON.stringify(each)), ...bytes.flatMap((part) => leaksOf(tenant, part))])
    }
  }
  const claims: Record<string, string> = random() < 0.1 ? { 'x-namespace': other(random, tenant).namespace } : {}
  const after = positions.length > 0 && random() < 0.8 ? pick(random, positions) : ''
  const measurements = random() < 0.3 ? [LEDGER, guess(random, tenant)] : []
  const subscription = grpc.subscribe({ after, measurements }, { metadata: { ...tenant.user, ...claims } })
  void subscription.ended.then(({ details }) => leak(tenant, 'Subscribe', leaksOf(tenant, details)))
  tenant.subscriptions.push(subscription)
}

const get = (url: string) => ({ method: 'GET' as const, url })
const post = (url: string, payload: object) => ({ method: 'POST' as const, url, payload })

/** Definitions by others' names, and of what they do; those of a tenant's own have a name that is its mark's. */
const definitions: Act = async ({ node, random, leak, got, ids }, tenant) => {
  const { mark, namespace } = other(random, tenant)
  const kept = `keep_${mark}`
  tenant.said.add(kept).add(`${mark}_m1`)
  const mine = `mine_${tenant.mark}_${Math.floor(random() * 4)}`
  const hidden = pick(random, [`${mark}_m1`, `${namespace}/${LEDGER}`, `${namespace}.${LEDGER}`])
  const trigger = (query: string) => post('/api/v1/triggers', { query })
  const asks = [
    trigger('SHOW TRIGGERS'),
    trigger(`DROP TRIGGER ${kept}`),
    trigger(`ALTER TRIGGER ${kept} DISABLE`),
    trigger(`CREATE TRIGGER ${mine} ON "${hidden}" WHEN value > 0`),
    trigger(`CREATE TRIGGER ${mine} ON SIGNALS (${kept}, keep_${tenant.mark}) WITHIN INTERVAL '5m' BY (owner)`),
    trigger(`DROP TRIGGER ${mine}`),
    get('/api/v1/triggers'),
    get('/api/v1/signals?limit=100'),
    get('/api/v1/annotations?from=0&limit=1000'),
    get('/api/v1/rollups'),
    get(`/api/v1/rollups/${kept}`),
    get(`/api/v1/rollups/${kept}/query`),
    post(`/api/v1/rollups/${kept}/refresh`, {}),
    { method: 'DELETE' as const, url: `/api/v1/rollups/${kept}` },
    post('/api/v1/rollups', { name: mine, source_measurement: hidden, target_measurement: `${mine}_1h`, every: '1h', aggregations: ['max'] }),
    post('/api/v1/rollups', { name: mine, source_measurement: LEDGER, target_measurement: `${mine}_1h`, every: '1m', aggregations: ['max'] }),
    { method: 'DELETE' as const, url: `/api/v1/rollups/${mine}` },
    get('/api/v1/analytics/derived'),
    get(`/api/v1/analytics/derived/${kept}`),
    { method: 'DELETE' as const, url: `/api/v1/analytics/derived/${kept}` },
    post('/api/v1/analytics/derived', { name: mine, query: `SELECT _time, value FROM "${hidden}" WHERE _time >= $1 AND _time < $2` }),
    { method: 'DELETE' as const, url: `/api/v1/analytics/derived/${mine}` },
    post('/api/v1/analytics/anomalies', { measurement: hidden, field: 'value' }),
    get(`/api/v1/measurements/${encodeURIComponent(hidden)}/schema`),
    get('/api/v1/connectors'),
    post('/api/v1/export/parquet', {
      measurement: pick(random, [LEDGER, hidden]),
      output_path: pick(random, ['shared', `../${namespace}/shared`, `${namespace}/shared`]),
    }),
    post('/api/v1/svc/sql', { query: pick(random, SQL) }),
    get(`/api/v1/query?${new URLSearchParams({ query: pick(random, PROMQL) })}`),
    get(`/api/v1/query_exemplars?${new URLSearchParams({ query: pick(random, PROMQL), start: '0', end: '9999999999' })}`),
    get('/api/v1/metadata'),
    get('/api/v1/status/tsdb?limit=1000'),
  ]
  const admins = [
    get('/api/v1/admin/auth/keys'),
    get('/api/v1/admin/audit'),
    get('/api/v1/admin/webhooks'),
    get('/api/v1/admin/analytics/models'),
    get('/api/v1/admin/schedules'),
    get('/api/v1/namespaces'),
    get(`/api/v1/namespaces/${namespace}/usage`),
    get('/api/v1/admin/nodes'),
    get('/metrics'),
    get('/v1/namespaces'),
    post('/api/v1/admin/auth/keys', { name: `${tenant.mark}-${Math.floor(random() * 3)}`, namespaces: [tenant.namespace] }),
    { method: 'DELETE' as const, url: `/api/v1/admin/auth/keys/${mark}-${Math.floor(random() * 3)}` },
    post('/api/v1/admin/backup', { target_dir: namespace }),
    post('/api/v1/admin/restore', { backup_dir: namespace, target_dir: 'x' }),
    post(`/api/v1/admin/connectors/${mark}-json/dead-letters/replay`, {}),
    post(`/api/v1/admin/webhooks/${namespace}/triggers/${kept}/rearm`, {}),
    get(`/api/v1/admin/agents/runs/${ids.length > 0 ? pick(random, ids) : 'x'}`),
  ]
  // Names that the paths and bodies of these have.
  for (const each of TENANTS) if (each !== tenant) for (let i = 0; i < 3; i++) tenant.said.add(`${each.mark}-${i}`)
  tenant.said.add(`${mark}-json`)
  const isAdmin = random() < 0.3
  const ask = isAdmin ? pick(random, admins) : pick(random, asks)
  const answer = await node.inject({ ...ask, headers: isAdmin ? tenant.admin : tenant.user } as never)
  if (answer.rawPayload.includes(tenant.mark) && answer.statusCode < 300)
    got(`${ask.method} ${ask.url.split('?')[0].replaceAll(tenant.mark, '').replaceAll(/\d+/g, '')}`)
  leak(tenant, `${ask.method} ${ask.url} ${JSON.stringify('payload' in ask ? ask.payload : '')}`, [
    ...leaksOf(tenant, answer.rawPayload),
    ...leaksOf(tenant, JSON.stringify(answer.headers)),
    ...(answer.statusCode >= 500 && answer.statusCode !== 503 ? [`${answer.statusCode} ${answer.body}`] : []),
  ])
}

/** The operator API: events of all tenants have the same ids, and ids of runs are tried by all. */
const plane: Act = async ({ node, random, leak, got, ids }, tenant) => {
  const headers = { authorization: `Bearer ${tenant.operator}` }
  const seen = async (method: string, url: string, payload?: object) => {
    const answer = await node.inject({ method, url: `/api/v1/plane${url}`, headers, ...(payload !== undefined && { payload }) } as never)
    leak(tenant, `${method} ${url}`, leaksOf(tenant, answer.rawPayload))
    for (const [id] of answer.body.matchAll(/[0-9a-f]{8}-[0-9a-f-]{27}|\b[0-9A-HJKMNP-TV-Z]{26}\b/g)) ids.push(id)
    return answer
  }
  const id = `e${Math.floor(random() * 20)}`
  const payload = { words: `${tenant.mark} words` }
  const { statusCode, body } = await seen('POST', '/events', { kind: 'test.event', id, payload, correlation: [{ namespace: 'n', value: id }] })
  if (statusCode === 200 && body.includes('duplicate') !== tenant.events.has(id)) leak(tenant, `event ${id}`, [`${body}: it was taken for that of another`])
  if (statusCode === 200) tenant.events.add(id)
  const { method, path } = pick(random, OPERATIONS)
  const answer = await seen(method, path.replace(/\{\w+\}/, ids.length > 0 ? pick(random, ids) : 'x'), method === 'GET' ? undefined : {})
  if (answer.statusCode < 300) got('the operator API')
}

export const READS: Record<string, Act> = { viaGrpc, viaFlight, prepared, stream, subscribe, definitions, plane }
