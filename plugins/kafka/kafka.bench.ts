/**
 * Rows of line protocol, in records of many, from a broker that has them already to durable points: rows a second and processor of the server, broker beside it.
 * `node plugins/kafka/kafka.bench.ts <host:port> [records] [lines a record] [none|gzip|snappy|lz4|zstd] [fetch_max_bytes]`.
 */
import { randomUUID } from 'node:crypto'
import { boot } from 'svcdb/testkit'
import { listed } from '../../test/support/connectors.ts'
import { load } from './kafkajs-client.ts'

// With all codecs.
const { CompressionTypes, Kafka, logLevel } = load()

const [broker = '127.0.0.1:9092', ...rest] = process.argv.slice(2)
const records = Number(rest[0] ?? 3000)
const lines = Number(rest[1] ?? 1000)
const compression = {
  none: CompressionTypes.None,
  gzip: CompressionTypes.GZIP,
  snappy: CompressionTypes.Snappy,
  lz4: CompressionTypes.LZ4,
  zstd: CompressionTypes.ZSTD,
}[rest[2] ?? 'none']
const fetchBytes = Number(rest[3] ?? 0)
/** Of a partition: records are keyed by what they are of. */
const SERIES = 250
const PARTITIONS = 4

const kafka = new Kafka({ brokers: [broker], logLevel: logLevel.ERROR, clientId: 'bench' })
const topic = `bench-${randomUUID()}`
const admin = kafka.admin()
await admin.connect()
await admin.createTopics({ topics: [{ topic, numPartitions: PARTITIONS }] })
const producer = kafka.producer()
await producer.connect()
const start = BigInt(Date.now()) * 1_000_000n
let row = 0
let bytes = 0
const record = (partition: number) => {
  const text: string[] = []
  for (let i = 0; i < lines; i++, row++)
    text.push(`cpu,host=h${partition}-${row % SERIES},region=r${partition} usage=${row % 100}.5,idle=${row % 77}i ${start + BigInt(row)}`)
  const value = text.join('\n')
  bytes += value.length
  return { partition, value }
}
async function send(count: number): Promise<void> {
  const together = Math.max(1, Math.floor(200_000 / (lines * 65)))
  for (let sent = 0; sent < count; sent += together) {
    const messages = Array.from({ length: Math.min(together, count - sent) }, () => record((sent / together) % PARTITIONS))
    await producer.send({ topic, messages, acks: 1, ...(compression === undefined ? {} : { compression }) })
  }
}

await send(Math.ceil(records / 4))
const config = {
  brokers: broker,
  topics: [topic],
  group_id: topic,
  auto_offset_reset: 'earliest',
  fetch_wait_ms: 100,
  ...(fetchBytes > 0 && { fetch_max_bytes: fetchBytes }),
}
const node = await boot({ plugins: ['kafka', 'line_protocol'], storage: 'embedded', config: { kafka: config, database: { warm_up_ms: 0 } } })
try {
  const figures = async (): Promise<Record<string, number>> => (await listed(node))[0].metrics as Record<string, number>
  const reach = async (points: number): Promise<void> => {
    while ((await figures()).points_total < points) await new Promise((resolve) => setTimeout(resolve, 20))
  }
  await reach(row)
  await node.stop()
  // A second node has the same group, and code that is warm.
  const first = row
  await send(records)
  const warm = await boot({ plugins: ['kafka', 'line_protocol'], storage: 'embedded', config: { kafka: config, database: { warm_up_ms: 0 } } })
  try {
    const second = async (): Promise<Record<string, number>> => (await listed(warm))[0].metrics as Record<string, number>
    while ((await second()).points_total === 0) await new Promise((resolve) => setTimeout(resolve, 1))
    const before = (await second()).points_total
    // Of what was before.
    await warm.inject('/metrics')
    const [began, cpu] = [performance.now(), process.cpuUsage()]
    while ((await second()).points_total < row - first) await new Promise((resolve) => setTimeout(resolve, 10))
    const seconds = (performance.now() - began) / 1000
    const { user, system } = process.cpuUsage(cpu)
    const rows = row - first - before
    const late = /main_loop_delay_seconds\{quantile="0.99"\} (\S+)/.exec((await warm.inject('/metrics')).body)?.[1]
    console.log(
      `${rest[2] ?? 'none'}, ${lines} lines a record: ${Math.round(rows / seconds).toLocaleString('en')} rows/s, ${((user + system) / rows).toFixed(2)} µs of processor a row, ${Math.round(bytes / row)} bytes a row, loop late by ${late} s (p99), lag ${(await second()).lag}`,
    )
  } finally {
    await warm.stop()
  }
} finally {
  await node.stop()
  await admin.deleteTopics({ topics: [topic] })
  await producer.disconnect()
  await admin.disconnect()
}
process.exit()
