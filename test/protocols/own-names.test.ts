/** Names that every object of JavaScript has already, and other strange ones, are names like others: as measurement, tag, value and field, through every protocol and query. */
import { setTimeout } from 'node:timers/promises'
import { tableFromIPC } from 'apache-arrow'
import { compressSync } from 'snappy'
import { boot, type TestNode } from 'svcdb/testkit'
import t, { type Test } from 'tap'
import { EventClient } from '../../plugins/cdc/testing.ts'
import { type Message, point, TestClient } from '../../plugins/grpc/testing.ts'
import { writeRequest } from '../../plugins/remote_write/testing-wire.ts'

const INHERITED = [...Object.getOwnPropertyNames(Object.prototype), 'prototype', 'length', 'then', 'toJSON', 'arguments', 'caller']
const NAMES = [...INHERITED, '\ufeffmark', 'ключ', 'a b', 'q"uote', 'null', 'undefined', 'NaN', '0', '1e3', '-1']
const BASE = BigInt(Date.now() - 60_000) * 1_000_000n

interface Row {
  measurement: string
  tags: Record<string, string>
  fields: Record<string, number>
}

/** What is written of a name, each at its own time: as measurement and value of a tag; as tag, and a series without it; as field, and a row without it. */
function rowsOf(name: string, i: number, { fields: field, value = 'value' }: Writer): Row[] {
  const rows: Row[] = [
    { measurement: name, tags: { host: name }, fields: { [value]: 1 } },
    { measurement: `t${i}`, tags: own(name, 'x'), fields: { [value]: 2 } },
    { measurement: `t${i}`, tags: { other: 'y' }, fields: { [value]: 3 } },
  ]
  if (field) rows.push({ measurement: `f${i}`, tags: {}, fields: own(name, 4) }, { measurement: `f${i}`, tags: {}, fields: { w: 5 } })
  return rows
}

/** With a member of that name, also where an assignment would set a prototype. */
const own = <V>(name: string, value: V): Record<string, V> => Object.fromEntries([[name, value]])
const said = ({ measurement, tags, fields }: Row): string => JSON.stringify([measurement, Object.entries(tags).sort(), Object.entries(fields).sort()])
const escaped = (name: string): string => name.replaceAll(/[, =\\]/g, '\\$&')
const nanos = (i: number, row: number): bigint => BASE + BigInt(i * 10 + row) * 1_000_000n
const quoted = (name: string): string => `"${name.replaceAll('"', '""')}"`
const json = 'application/json'

type Write = (node: TestNode, grpc: TestClient, rows: readonly Row[], i: number) => Promise<string>

async function post(node: TestNode, url: string, payload: string | Buffer, type = json): Promise<string> {
  const answer = await node.inject({ method: 'POST', url, headers: payload === '' ? {} : { 'content-type': type }, payload })
  return `${answer.statusCode} ${answer.body}`
}

interface Writer {
  /** Whether it names fields, or has one of its own. */
  fields: boolean
  value?: string
  write: Write
}

const WRITERS: Record<string, Writer> = {
  line_protocol: {
    fields: true,
    write: (node, _, rows, i) => {
      const pairs = (of: Record<string, unknown>): string[] =>
        Object.entries(of).map(([key, value]) => `${escaped(key)}=${typeof value === 'string' ? escaped(value) : value}`)
      const lines = rows.map(
        ({ measurement, tags, fields }, row) => `${[escaped(measurement), ...pairs(tags)].join(',')} ${pairs(fields).join(',')} ${nanos(i, row)}`,
      )
      // A mark at the beginning would be that of the body.
      return post(node, '/write', `\n${lines.join('\n')}`, 'text/plain')
    },
  },
  native: {
    fields: true,
    write: (node, _, rows, i) =>
      post(node, '/api/v1/write', `[${rows.map((row, n) => `${JSON.stringify(row).slice(0, -1)},"timestamp":${nanos(i, n)}}`).join()}]`),
  },
  grpc: {
    fields: true,
    write: async (_, grpc, rows, i) => {
      await grpc.call('Write', { points: rows.map(({ measurement, tags, fields }, row) => point(measurement, nanos(i, row), tags, fields)) })
      return '204'
    },
  },
  remote_write: {
    fields: false,
    write: (node, _, rows, i) => {
      const series = rows.map(({ measurement, tags, fields }, row) => ({
        labels: ([['__name__', measurement], ...Object.entries(tags)] as [string, string][]).sort(([a], [b]) => (Buffer.from(a) < Buffer.from(b) ? -1 : 1)),
        samples: [{ ms: nanos(i, row) / 1_000_000n, value: fields.value }],
      }))
      return post(node, '/api/v1/prom/write', compressSync(Buffer.from(writeRequest(series))), 'application/x-protobuf')
    },
  },
  otlp: {
    fields: false,
    value: 'gauge',
    write: (node, _, rows, i) => {
      const metrics = rows.map(({ measurement: name, tags, fields }, row) => {
        const attributes = Object.entries(tags).map(([key, stringValue]) => ({ key, value: { stringValue } }))
        return { name, unit: 'constructor', gauge: { dataPoints: [{ attributes, timeUnixNano: String(nanos(i, row)), asDouble: fields.gauge }] } }
      })
      return post(node, '/v1/metrics', JSON.stringify({ resourceMetrics: [{ scopeMetrics: [{ metrics }] }] }))
    },
  },
}

async function nativeRows(node: TestNode, measurement: string, tags = {}): Promise<string[]> {
  const answer = await node.inject({
    method: 'POST',
    url: '/api/v1/svc/query',
    headers: { 'content-type': json },
    payload: JSON.stringify({ measurement, tags }),
  })
  if (answer.statusCode !== 200) return [answer.body]
  return JSON.parse(answer.body).map((row: Row) => said({ ...row, measurement }))
}

async function grpcRows(grpc: TestClient, measurement: string, tags: Record<string, string> = {}): Promise<string[]> {
  const request = { measurement, tag_filters: Object.entries(tags).map(([key, value]) => ({ key, value })), format: 'ROWS' }
  const pairs = (list: Message[], of: (value: Message) => unknown) => Object.fromEntries(list.map(({ key, value }) => [key, of(value)]))
  return (await grpc.query(request)).flatMap(({ rows }) =>
    rows.map((row: Message) =>
      said({ measurement, tags: pairs(row.tags, String), fields: pairs(row.fields, ({ float64 }) => float64) as Record<string, number> }),
    ),
  )
}

/** Columns of an Arrow stream or of SQL, which does not tell tags from fields. */
const cells = (names: readonly string[], rows: readonly (readonly unknown[])[]): string[] =>
  rows.map((row) => JSON.stringify(names.flatMap((name, i) => (name === '_time' || row[i] === null ? [] : [[name, row[i]]])).sort()))
const cellsOf = (rows: readonly Row[]): [string, unknown][][] => rows.map(({ tags, fields }) => [...Object.entries(tags), ...Object.entries(fields)])
const sorted = (rows: [string, unknown][][]): string[] => rows.map((row) => JSON.stringify(row.sort()))

const unmarked = (text: string): string => text.replaceAll('\ufeff', '')

async function arrowRows(grpc: TestClient, measurement: string): Promise<string[]> {
  const parts = await grpc.query({ measurement, format: 'ARROW' })
  const table = tableFromIPC(Buffer.concat(parts.map(({ arrow_ipc }) => arrow_ipc)))
  const names = table.schema.fields.map(({ name }) => name)
  const columns = names.map((_, c) => table.getChildAt(c))
  return cells(
    names,
    Array.from({ length: table.numRows }, (_, row) => columns.map((column) => column?.get(row))),
  )
}

async function sql(node: TestNode, query: string): Promise<{ columns: string[]; rows: unknown[][] }> {
  const answer = await node.inject({ method: 'POST', url: '/api/v1/svc/sql', headers: { 'content-type': json }, payload: JSON.stringify({ query }) })
  if (answer.statusCode !== 200) return { columns: [`${answer.statusCode}`], rows: [[answer.body]] }
  const { columns, rows } = answer.json() as { columns: (string | { name: string })[]; rows: unknown[][] }
  return { columns: columns.map((column) => (typeof column === 'string' ? column : column.name)), rows }
}

// biome-ignore lint/suspicious/noExplicitAny: JSON
async function promql(node: TestNode, path: string): Promise<any> {
  const answer = JSON.parse((await node.inject(`/api/v1/${path}`)).body)
  return answer.data?.result ?? answer.data ?? answer
}

async function readAll(t: Test, node: TestNode, grpc: TestClient, name: string, i: number, writer: Writer): Promise<void> {
  const rows = rowsOf(name, i, writer)
  const { value = 'value' } = writer
  const suffix = value === 'value' ? '' : `_${value}`
  const label = JSON.stringify(name)
  const of = (measurement: string): Row[] => rows.filter((row) => row.measurement === measurement)
  for (const measurement of new Set(rows.map((row) => row.measurement))) {
    const [expected, flat] = [of(measurement).map(said), cellsOf(of(measurement))]
    t.same(await nativeRows(node, measurement), expected, `native query of ${label} in ${measurement}`)
    t.same(await grpcRows(grpc, measurement), expected, `rows by gRPC of ${label} in ${measurement}`)
    // The reader of apache-arrow leaves out a mark at the beginning of a text.
    t.same(
      await arrowRows(grpc, measurement),
      sorted(flat.map((row) => row.map(([key, value]) => [unmarked(key), typeof value === 'string' ? unmarked(value) : value]))),
      `Arrow by gRPC of ${label} in ${measurement}`,
    )
    const { columns, rows: found } = await sql(node, `SELECT * FROM ${quoted(measurement)} ORDER BY _time`)
    t.same(cells(columns, found), sorted(flat), `SQL of ${label} in ${measurement}`)
  }
  const [withTag, without] = of(`t${i}`)
  t.same(await nativeRows(node, `t${i}`, own(name, 'x')), [said(withTag)], `native query where ${label}`)
  t.same(await grpcRows(grpc, `t${i}`, own(name, 'x')), [said(withTag)], `gRPC where ${label}`)
  t.same(await grpcRows(grpc, `t${i}`, own(name, '')), [said(without)], `gRPC where there is no ${label}`)
  const counts = await sql(node, `SELECT ${quoted(name)}, count(*) FROM t${i} GROUP BY 1 ORDER BY 1 NULLS LAST`)
  t.same(counts.rows, [['x', 1], [null, 1]], `SQL by ${label}`) // biome-ignore format: a row each
  t.same((await sql(node, `SELECT ${value} FROM t${i} WHERE ${quoted(name)} = 'x'`)).rows, [[2]], `SQL where ${label}`)
  t.same((await sql(node, `SELECT ${value} FROM t${i} WHERE ${quoted(name)} IS NULL`)).rows, [[3]], `SQL where there is no ${label}`)

  const ask = (query: string) => promql(node, `query?query=${encodeURIComponent(query)}`)
  const metrics = async (query: string) =>
    (await ask(query)).map(({ metric, value }: Message) => JSON.stringify([Object.entries(metric).sort(), value[1]])).sort()
  const metric = (tags: Record<string, string>, value: string, name?: string) =>
    JSON.stringify([[...(name === undefined ? [] : [['__name__', name]]), ...Object.entries(tags)].sort(), value])
  t.same(
    await metrics(`{__name__="t${i}${suffix}"}`),
    [metric(withTag.tags, '2', `t${i}${suffix}`), metric(without.tags, '3', `t${i}${suffix}`)].sort(),
    `PromQL of ${label}`,
  )
  t.same(await metrics(`{${label}="x",__name__="t${i}${suffix}"}`), [metric(withTag.tags, '2', `t${i}${suffix}`)], `PromQL where ${label}`)
  t.same(await metrics(`sum by (${label}) ({__name__="t${i}${suffix}"})`), [metric(own(name, 'x'), '2'), metric({}, '3')].sort(), `PromQL by ${label}`)
  t.same(
    await metrics(`{__name__="t${i}${suffix}"} + on (${label}) group_left {__name__="t${i}${suffix}"}`),
    [metric(withTag.tags, '4'), metric(without.tags, '6')].sort(),
    `PromQL on ${label}`,
  )
  t.same(await metrics(`{__name__=${JSON.stringify(name + suffix)}}`), [metric({ host: name }, '1', name + suffix)], `PromQL of metric ${label}`)
  t.ok((await promql(node, `labels?match[]=${encodeURIComponent(`{__name__="t${i}${suffix}"}`)}`)).includes(name), `${label} among the labels`)
  const series = await promql(node, `series?match[]=${encodeURIComponent(`{__name__="t${i}${suffix}"}`)}`)
  t.ok(JSON.stringify(series).includes(`${label}:"x"`), `${label} among the series`)
}

async function eventually(condition: () => Promise<boolean>): Promise<void> {
  for (let i = 0; i < 6000 && !(await condition()); i++) await setTimeout(10)
}

for (const [protocol, writer] of Object.entries(WRITERS))
  t.test(`strange names by ${protocol}`, async (t) => {
    const { fields, value = 'value', write } = writer
    const plugins = ['native', 'line_protocol', 'remote_write', 'otlp', 'grpc', 'cdc', 'promql', 'sql', 'triggers', 'rollups']
    const config = { grpc: { addr: '127.0.0.1:0' }, triggers: { max_triggers_per_namespace: 1000 }, rollups: {} }
    const node = await boot({ plugins, storage: 'embedded', config })
    const grpc = new TestClient(node.port('grpc'))
    const stream = await EventClient.open(`${node.url}/api/v1/cdc/stream`)
    t.teardown(async () => {
      await stream.close()
      grpc.close()
      await node.stop()
    })
    const written: Row[] = []
    for (const [i, name] of NAMES.entries()) {
      const rows = rowsOf(name, i, writer)
      for (const [trigger, on, condition] of [
        [`tag${i}`, `t${i}`, `${quoted(name)} = 'x'`],
        [`field${i}`, `f${i}`, `${quoted(name)} > 3`],
      ]) {
        const query = `CREATE TRIGGER ${trigger} ON ${on} WHEN ${condition}`
        t.match(await post(node, '/api/v1/triggers', JSON.stringify({ query })), /^200/, query)
      }
      t.match(await write(node, grpc, rows, i), /^20[04]/, `${JSON.stringify(name)} is taken`)
      written.push(...rows)
      if (protocol === 'line_protocol') await readAll(t, node, grpc, name, i, writer)
      else for (const row of rows) t.ok((await nativeRows(node, row.measurement)).includes(said(row)), said(row))
    }
    await node.storage.flush()
    if (protocol === 'line_protocol') for (const [i, name] of NAMES.entries()) await readAll(t, node, grpc, name, i, writer)

    const events = await stream.until(written.length)
    const told = events.map(({ data: { PointWritten: p } }) =>
      said({ ...p, fields: Object.fromEntries(Object.entries(p.fields).map(([key, value]) => [key, (value as { F64: number }).F64])) }),
    )
    t.same(told.sort(), written.map(said).sort(), 'the change stream')

    type Signal = { trigger_name: string; tags: Record<string, string>; value: number }
    const signals = async (): Promise<Signal[]> => JSON.parse((await node.inject('/api/v1/signals?limit=1000')).body)
    const count = NAMES.length * (fields ? 2 : 1)
    await eventually(async () => (await signals()).length >= count)
    const fired = (await signals()).map(({ trigger_name, tags, value }) => JSON.stringify([trigger_name, tags, trigger_name[0] === 'f' ? value : 0])).sort()
    const due = NAMES.flatMap((name, i) => [['tag', own(name, 'x'), 0] as const, ...(fields ? [['field', {}, 4] as const] : [])].map(([kind, ...rest]) => JSON.stringify([`${kind}${i}`, ...rest]))) // biome-ignore format: a list
    t.same(fired, due.sort(), 'signals of triggers')

    if (protocol !== 'line_protocol') return
    for (const unit of INHERITED) {
      const queries = [`SELECT time_bucket('1 ${unit}', _time) FROM t0`, `SELECT _time + INTERVAL '1 ${unit}' FROM t0`]
      for (const query of queries) t.match(await post(node, '/api/v1/svc/sql', JSON.stringify({ query })), /^400/, query)
      const rollup = { name: 'none', source_measurement: 't0', target_measurement: 'none', every: `1${unit}`, aggregations: ['max'] }
      t.match(await post(node, '/api/v1/rollups', JSON.stringify(rollup)), /^4/, `no rollup by ${unit}`)
    }
    for (const [i, name] of NAMES.entries()) {
      for (const source of fields ? ['t', 'f'] : ['t']) {
        const rollup = { name: `r${source}${i}`, source_measurement: `${source}${i}`, target_measurement: `r${source}${i}`, every: '1h', aggregations: ['max'] }
        const more = source === 't' ? { group_by_tags: [name] } : {}
        t.match(await post(node, '/api/v1/rollups', JSON.stringify({ ...rollup, ...more })), /^201/, `a rollup of ${JSON.stringify(name)}`)
        const [start, end] = [BASE - 3_600_000_000_000n, BASE + 3_600_000_000_000n].map(Number)
        t.match(await post(node, `/api/v1/rollups/${rollup.name}/refresh?start=${start}&end=${end}`, ''), /"points_written":[12]/)
        const expected = source === 't' ? [[own(name, 'x'), { [`${value}_max`]: 2 }], [{}, { [`${value}_max`]: 3 }]] : [[{}, { ...own(`${name}_max`, 4), w_max: 5 }]] // biome-ignore format: a row each
        const measurement = rollup.target_measurement
        t.same((await nativeRows(node, measurement)).sort(), expected.map(([tags, fields]) => said({ measurement, tags, fields } as Row)).sort())
        if (source === 'f') continue
        const path = `/api/v1/rollups/${rollup.name}/query?tags=${encodeURIComponent(JSON.stringify(own(name, 'x')))}&start=${start}&end=${end}`
        const { columns, rows } = (await node.inject(path)).json() as { columns: { name: string }[]; rows: unknown[][] }
        t.same([columns.some((column) => (column.name ?? column) === name), rows?.length], [true, 1], `the view of ${JSON.stringify(name)}`)
      }
      t.match(await post(node, '/api/v1/delete', JSON.stringify({ measurement: `t${i}`, tags: own(name, 'x') })), /^20/)
      t.same(
        await nativeRows(node, `t${i}`),
        [said({ measurement: `t${i}`, tags: { other: 'y' }, fields: { [value]: 3 } })],
        `deleted where ${JSON.stringify(name)}`,
      )
    }
  })
