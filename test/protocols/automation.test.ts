/** What happens by itself, together: a rollup's target is a measurement like others, for triggers and change streams. */
import { setTimeout as sleep } from 'node:timers/promises'
import { boot } from 'svcdb/testkit'
import t from 'tap'

const HOUR = 3_600_000_000_000n
/** 2024-01-01T00:00:00Z */
const T0 = 1_704_067_200_000_000_000n

for (const storage of ['memory', 'embedded']) {
  t.test(`a trigger and a change stream on the target of a rollup (${storage})`, async (t) => {
    const node = await boot({
      plugins: ['native', 'line_protocol', 'cdc', 'triggers', 'rollups'],
      storage,
      config: { triggers: {}, rollups: { interval_ms: 10 }, database: { ooo_shard_tolerance: 2 } },
    })
    const abort = new AbortController()
    t.teardown(async () => {
      abort.abort()
      await node.stop()
    })
    const post = (url: string, payload: object | string) =>
      node.inject({ method: 'POST', url, payload, headers: { 'content-type': typeof payload === 'string' ? 'text/plain' : 'application/json' } })
    t.equal((await post('/api/v1/triggers', { query: 'CREATE TRIGGER busy ON cpu_1h WHEN usage_avg > 50 DELIVER log' })).statusCode, 200)
    const stream = await fetch(`${node.url}/api/v1/cdc/stream?measurement=cpu_1h`, { signal: abort.signal })
    t.equal(stream.status, 200)
    let told = ''
    const reading = (async () => {
      const decoder = new TextDecoder()
      for await (const bytes of stream.body as ReadableStream<Uint8Array>) told += decoder.decode(bytes, { stream: true })
    })().catch(() => {})
    const rollup = { name: 'hourly', source_measurement: 'cpu', target_measurement: 'cpu_1h', every: '1h', aggregations: ['avg'] }
    t.equal((await post('/api/v1/rollups', rollup)).statusCode, 201)
    const line = (hour: number, host: string, usage: number): string => `cpu,host=${host} usage=${usage} ${T0 + BigInt(hour) * HOUR}`
    t.equal((await post('/write?backfill=true', [line(0, 'a', 40), line(0, 'b', 90), line(1, 'a', 95), line(9, 'a', 99)].join('\n'))).statusCode, 204)
    const signals = async (): Promise<{ tags: { host: string }; timestamp: number; value: number }[]> => (await node.inject('/api/v1/signals')).json()
    for (let i = 0; i < 3000 && ((await signals()).length < 2 || told.split('event: point_written').length < 4); i++) await sleep(20)
    t.same((await signals()).map(({ tags, timestamp, value }) => [tags.host, timestamp, value]).sort(), [
      ['a', Number(T0 + HOUR), 95],
      ['b', Number(T0), 90],
    ])
    const written = [...told.matchAll(/^data: (.*)$/gm)].map(([, data]) => JSON.parse(data).PointWritten)
    t.same(written.map(({ measurement, tags, fields }) => `${measurement} ${tags.host} ${JSON.stringify(fields)}`).sort(), [
      'cpu_1h a {"usage_avg":{"F64":40}}',
      'cpu_1h a {"usage_avg":{"F64":95}}',
      'cpu_1h b {"usage_avg":{"F64":90}}',
    ])
    abort.abort()
    await reading
  })
}
