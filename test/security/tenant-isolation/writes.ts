/** Writes by all protocols, some of which say that they are another's. */
import { Float64, TimestampNanosecond, Utf8 } from 'apache-arrow'
import { command, descriptor, message } from '../../../plugins/flight_sql/testing.ts'
import { flightStream } from '../../../plugins/flight_sql/testing-stream.ts'
import { point } from '../../../plugins/grpc/testing.ts'
import { encode } from '../../../plugins/sparkplug_b/testing.ts'
import { guess, LEDGER, numberOf, other, pick, type Tenant, type World } from './world.ts'

type Act = (world: World, tenant: Tenant) => Promise<void>

const nanos = (): bigint => BigInt(Date.now()) * 1_000_000n
const row = (tenant: Tenant, n: number) => ({
  tags: { owner: tenant.mark, n: String(n) },
  fields: { value: numberOf(tenant, n), note: `${tenant.mark} words ${n}` },
})
function lineOf(tenant: Tenant, n: number, measurement = LEDGER): string {
  const { tags, fields } = row(tenant, n)
  return `${measurement},owner=${tags.owner},n=${n} value=${fields.value},note="${fields.note}" ${nanos()}`
}

/** Ways to say in a request of HTTP that it is another's. All but the header are about databases, which this node does not know. */
const CLAIMS = (namespace: string): { url: string; headers: Record<string, string> }[] => [
  { url: '/write', headers: { 'x-namespace': namespace } },
  { url: `/write?db=${namespace}`, headers: {} },
  { url: `/api/v2/write?bucket=${namespace}&org=${namespace}`, headers: {} },
  { url: `/api/v3/write_lp?db=${namespace}`, headers: {} },
  { url: `/write?namespace=${namespace}`, headers: {} },
  { url: '/write', headers: { 'x-scope-orgid': namespace, 'x-tenant': namespace, 'x-forwarded-namespace': namespace } },
]

const http: Act = async ({ node, random, leak }, tenant) => {
  const n = tenant.number()
  const { url, headers } = random() < 0.5 ? { url: '/write', headers: {} } : pick(random, CLAIMS(other(random, tenant).namespace))
  const answer = await node.inject({ method: 'POST', url, payload: lineOf(tenant, n), headers: { 'content-type': 'text/plain', ...headers, ...tenant.user } })
  if (answer.statusCode < 300) tenant.written.add(n)
  if ('x-namespace' in headers && answer.statusCode !== 403) leak(tenant, `${url} ${JSON.stringify(headers)}`, [`answered ${answer.statusCode}`])
}

/** Names that would be another's if they were put together without care. */
const hostileName = (random: () => number, tenant: Tenant): string => {
  const { namespace } = other(random, tenant)
  return pick(random, [
    `${namespace}/${LEDGER}`,
    `${namespace}.${LEDGER}`,
    `../${namespace}/${LEDGER}`,
    `${namespace}:${LEDGER}`,
    `"${namespace}"."${LEDGER}"`,
    `${namespace}\u0001${LEDGER}`,
    `${LEDGER}@${namespace}`,
  ])
}

const named: Act = async ({ node, grpc, random, leak }, tenant) => {
  const measurement = hostileName(random, tenant)
  const n = tenant.number()
  const { tags, fields } = row(tenant, n)
  const answer = await node.inject({
    method: 'POST',
    url: '/api/v1/write',
    payload: [{ measurement, tags: { ...tags, namespace: 'x' }, fields, namespace: 'x' }],
    headers: tenant.user,
  })
  leak(tenant, `write to ${measurement}`, [])
  if (answer.statusCode >= 500) leak(tenant, `write to ${measurement}`, [answer.body])
  await grpc.call('Write', { points: [point(measurement, nanos(), tags, fields)] }, { metadata: tenant.user }).catch(() => {})
}

const viaGrpc: Act = async ({ grpc, random, leak }, tenant) => {
  const n = tenant.number()
  const { tags, fields } = row(tenant, n)
  const claims = random() < 0.3
  const metadata = { ...tenant.user, ...(claims && { 'x-namespace': other(random, tenant).namespace }) }
  // Keys of repeats are the same for all tenants: whoever comes second is no repeat of the first.
  const dedup_key = `same-${n}`
  const points = [point(LEDGER, nanos(), tags, fields)]
  try {
    if (random() < 0.5) {
      const { duplicate } = await grpc.call('Write', { points, dedup_key }, { metadata })
      if (duplicate) leak(tenant, 'a write by gRPC', ['was taken for a repeat of another'])
    } else {
      const { stream, answer } = grpc.streamWrite({ metadata })
      stream.on('error', () => {}) // told by the answer
      stream.write({ points, dedup_key })
      stream.end()
      const { total_written } = await answer
      if (Number(total_written) !== 1) leak(tenant, 'a write by gRPC', [`wrote ${total_written}: it was taken for a repeat of another`])
    }
    if (claims) leak(tenant, 'a write by gRPC', ['was taken for another'])
    tenant.written.add(n)
  } catch (error) {
    if (!claims) leak(tenant, 'a write by gRPC', [String(error)])
  }
}

const viaFlight: Act = async ({ flight, random, leak, handles }, tenant) => {
  const n = tenant.number()
  const { tags, fields } = row(tenant, n)
  const { namespace } = other(random, tenant)
  const claims = pick(random, ['', '', '', 'header', 'catalog', 'schema', 'handle'])
  const columns = [
    { name: '_time', type: new TimestampNanosecond(), values: [nanos()] },
    { name: 'owner', type: new Utf8(), values: [tags.owner], role: 'tag' },
    { name: 'n', type: new Utf8(), values: [tags.n], role: 'tag' },
    { name: 'value', type: new Float64(), values: [fields.value] },
    { name: 'note', type: new Utf8(), values: [fields.note], role: 'field' },
  ]
  const to =
    claims === 'catalog' || claims === 'schema'
      ? command('CommandStatementIngest', { 1: message({ 1: 1, 2: 2 }), 2: LEDGER, ...(claims === 'catalog' ? { 4: namespace } : { 3: namespace }) })
      : claims === 'handle' && handles.length > 0
        ? command('CommandPreparedStatementUpdate', { 1: pick(random, handles).handle })
        : command('CommandStatementUpdate', { 1: LEDGER })
  const answer = await flight.put('DoPut', flightStream(descriptor(to), [columns]), {
    ...tenant.user,
    ...(claims === 'header' && { 'x-namespace': namespace }),
  })
  if (answer.error === undefined) tenant.written.add(n)
  const refused = claims === 'header' || claims === 'catalog' || claims === 'schema'
  if (refused === (answer.error === undefined)) leak(tenant, `DoPut (${claims})`, [`${answer.error?.details ?? 'was taken'}`])
}

const viaMqtt: Act = async ({ publisher, random }, tenant) => {
  const n = tenant.number()
  const { tags, fields } = row(tenant, n)
  const { namespace } = other(random, tenant)
  const levels = random() < 0.5 ? '' : `/${namespace}/${guess(random, tenant)}`
  const kind = pick(random, ['json', 'claims', 'line', 'broken'])
  const body =
    kind === 'line'
      ? lineOf(tenant, n)
      : kind === 'broken'
        ? `{"measurement": "${tenant.mark}_m2", "${namespace}`
        : JSON.stringify({ measurement: LEDGER, tags, fields, ...(kind === 'claims' && { namespace }) })
  await publisher.publishAsync(`${tenant.mark}/${kind === 'line' ? 'l' : 'j'}${levels}/x`, body, { qos: 1 })
  if (kind === 'claims') tenant.doubtful.add(n)
  else if (kind !== 'broken') tenant.written.add(n)
}

/** Edge nodes of all tenants have one name, and their metrics one alias. */
const viaSparkplug: Act = async ({ publisher, random }, tenant) => {
  const n = tenant.number()
  const { fields } = row(tenant, n)
  const send = (type: string, metrics: { name?: string; alias?: number; type: string; value: unknown }[], seq: number) =>
    publisher.publishAsync(`spBv1.0/${tenant.mark}/${type}/edge`, Buffer.from(encode({ timestamp: Date.now(), seq, metrics })), { qos: 1 })
  if (random() < 0.5)
    await send(
      'NBIRTH',
      [
        { name: 'bdSeq', type: 'UInt64', value: 0 },
        { name: `${tenant.mark}_metric`, alias: 1, type: 'Double', value: fields.value },
      ],
      0,
    )
  await send('NDATA', [{ alias: 1, type: 'Double', value: fields.value }], 1)
}

const viaKafka: Act = async ({ kafka, random }, tenant) => {
  const n = tenant.number()
  const { tags, fields } = row(tenant, n)
  const { namespace } = other(random, tenant)
  const kind = pick(random, ['json', 'json', 'json', 'claims', 'broken'])
  const value = kind === 'broken' ? `{"${namespace}` : JSON.stringify({ measurement: LEDGER, tags, fields, ...(kind === 'claims' && { namespace }) })
  kafka.get(tenant)?.add(0, { value, headers: { namespace: Buffer.from(namespace), 'x-namespace': Buffer.from(namespace) } })
  if (kind === 'claims') tenant.doubtful.add(n)
  else if (kind !== 'broken') tenant.written.add(n)
}

const deletes: Act = async ({ node, grpc, random, leak }, tenant) => {
  const { namespace, mark } = other(random, tenant)
  tenant.said.add(`${mark}_m1`)
  const foreign = { ...tenant.user, 'x-namespace': namespace }
  const asks = [
    () => grpc.call('Delete', { measurement: LEDGER }, { metadata: foreign }),
    () => grpc.call('DropMeasurement', { measurement: LEDGER }, { metadata: foreign }),
    () => grpc.call('Delete', { measurement: `${mark}_m1` }, { metadata: tenant.user }),
    () => grpc.call('DropMeasurement', { measurement: `${mark}_m1` }, { metadata: tenant.user }),
    () => grpc.call('DropMeasurement', { measurement: `${namespace}/${LEDGER}` }, { metadata: tenant.user }),
    async () => {
      const { statusCode, body } = await node.inject({ method: 'DELETE', url: `/api/v1/measurements/${mark}_m1`, headers: tenant.user })
      if (statusCode < 400) throw new Error('dropped')
      return body
    },
  ]
  const answer = await pick(random, asks)().then(JSON.stringify, (error) => `${error.code} ${error.details ?? error.message}`)
  leak(tenant, 'a delete', answer.includes('dropped') ? [answer] : [])
}

/** What it has itself, under a name that nobody guesses, comes and goes. */
const own: Act = async ({ node, grpc, random }, tenant) => {
  const measurement = `${tenant.mark}_m2`
  const write = () =>
    node.inject({
      method: 'POST',
      url: '/write',
      payload: lineOf(tenant, tenant.number(), measurement),
      headers: { 'content-type': 'text/plain', ...tenant.user },
    })
  if (random() < 0.6) await write()
  else if (random() < 0.5)
    await grpc.call('Delete', { measurement, tag_filters: [{ key: 'owner', value: tenant.mark }] }, { metadata: tenant.user }).catch(() => {})
  else {
    await grpc.call('DropMeasurement', { measurement }, { metadata: tenant.user }).catch(() => {})
    await node.inject({ method: 'POST', url: `/api/v1/measurements/${measurement}/restore`, headers: tenant.user })
    await write()
  }
}

export const WRITES: Record<string, Act> = { http, named, viaGrpc, viaFlight, viaMqtt, viaSparkplug, viaKafka, deletes, own }
