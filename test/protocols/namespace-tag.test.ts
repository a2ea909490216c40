/** The tag that stands for the namespace is nobody's to write, on any protocol, with namespaces kept apart and without. */
import { Float64, TimestampMillisecond, Utf8 } from 'apache-arrow'
import { compressSync } from 'snappy'
import { boot } from 'svcdb/testkit'
import t from 'tap'
import { command, descriptor } from '../../plugins/flight_sql/testing.ts'
import { flightStream } from '../../plugins/flight_sql/testing-stream.ts'
import { point } from '../../plugins/grpc/testing.ts'
import { writeRequest } from '../../plugins/remote_write/testing-wire.ts'
import { clientsOf } from '../support/clients.ts'

const TAG = '__namespace__'
const REFUSED = /tag key "__namespace__".*reserved for the namespace/

for (const multi_tenancy of [false, true]) {
  t.test(`multi_tenancy = ${multi_tenancy}`, async (t) => {
    const node = await boot({
      plugins: ['native', 'line_protocol', 'remote_write', 'otlp', 'grpc', 'flight_sql'],
      storage: 'embedded',
      config: { server: { multi_tenancy }, grpc: { addr: '127.0.0.1:0' }, flight_sql: { addr: '127.0.0.1:0' } },
    })
    const { grpc, flight } = clientsOf(t, node)
    const ms = Date.now()
    const nanos = BigInt(ms) * 1_000_000n
    const post = async (url: string, type: string, payload: string | Buffer | object): Promise<string> => {
      const answer = await node.inject({ method: 'POST', url, headers: { 'content-type': type }, payload })
      return `${answer.statusCode} ${answer.body.replaceAll('\\"', '"')}`
    }
    const json = 'application/json'
    t.match(await post('/api/v1/write', json, [{ measurement: 'json', tags: { [TAG]: 'other' }, fields: { v: 1 } }]), REFUSED, 'JSON')
    t.match(await post('/write', 'text/plain', `line,${TAG}=other v=1 ${nanos}\nline,host=a v=2 ${nanos}`), REFUSED, 'line protocol')
    const labels = (name: string, tag: string): [string, string][] => [[TAG, tag], ['__name__', name]].sort() as [string, string][] // biome-ignore format: a label each
    const series = [{ labels: labels('remote', 'other'), samples: [{ ms, value: 1 }] }]
    t.match(await post('/api/v1/prom/write', 'application/x-protobuf', compressSync(Buffer.from(writeRequest(series)))), REFUSED, 'remote write')
    const dataPoints = [{ timeUnixNano: String(nanos), asDouble: 1, attributes: [{ key: TAG, value: { stringValue: 'other' } }] }]
    t.match(await post('/v1/metrics', json, { resourceMetrics: [{ scopeMetrics: [{ metrics: [{ name: 'otlp', gauge: { dataPoints } }] }] }] }), REFUSED, 'OTLP')
    const failed = await grpc.call('Write', { points: [point('grpc', nanos, { [TAG]: 'other' }, { v: 1 })] }).then(String, (error: Error) => error.message)
    t.match(failed, REFUSED, 'gRPC')
    const columns = [
      { name: '_time', type: new TimestampMillisecond(), values: [ms] },
      { name: TAG, type: new Utf8(), values: ['other'] },
      { name: 'v', type: new Float64(), values: [1] },
    ]
    const { error } = await flight.put('DoPut', flightStream(descriptor(command('CommandStatementUpdate', { 1: 'flight' })), [columns], []))
    t.match(error?.details, REFUSED, 'Flight SQL')

    const stored = (await node.storage.measurements(multi_tenancy ? 'default' : '')).filter(({ name }) => name !== 'line')
    t.notOk(JSON.stringify(stored).includes(TAG))
    const rows = await node.inject({ method: 'POST', url: '/api/v1/svc/query', payload: { measurement: 'line' } })
    t.match(rows.json(), [{ tags: { host: 'a' }, fields: { v: 2 } }], 'the points beside it are stored')
  })
}
