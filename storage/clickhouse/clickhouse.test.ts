/** Nodes on one ClickHouse: what each protocol and PromQL see, what one node does while another looks away, and a server that cannot be reached. */
import { boot } from 'svcdb/testkit'
import t from 'tap'
import { GIVEN, NO_CLICKHOUSE, startClickHouse } from '../../test/support/clickhouse/clickhouse.ts'
import { testContext } from '../conformance/index.ts'
import { f64, fill, isStored, lines, NOW, NOW_MS, str, type TestPoint, write } from '../conformance/points.ts'
import { Client } from './client.ts'
import { sectionOf } from './config.ts'
import { ClickHouseEngine } from './engine.ts'
import { proxyTo } from './testing/proxy.ts'

let made = 0
const point = (value: number | string, host = 'a', measurement = 'cpu', time = NOW): TestPoint => ({
  measurement,
  tags: { host },
  time,
  fields: { v: typeof value === 'string' ? str(value) : f64(value) },
})
const metric = (measurement: string, value: number | string): TestPoint => ({ ...point(value, 'a', measurement), fields: { value: point(value).fields.v } })
const row = (value: number, host = 'a', time = NOW): string => `{"host":"${host}"} ${time} v=float64:${value}`

async function engineAt(url: string, prefix: string, config: Record<string, unknown> = {}, more: object = {}): Promise<ClickHouseEngine> {
  const engine = new ClickHouseEngine(testContext({ ...config, clickhouse: { ...GIVEN, url, prefix, ...more } }, () => NOW_MS))
  await engine.open()
  return engine
}

t.test('a server that is not there', async (t) => {
  const url = 'http://127.0.0.1:9'
  await t.rejects(engineAt(url, 'none', {}, { write_timeout_secs: 1 }), {
    code: 'OVERLOADED',
    message: /^cannot read in ClickHouse: it is not reached \(ECONNREFUSED\)/,
  })
})

if (NO_CLICKHOUSE !== undefined) t.comment(NO_CLICKHOUSE)
else {
  const server = await startClickHouse()
  t.teardown(() => server.stop())
  const prefix = () => `n${process.pid}_${made++}`
  const nodes = async (count: number, config: Record<string, unknown> = {}): Promise<ClickHouseEngine[]> => {
    const name = prefix()
    // A slow machine takes long for many writes at once.
    return Promise.all(Array.from({ length: count }, () => engineAt(server.url, name, config, { write_timeout_secs: 120 })))
  }
  const close = (engines: readonly ClickHouseEngine[]) => Promise.all(engines.map((engine) => engine.close()))

  t.test('plugins run on it', async (t) => {
    const engine = new ClickHouseEngine(testContext({ clickhouse: { ...server.section, prefix: prefix() } }, Date.now))
    const node = await boot({ plugins: ['line_protocol', 'promql', 'native', 'otlp', 'sql', 'flight_sql'], storage: engine })
    t.teardown(() => node.stop())
    const call = (method: 'GET' | 'POST', url: string, payload?: string | object) => node.inject({ method, url, ...(payload === undefined ? {} : { payload }) })
    const now = Math.floor(Date.now() / 1000)
    const samples = Array.from({ length: 120 }, (_, i) =>
      ['a', 'b'].map((host, k) => `hits,host=${host} value=${i * (k + 1)} ${now - 119 + i}000000000`),
    ).flat()
    t.equal((await call('POST', '/write', samples.join('\n'))).statusCode, 204)
    t.equal((await call('POST', '/write', `cpu,host=a usage=1.5,cores=4i ${now}000000000\ncpu,host=b usage=2.5,text="x" ${now}000000000`)).statusCode, 204)
    t.equal((await call('POST', '/write', 'cpu,host=a usage="text"')).statusCode, 400, 'the types are those of the catalog')
    const value = async (query: string) =>
      (await call('GET', `/api/v1/query?time=${now}&query=${encodeURIComponent(query)}`))
        .json()
        .data.result.map((one: { value: [number, string] }) => one.value[1])
        .sort()
    t.same(await value('round(sum(rate(hits[1m])), 0.001)'), ['3'])
    t.same(await value('sum by (host) (hits)'), ['119', '238'])
    t.same(await value('max(cpu_usage) + on() group_left() sum(cpu_cores)'), ['6.5'])
    t.same((await call('GET', '/api/v1/label/host/values')).json().data, ['a', 'b'])
    t.same(
      (await call('GET', '/api/v1/measurements')).json().items.map(({ name }: { name: string }) => name),
      ['cpu', 'hits'],
    )
    const sql = async (query: string) => (await call('POST', '/api/v1/svc/sql', { query })).json()
    t.match(await sql('SELECT host, max(value) AS top, count(*) AS n FROM hits GROUP BY host ORDER BY host'), {
      columns: [
        { name: 'host', data_type: 'Utf8' },
        { name: 'top', data_type: 'Float64' },
        { name: 'n', data_type: 'Int64' },
      ],
      rows: [
        ['a', 119, 120],
        ['b', 238, 120],
      ],
      truncated: false,
    })
    t.match(await sql('SELECT * FROM nothing'), { code: 'SQL_ERROR', error: /there is none of that name/ })
  })

  t.test('two nodes that begin the same measurements with different types at once: each has one type, and all that was taken is there', async (t) => {
    const engines = await nodes(3)
    const names = Array.from({ length: 8 }, (_, i) => `m${i}`)
    const results = await Promise.all(
      engines.flatMap((engine, i) => names.map((name) => write(engine, [i === 1 ? metric(name, 'text') : metric(name, i), point(i, `h${i}`, name)]))),
    )
    const written = results.reduce((sum, result) => sum + result.written, 0)
    const refused = results.flatMap(({ rejections }) => rejections.map(({ code }) => code))
    t.equal(written + refused.length, engines.length * names.length * 2)
    t.same(new Set(refused), new Set(['SCHEMA_ERROR']))
    for (const engine of engines) {
      t.equal((await engine.measurements('default')).length, names.length)
      const schema = JSON.stringify(await engine.measurements('default'))
      t.equal(schema, JSON.stringify(await engines[0].measurements('default')), 'all nodes see the same')
    }
    await close(engines)
  })

  t.test('what one node drops and restores the others find dropped and restored', async (t) => {
    const engines = await nodes(2, { soft_delete_ttl_secs: 86_400 })
    const [a, b] = engines
    await write(a, [point(1)])
    await write(b, [point(2, 'b')])
    t.same(await lines(a, { measurement: 'cpu' }), [row(1), row(2, 'b')])
    await a.drop('default', 'cpu')
    await t.rejects(lines(b, { measurement: 'cpu' }), { code: 'NOT_FOUND' })
    await b.restore('default', 'cpu')
    t.same(await lines(a, { measurement: 'cpu' }), [row(1), row(2, 'b')])
    await a.drop('default', 'cpu', { final: true })
    await b.measurements('default')
    t.match(await write(b, [point('text')]), { written: 1 }, 'its name is free for another type')
    t.same(await lines(a, { measurement: 'cpu' }), [`{"host":"a"} ${NOW} v=string:"text"`])
    await close(engines)
  })

  t.test('a node that has not heard of a drop refuses the rows, and stores them the next time', async (t) => {
    const engines = await nodes(2)
    const [a, b] = engines
    await write(b, [point(1)])
    // It is asked before its catalog is read again.
    const { batch } = fill(b, [point(2)])
    await a.drop('default', 'cpu', { final: true })
    // On a slow machine it has heard of the drop in time, and begun the measurement anew.
    await isStored(b.write(batch))
    t.match(await write(b, [point(3)]), { written: 1 })
    t.same(await lines(a, { measurement: 'cpu' }), [row(3)])
    await close(engines)
  })

  t.test('a table that a node has made for a measurement that was gone is removed', async (t) => {
    const name = prefix()
    const [a, b] = [await engineAt(server.url, name), await engineAt(server.url, name)]
    await write(a, [point(1)])
    await b.measurements('default')
    const { batch } = fill(b, [point(2)])
    await a.drop('default', 'cpu', { final: true })
    const written = await isStored(b.write(batch))
    await b.maintain()
    const client = new Client(sectionOf({ clickhouse: server.section }))
    const counted: bigint[] = []
    const select = `SELECT toUInt64(count()) FROM system.tables WHERE database = '${name}_n_default' AND name LIKE 'm!_%' ESCAPE '!'`
    for await (const { columns } of client.blocks(select)) counted.push(new BigUint64Array(columns[0].bytes.buffer)[0])
    // It may have heard of the drop in time, and begun the measurement anew.
    t.same(counted, [written ? 1n : 0n])
    await client.close()
    await close([a, b])
  })

  t.test('series that one node gives back are stored again by a node that writes to them', async (t) => {
    const engines = await nodes(2)
    const [a, b] = engines
    await write(b, [point(1), point(1, 'b'), metric('up', 1)])
    await a.delete({ namespace: 'default', measurement: 'cpu' })
    await a.delete({ namespace: 'default', measurement: 'up' })
    t.match(await write(b, [point(2), metric('up', 2)]), { written: 2, rejected: 0 })
    for (const engine of engines) {
      t.same(await lines(engine, { measurement: 'cpu' }), [row(2)])
      t.same(await lines(engine, { measurement: 'up' }), [`{"host":"a"} ${NOW} value=float64:2`])
    }
    await close(engines)
  })

  t.test('a metric that gets a second field keeps what the shared table has of it', async (t) => {
    const engines = await nodes(1)
    const [engine] = engines
    await write(engine, [metric('up', 1), metric('down', 5)])
    await write(engine, [{ ...metric('up', 2), time: NOW + 1n, fields: { value: f64(2), more: str('x') } }])
    await write(engine, [{ ...metric('up', 0), fields: { more: str('y') } }])
    t.same(await lines(engine, { measurement: 'up' }), [
      `{"host":"a"} ${NOW} more=string:"y" value=float64:1`,
      `{"host":"a"} ${NOW + 1n} more=string:"x" value=float64:2`,
    ])
    t.same(await lines(engine, { measurement: 'up', fields: ['value'] }), [`{"host":"a"} ${NOW} value=float64:1`, `{"host":"a"} ${NOW + 1n} value=float64:2`])
    t.same(await lines(engine, { measurement: 'down' }), [`{"host":"a"} ${NOW} value=float64:5`])
    await close(engines)
  })

  t.test('a server that goes away and comes back: reads and writes say so, and what was refused can be sent again', async (t) => {
    let away = false
    const proxy = await proxyTo(server.url, (_, forward, from) => (away ? void from.socket.destroy() : forward()))
    t.teardown(() => proxy.close())
    const engine = await engineAt(proxy.url, prefix(), {}, { write_timeout_secs: 5 })
    t.match(await write(engine, [point(1)]), { written: 1 })
    away = true
    await t.rejects(write(engine, [point(2)]), { code: 'OVERLOADED', message: /^cannot write in ClickHouse: it is not reached / })
    await t.rejects(lines(engine, { measurement: 'cpu' }), { code: 'OVERLOADED', message: /^cannot read in ClickHouse: it is not reached / })
    away = false
    t.match(await write(engine, [point(2)]), { written: 1 })
    t.same(await lines(engine, { measurement: 'cpu' }), [row(2)])
    await engine.close()
  })

  t.test('rows that wait are bounded: above it a write is refused at once', async (t) => {
    let hold = Promise.resolve()
    const proxy = await proxyTo(server.url, (statement, forward) => void (/^INSERT INTO \S+\.m_/.test(statement) ? hold.then(() => forward()) : forward()))
    t.teardown(() => proxy.close())
    const engine = await engineAt(proxy.url, prefix(), {}, { max_waiting_bytes: 1_048_576 })
    await write(engine, [point(1)], { namespace: '' })
    const held = Promise.withResolvers<void>()
    hold = held.promise
    const big = (n: number): TestPoint[] =>
      Array.from({ length: 100 }, (_, i) => ({ ...point('x'.repeat(10_000)), measurement: 'text', time: NOW + BigInt(n * 100 + i) }))
    // Without a name it is the only one.
    const whole = { namespace: '' }
    const first = write(engine, big(0), whole)
    const second = write(engine, big(1), whole)
    await t.rejects(
      async () => {
        for (let n = 2; n < 10; n++) await Promise.race([write(engine, big(n), whole), new Promise((resolve) => setTimeout(resolve, 100))])
      },
      { code: 'BACKPRESSURE', message: /clickhouse\.max_waiting_bytes is 1048576/ },
    )
    held.resolve()
    t.match(await first, { written: 100 })
    t.match(await second, { written: 100 })
    await engine.close()
  })

  t.test('rows of one namespace that wait leave room for the others', async (t) => {
    let hold = Promise.resolve()
    const proxy = await proxyTo(server.url, (statement, forward) => void (/^INSERT INTO \S+\.m_/.test(statement) ? hold.then(() => forward()) : forward()))
    t.teardown(() => proxy.close())
    const engine = await engineAt(proxy.url, prefix(), {}, { max_waiting_bytes: 1_048_576 })
    const small = (namespace: string): Promise<unknown> => write(engine, [point('x')], { namespace })
    for (const namespace of ['noisy', 'quiet']) await small(namespace)
    const held = Promise.withResolvers<void>()
    hold = held.promise
    const waiting: Promise<unknown>[] = []
    let refusal: unknown
    for (let n = 0; n < 100 && refusal === undefined; n++) {
      const written = write(
        engine,
        Array.from({ length: 10 }, (_, i): TestPoint => ({ ...point('x'.repeat(5000)), time: NOW + BigInt(n * 10 + i) })),
        { namespace: 'noisy' },
      )
      refusal = await Promise.race([
        written.catch((error: unknown) => error).then((error) => (error instanceof Error ? error : undefined)),
        new Promise((resolve) => setTimeout(resolve, 50)),
      ])
      if (refusal === undefined) waiting.push(written)
    }
    t.match(refusal, { code: 'BACKPRESSURE', message: /rows of namespace "noisy" are \d+ of \d+ bytes that wait for ClickHouse/ })
    const others = small('quiet')
    held.resolve()
    t.match(await others, { written: 1 })
    for (const written of waiting) t.match(await written, { written: 10 })
    t.match(await small('noisy'), { written: 1 })
    await engine.close()
  })

  t.test('writes that wait for their turn while ClickHouse does not answer: they are bounded, and each ends when it may take no longer', async (t) => {
    let held: (() => void)[] | undefined
    const asked: string[] = []
    const proxy = await proxyTo(server.url, (statement, forward) => {
      if (/^SELECT series, max\(since\)/.test(statement)) asked.push(statement)
      if (held === undefined) forward()
      else held.push(() => forward())
    })
    t.teardown(() => proxy.close())
    const engine = await engineAt(proxy.url, prefix(), {}, { write_timeout_secs: 6, max_waiting_bytes: 1_048_576 })
    await write(engine, [point(1)])
    asked.length = 0
    held = []
    const results = await Promise.allSettled(Array.from({ length: 4 }, (_, i) => write(engine, [point(i, `new ${i}`)])))
    t.match(results, [{ reason: { code: 'QUERY_TIMEOUT' } }, ...Array.from({ length: 3 }, () => ({ reason: { code: 'WRITE_TIMEOUT' } }))])
    t.equal(asked.length, 1, 'those behind it did not ask, and wait as long again each')
    const large = (host: string): Promise<unknown> =>
      write(
        engine,
        Array.from({ length: 100 }, (_, i) => ({ ...point('x'.repeat(12_000), host, 'text'), time: NOW + BigInt(i) })),
      )
    const first = large('a')
    await t.rejects(large('b'), { code: 'BACKPRESSURE', message: /clickhouse\.max_waiting_bytes is 1048576/ })
    for (const go of held) go()
    held = undefined
    t.match(await first, { written: 100 })
    t.match(await large('b'), { written: 100 }, 'it may be sent again')
    t.match(await write(engine, [point(7)]), { written: 1 })
    await engine.close()
  })

  t.test('questions that take long leave connections to writes, and those of a namespace some to the others', async (t) => {
    let held: (() => void)[] | undefined
    const proxy = await proxyTo(server.url, (statement, forward) => {
      if (held === undefined || !/^SELECT \* FROM \(.*_n_default\.m_/s.test(statement)) return forward()
      held.push(() => forward())
    })
    t.teardown(() => proxy.close())
    const engine = await engineAt(proxy.url, prefix(), {}, { max_connections: 8, write_timeout_secs: 60 })
    await write(engine, [point(1)])
    await write(engine, [point(2)], { namespace: 'other' })
    held = []
    const slow = Array.from({ length: 12 }, () => lines(engine, { measurement: 'cpu' }))
    while (held.length < 5) await new Promise((resolve) => setTimeout(resolve, 10))
    // Others would follow.
    await new Promise((resolve) => setTimeout(resolve, 500))
    t.match(await write(engine, [point(3, 'b')], { namespace: 'other' }), { written: 1 })
    t.same(await lines(engine, { namespace: 'other', measurement: 'cpu' }), [row(2), row(3, 'b')])
    const ready = held
    held = undefined
    for (const go of ready) go()
    for (const answer of slow) t.same(await answer, [row(1)])
    await engine.close()
  })

  t.test('an insert whose answer is lost is stored once', async (t) => {
    let cuts = 0
    const proxy = await proxyTo(server.url, (statement, forward) => {
      // The server has it; its answer does not arrive, every second time.
      forward({ lost: /INSERT/.test(statement) && cuts++ % 2 === 0 })
    })
    t.teardown(() => proxy.close())
    const name = prefix()
    const engine = await engineAt(proxy.url, name)
    const points = Array.from({ length: 20 }, (_, i) => point(i, `h${i}`))
    for (const one of points) t.match(await write(engine, [one]), { written: 1, rejected: 0 })
    t.ok(cuts > 20, `${cuts} inserts`)
    t.equal((await lines(engine, { measurement: 'cpu' })).length, 20)
    await engine.close()
    const client = new Client(sectionOf({ clickhouse: server.section }))
    const counted: bigint[] = []
    for await (const { columns } of client.blocks(`SELECT toUInt64(count()) FROM merge('${name}_n_default', '^m_[0-9]+$')`))
      counted.push(new BigUint64Array(columns[0].bytes.buffer)[0])
    t.same(counted, [20n], 'rows as they were stored, before any merge')
    await client.close()
  })
}
