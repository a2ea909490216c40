/** The npm package `influx`, the client of InfluxDB 1 that Node-RED and others write with. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { startNode } from './node.ts'

// Not typed here: the package is installed by `run` only.
const influx = await import('influx' as string).catch(() => undefined)
const skip = influx === undefined ? 'the package is not installed' : false

test('influx for Node.js', { skip }, async (t) => {
  const node = await startNode()
  t.after(() => node.stop())
  const { hostname, port } = new URL(node.url)
  const { FLOAT, INTEGER, STRING, BOOLEAN } = influx.FieldType
  const schema = [{ measurement: 'flow', fields: { v: FLOAT, n: INTEGER, s: STRING, b: BOOLEAN }, tags: ['host'] }]
  const client = new influx.InfluxDB({ host: hostname, port: Number(port), database: 'plant', username: 'any', password: 'any', schema })
  const now = Math.floor(Date.now() / 1000)

  await t.test('ping, databases', async () => {
    const [pinged] = await client.ping(5000)
    assert.equal(pinged.online, true)
    assert.ok(pinged.version.length > 0)
    if (!(await client.getDatabaseNames()).includes('plant')) await client.createDatabase('plant')
  })
  await t.test('points', async () => {
    const text = 'a "q" \\ \n,='
    await client.writePoints([{ measurement: 'flow', tags: { host: 'a b,c=d' }, fields: { v: 1, n: 7, s: text, b: true }, timestamp: new Date(now * 1000) }])
    const [row] = await node.arrived('flow', 1)
    assert.deepEqual([row.timestamp, row.tags, row.fields], [now * 1e9, { host: 'a b,c=d' }, { v: 1, n: 7, s: text, b: true }])
  })
  await t.test('precisions, with a retention policy', async () => {
    for (const [precision, of] of Object.entries({ n: 1e9, u: 1e6, ms: 1e3, s: 1 }))
      await client.writePoints([{ measurement: 'flow', tags: { host: precision }, fields: { v: of }, timestamp: String(BigInt(now) * BigInt(of)) }], {
        precision,
        retentionPolicy: 'autogen',
      })
    for (const { timestamp } of await node.arrived('flow', 5)) assert.equal(timestamp, now * 1e9)
  })
  await t.test('what is refused is told', async () => {
    const type = client.writePoints([{ measurement: 'flow', tags: { host: 'x' }, fields: { v: 1 }, timestamp: '5' }], { precision: 's' })
    await assert.rejects(type, /400[\s\S]*partial write/)
  })
})
