/** One set of rules, whichever protocol points come in by; and what comes in by one is seen through all. */

import { boot, type TestNode } from 'svcdb/testkit'
import t, { type Test } from 'tap'
import { flightClient, flightSql, grpc, grpcClient } from './grpc-protocols.ts'
import { lineProtocol, native, otlp, remoteWrite } from './http-protocols.ts'
import type { Protocol, Sample } from './protocol.ts'

const PROTOCOLS: Protocol[] = [native, lineProtocol, remoteWrite(1), remoteWrite(2), otlp, grpc, flightSql]
const PLUGINS = ['native', 'line_protocol', 'remote_write', 'otlp', 'grpc', 'flight_sql', 'sql', 'promql']
const HOUR = 3_600_000
const now = Math.floor(Date.now() / 1000) * 1000

const sample = (host: string, ms = now, value = 1): Sample => ({ host, ms, value })

async function rows(node: TestNode, query: string): Promise<unknown[][]> {
  const answer = await node.inject({ method: 'POST', url: '/api/v1/svc/sql', payload: { query } })
  return answer.json().rows
}

async function promql(node: TestNode, query: string): Promise<[string, number][]> {
  const answer = await node.inject(`/api/v1/query?query=${encodeURIComponent(query)}&time=${now / 1000}`)
  const { result } = answer.json().data as { result: { metric: { host: string }; value: [number, string] }[] }
  return result.map(({ metric, value }): [string, number] => [metric.host, Number(value[1])]).sort()
}

async function nativeRows(node: TestNode, measurement: string): Promise<unknown[]> {
  const answer = await node.inject({ method: 'POST', url: '/api/v1/svc/query', payload: { measurement } })
  return answer
    .json()
    .map(({ tags, fields }: { tags: { host: string }; fields: { value: number } }) => [tags.host, fields.value])
    .sort()
}

async function grpcRows(node: TestNode, measurement: string): Promise<unknown[]> {
  const messages = await grpcClient(node).query({ measurement, format: 'ROWS' })
  return messages.flatMap(({ rows }) => rows.map((row: GrpcRow) => [row.tags[0].value, row.fields[0].value.float64])).sort()
}

interface GrpcRow {
  tags: { value: string }[]
  fields: { value: { float64: number } }[]
}

async function flightRows(node: TestNode, query: string): Promise<unknown[]> {
  return (await flightClient(node).sql(query)).rows.map(({ host, value }) => [host, value])
}

async function refusedWrites(node: TestNode): Promise<number> {
  return Number(/^svc_write_errors_total\{reason="rejected"\} (\d+)$/m.exec((await node.inject('/metrics')).body)?.[1])
}

/** Whatever refuses a write, in part or whole, it is one failed write. */
const counting = (t: Test, { name, write }: Protocol): Protocol => ({
  name,
  async write(node, measurement, ...more) {
    const before = await refusedWrites(node)
    const answer = await write(node, measurement, ...more)
    t.equal((await refusedWrites(node)) - before, answer.ok ? 0 : 1, `${answer.text.slice(0, 60)}: counted once`)
    return answer
  },
})

for (const plain of PROTOCOLS) {
  t.test(plain.name, async (t) => {
    const protocol = counting(t, plain)
    const listeners = { grpc: { addr: '127.0.0.1:0' }, flight_sql: { addr: '127.0.0.1:0' } }
    const config = { ...listeners, database: { max_series_cardinality: 6 } }
    const node = await boot({ plugins: PLUGINS, storage: 'embedded', config })
    t.teardown(() => node.stop())

    t.match(await protocol.write(node, 'm', [sample('a'), sample('b', now - 1000, 2.5)]), { ok: true })
    const expected = [
      ['a', 1],
      ['b', 2.5],
    ]
    t.same(await rows(node, 'SELECT host, value FROM m ORDER BY host'), expected, 'by SQL')
    t.same(await promql(node, 'm'), expected, 'by PromQL')
    t.same(await nativeRows(node, 'm'), expected, 'by a native query')
    t.same(await grpcRows(node, 'm'), expected, 'by gRPC')
    t.same(await flightRows(node, 'SELECT host, value FROM m ORDER BY host'), expected, 'by Flight SQL')

    t.match(await protocol.write(node, 'm', [sample('a', now, 7)]), { ok: true })
    t.same(await rows(node, "SELECT value FROM m WHERE host = 'a'"), [[7]], 'the last write of a point wins')

    const late = await protocol.write(node, 'm', [sample('a', now + 1), sample('a', now - 100 * HOUR)])
    t.match(late, { ok: false, text: /window.*backfill/s }, 'a point outside the window')
    t.equal(late.code ?? 'PARTIAL_WRITE', 'PARTIAL_WRITE')
    t.equal(late.rejected, 1)
    t.same(await rows(node, 'SELECT count(*) FROM m'), [[3]], 'the good one is stored')

    t.match(await protocol.write(node, 'm', [sample('a', now - 100 * HOUR)], true), { ok: true }, 'backfill admits it')
    t.same(await rows(node, 'SELECT count(*) FROM m'), [[4]])

    const future = await protocol.write(node, 'm', [sample('a', now + 1000 * HOUR), sample('a', now + 2)])
    t.match(future, { ok: false, rejected: 1, text: /future/ }, 'a point of the far future')
    t.match(await protocol.write(node, 'm', [sample('a', now + 1000 * HOUR)], true), { ok: false, text: /future/ }, 'backfill does not admit it')

    await node.storage.declareField('', 'typed', { name: 'value', type: 'string' })
    t.match(await protocol.write(node, 'typed', [sample('a')]), { ok: false, text: /string/ }, 'a field of another type')
    t.same(await rows(node, 'SELECT count(*) FROM typed'), [[0]])

    const many = await protocol.write(
      node,
      'm',
      ['c', 'd', 'e', 'f', 'g', 'h'].map((host) => sample(host, now + 3)),
    )
    t.match(many, { ok: false, text: /max_series_cardinality/ }, 'more series than allowed')
    t.equal(many.rejected, 2)
    t.same(await rows(node, 'SELECT count(DISTINCT host) FROM m'), [[6]], 'those there is room for are stored')

    for (const [what, measurement, host, reason] of [
      ['a tag value with a reserved character', 'm', 'x\u0001y', /reserved|control/],
      ['a tag value that is too long', 'm', 'x'.repeat(5000), /max_tag_value_bytes/],
      ['a name that is too long', 'm'.repeat(257), 'a', /max_name_bytes/],
    ] as const) {
      t.match(await protocol.write(node, measurement, [sample(host, now + 4)]), { ok: false, text: reason }, what)
    }
  })
}
