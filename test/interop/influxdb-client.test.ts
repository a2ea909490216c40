/** @influxdata/influxdb-client, the JavaScript client of InfluxDB 2. */
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { type Node, startNode } from './node.ts'

// Not typed here: the package is installed by `run` only.
const [client, apis] = await Promise.all(['@influxdata/influxdb-client', '@influxdata/influxdb-client-apis'].map((name) => import(name).catch(() => undefined)))
const skip = client === undefined || apis === undefined ? 'the package is not installed' : false

const BASE = 1_700_000_000_000_000_000n
const node: Node | undefined = skip === false ? await startNode({ maxBodySize: 65_536 }) : undefined
after(() => node?.stop())
const server = (): Node => node as Node

/** Failures that the client is told of go to `failures` and not to the console. */
function writer(options: Record<string, unknown>, failures: string[] = [], precision = 'ns') {
  client.setLogger({ warn() {}, error() {} })
  const influx = new client.InfluxDB({ url: server().url, token: 'any' })
  const writeFailed = (error: Error & { body?: string }) => void failures.push(error.body ?? error.message)
  return influx.getWriteApi('any', 'any', precision, { flushInterval: 0, writeFailed, minRetryDelay: 50, maxRetryDelay: 200, ...options })
}

test('points arrive with their types and exact values', { skip }, async () => {
  const api = writer({ gzipThreshold: 1_000_000 })
  const point = new client.Point('m').tag('host', 'a b,c=d').floatField('f', 0.1).intField('i', -9_007_199_254_740_991).uintField('u', '18446744073709551615')
  api.writePoint(point.booleanField('b', true).stringField('s', 'q"u\\o\nte').timestamp(String(BASE)))
  // Beyond what its points take, as a line.
  api.writeRecord(`m,host=line i=-9223372036854775808i ${BASE}`)
  await api.close()
  const raw = await (
    await fetch(`${server().url}/api/v1/svc/query`, { method: 'POST', headers: { 'content-type': 'application/json' }, body: '{"measurement":"m"}' })
  ).text()
  for (const part of [`"timestamp":${BASE}`, '"f":0.1', '"i":-9007199254740991', '"i":-9223372036854775808', '"u":18446744073709551615', '"b":true'])
    assert.ok(raw.includes(part), raw)
  const row = (await server().rows('m')).find(({ tags }) => tags.host === 'a b,c=d')
  assert.equal(row?.fields.s, 'q"u\\o\nte')
})

test('gzip and every precision', { skip }, async () => {
  for (const [precision, unit] of [
    ['ns', 1n],
    ['us', 1000n],
    ['ms', 1_000_000n],
    ['s', 1_000_000_000n],
  ] as const) {
    const api = writer({ gzipThreshold: 0 }, [], precision)
    for (let i = 0; i < 500; i++)
      api.writePoint(
        new client.Point(`gz_${precision}`)
          .tag('host', `h${i}`)
          .floatField('v', i)
          .timestamp(String(BASE / unit)),
      )
    await api.close()
    const rows = await server().rows(`gz_${precision}`)
    assert.equal(rows.length, 500, precision)
    assert.ok(rows.every(({ timestamp }) => BigInt(timestamp) === BASE))
  }
})

test('503 is tried again until it works', { skip }, async () => {
  await server().fail('BACKPRESSURE', 2)
  const failures: string[] = []
  const api = writer({ maxRetries: 5 }, failures)
  api.writePoint(new client.Point('retried').floatField('v', 1).timestamp(String(BASE)))
  await assert.rejects(api.flush(), { statusCode: 503 }) // it goes on in the background
  await server().arrived('retried', 1)
  await api.close()
  assert.equal(failures.length, 2, 'each attempt is told')
  assert.equal(await server().failed(), 2)
})

test('a partial write keeps the good points and is reported once', { skip }, async () => {
  const failures: string[] = []
  const api = writer({ maxRetries: 3 }, failures)
  api.writeRecords([`part v=1 ${BASE}`, `part v="text" ${BASE + 1n}`, `part v=3 ${BASE + 2n}`])
  await assert.rejects(api.close(), /partial write/)
  assert.equal((await server().rows('part')).length, 2)
  assert.equal(failures.length, 1)
  assert.match(failures[0], /partial write: 2 points written, 1 rejected; first: line 2: /)
})

test('413 is final', { skip }, async () => {
  const api = writer({ maxRetries: 3, gzipThreshold: 1_000_000, batchSize: 5000 })
  for (let i = 0; i < 3000; i++) api.writePoint(new client.Point('large').tag('host', `host-${i}`).floatField('v', i))
  await assert.rejects(api.close(), { statusCode: 413 })
  assert.equal((await server().rows('large')).length, 0)
})

test('its ping helper', { skip }, async () => {
  await new apis.PingAPI(new client.InfluxDB({ url: server().url })).getPing()
})
