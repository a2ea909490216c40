/** Series that have no tags in common: a batch has a column for each tag of any of its rows. */
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { tableFromIPC } from 'apache-arrow'
import type { FieldInfo } from 'svcdb'
import t, { type Test } from 'tap'
import { listMeasurementsResponse } from './answers.ts'
import { type Message, point, start, TestClient } from './testing.ts'

const NOW = BigInt(Date.now()) * 1_000_000n
const SERIES = 800
const MESSAGE_BYTES = 2_000_000

async function clientOf(t: Test, section: Record<string, unknown> = {}): Promise<TestClient> {
  const { node, port } = await start({ storage: 'embedded', section, config: { database: { max_tags_per_measurement: 65_536 } } })
  const client = new TestClient(port)
  t.teardown(async () => {
    client.close()
    await node.stop()
  })
  return client
}

t.test('Subscribe: messages keep to their size, and have every row once', async (t) => {
  const client = await clientOf(t)
  const stream = await client.subscribe().begun()
  await client.call('Write', { points: Array.from({ length: SERIES }, (_, i) => point('m', NOW + BigInt(i), { [`t${i}`]: `v${i}` }, { _fv: i })) })
  const messages = await stream.until((changes) => changes.reduce((sum, { rows }) => sum + rows, 0) >= SERIES)
  stream.stream.cancel()
  let schema: Buffer | undefined
  const found = messages.flatMap((message: Message) => {
    if (message.arrow_schema.length > 0) schema = message.arrow_schema
    const table = tableFromIPC(Buffer.concat([schema as Buffer, message.arrow_batch]))
    return table.toArray().map((row) => Object.entries(row.toJSON()).filter(([name, value]) => name !== '_time' && value !== null))
  })
  t.strictSame(
    found,
    Array.from({ length: SERIES }, (_, i) => [
      [`t${i}`, `v${i}`],
      ['_fv', i],
    ]),
  )
  for (const { arrow_schema, arrow_batch } of messages) {
    const size = arrow_schema.length + arrow_batch.length
    t.ok(size < MESSAGE_BYTES, `a message has ${size} bytes`)
  }
})

t.test('Subscribe: what is kept for later batches is bounded by what it holds', async (t) => {
  const client = await clientOf(t)
  setFlagsFromString('--expose_gc')
  const collect = runInNewContext('gc') as () => void
  const bytes = (): number => {
    collect()
    return process.memoryUsage().arrayBuffers
  }
  const stream = await client.subscribe().begun()
  const before = bytes()
  const writes = 600
  for (let i = 0; i < writes; i++) {
    const tags = Object.fromEntries(Array.from({ length: 60 }, (_, n) => [`t${i}_${n}`, 'v']))
    await client.call('Write', { points: [point('m', NOW + BigInt(i), tags, { _fv: i })] })
  }
  await stream.until((changes) => changes.length >= writes)
  stream.messages.length = 0
  const more = (bytes() - before) / 2 ** 20
  t.ok(more < 170, `${Math.round(more)} MiB are held`)
  stream.stream.cancel()
})

t.test('Query: columns count against the memory of a query', async (t) => {
  const client = await clientOf(t, { max_query_memory_bytes: 33_554_432 })
  const write = (from: number, to: number) =>
    client.call('Write', {
      points: Array.from({ length: to - from }, (_, i) => point('m', NOW + BigInt(from + i), { [`t${from + i}`]: 'v' }, { _fv: from + i })),
    })
  await write(0, 500)
  const parts = await client.query({ measurement: 'm' })
  const table = tableFromIPC(Buffer.concat(parts.map(({ arrow_ipc }) => arrow_ipc)))
  t.equal(table.numRows, 500)
  t.strictSame(
    [...(table.getChild('_fv') ?? [])],
    Array.from({ length: 500 }, (_, i) => i),
  )
  t.equal(table.getChild('t400')?.get(400), 'v')
  await write(500, 4000)
  await t.rejects(client.query({ measurement: 'm' }), { code: 3, details: /4000 tags and 1 fields make columns of more than 33554432 bytes/ })
  const rows = (await client.query({ measurement: 'm', format: 'ROWS' })).flatMap((message: Message) => message.rows)
  t.equal(rows.length, 4000)
})

t.test('ListMeasurements: measurements of many fields are listed in turns', (t) => {
  const fields = Array.from({ length: 5000 }, (_, i): FieldInfo => ({ name: `f${i}`, type: 'float64' }))
  const work = listMeasurementsResponse(Array.from({ length: 20 }, (_, i) => ({ name: `m${i}`, tags: [], fields })))
  let turns = 0
  while (work.next().done !== true) turns++
  t.equal(turns, 20)
  t.end()
})
