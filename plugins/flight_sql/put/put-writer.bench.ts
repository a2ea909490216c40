/** Record batches into a write: rows a second, 10 float fields and the time. node plugins/flight_sql/put/put-writer.bench.ts */
import { Dictionary, Field, Float64, Int32, makeData, RecordBatch, Schema, Struct, TimestampNanosecond, Utf8, vectorFromArray } from 'apache-arrow'
import { WriteBatch } from 'svcdb/lib/columns'
import { atOnce } from 'svcdb/lib/event-loop'
import { FakeResolver } from 'svcdb/testkit'
import { PutWriter } from './put-writer.ts'

const ROWS = 65_536
const HOSTS = Array.from({ length: 1000 }, (_, i) => `host_${i}`)
const names = Array.from({ length: ROWS }, (_, i) => HOSTS[i % HOSTS.length])

function batchOf(tags: Record<string, 'text' | 'dictionary'>): RecordBatch {
  const columns = Object.entries(tags).map(([name, kind]) => {
    const vector = vectorFromArray(names, kind === 'text' ? new Utf8() : new Dictionary(new Utf8(), new Int32()))
    return { name, data: vector.data[0] }
  })
  const time = BigInt64Array.from({ length: ROWS }, (_, i) => 1_700_000_000_000_000_000n + BigInt(i) * 1000n)
  columns.push({ name: '_time', data: makeData({ type: new TimestampNanosecond(), length: ROWS, data: time }) as never })
  for (let i = 0; i < 10; i++) {
    const values = Float64Array.from({ length: ROWS }, (_, row) => (row * 7 + i) % 100)
    columns.push({ name: `usage_${i}`, data: makeData({ type: new Float64(), length: ROWS, data: values }) as never })
  }
  const fields = columns.map(({ name, data }) => new Field(name, data.type, true))
  return new RecordBatch(new Schema(fields), makeData({ type: new Struct(fields), length: ROWS, nullCount: 0, children: columns.map(({ data }) => data) }))
}

const cases: [string, RecordBatch][] = [
  ['one tag as text', batchOf({ host: 'text' })],
  ['one tag as dictionary', batchOf({ host: 'dictionary' })],
  ['three tags as text', batchOf({ host: 'text', rack: 'text', region: 'text' })],
  ['three tags as dictionaries', batchOf({ host: 'dictionary', rack: 'dictionary', region: 'dictionary' })],
]

for (const [name, batch] of cases) {
  const resolver = new FakeResolver()
  const writer = new PutWriter({ resolver, namespace: '', measurement: 'cpu', schema: batch.schema, maxFields: 1024, maxTextBytes: 1e9, seed: 1 })
  const write = new WriteBatch(resolver)
  const rates: number[] = []
  for (let round = 0; round < 30; round++) {
    write.reset()
    const began = performance.now()
    atOnce(writer.append(batch, write, 0, 0n))
    rates.push(ROWS / (performance.now() - began) / 1000)
  }
  rates.sort((a, b) => a - b)
  console.log(`${name}: ${rates[15].toFixed(1)} million rows/s`)
}
