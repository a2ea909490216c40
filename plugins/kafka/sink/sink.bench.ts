/** Points made into records a second on one core, without brokers: node plugins/kafka/sink/sink.bench.ts [points] */
import { Column } from 'svcdb/lib/columns'
import { RecordEncoder, type SinkFormat } from './records.ts'
import { TopicNames } from './topics.ts'

const POINTS = Number(process.argv[2] ?? 2_000_000)
const ROWS = 5000

function run(format: SinkFormat, fields: number): void {
  const columns = Array.from({ length: fields }, (_, i) => {
    const column = new Column(`field_${i}`, 'float64', ROWS)
    for (let row = 0; row < ROWS; row++) column.setF64(row, Math.round(Math.random() * 10_000) / 100)
    return column
  })
  const times = new Int32Array(ROWS * 2)
  const series = new Int32Array(ROWS)
  for (let row = 0; row < ROWS; row++) {
    const time = 1_700_000_000_000_000_000n + BigInt(row) * 1_000_000n
    times[row * 2] = Number(BigInt.asIntN(32, time))
    times[row * 2 + 1] = Number(time >> 32n)
    series[row] = row % 1000
  }
  const change = {
    ...{ kind: 'rows' as const, position: `${'a'.repeat(16)}-${'0'.repeat(14)}-${'0'.repeat(14)}`, sequence: 123_456, namespace: '', measurement: 'cpu' },
    ...{ backfill: false, rows: ROWS, times, series, columns, heap: new Uint8Array(0), fields: columns.map(({ name, type }) => ({ name, type })) },
    tagsOf: (number: number) => ({ host: `host-${number}`, region: 'eu-west-1', rack: String(number % 40) }),
  }
  const encoder = new RecordEncoder(format, new TopicNames('svc.{namespace}.{measurement}', 'default'))
  let bytes = 0
  const pass = (points: number): void => {
    for (let n = 0; n < points; n += ROWS) for (const { records } of encoder.encode(change)) for (const { value } of records) bytes += value.length
  }
  pass(POINTS / 10)
  bytes = 0
  const { user, system } = process.cpuUsage()
  pass(POINTS)
  const after = process.cpuUsage()
  const secs = (after.user + after.system - user - system) / 1e6
  console.log(
    `${`${format}, ${fields} fields, 3 tags`.padEnd(34)} ${Math.round(POINTS / secs).toLocaleString('en')} records/s, ${(bytes / secs / 1e6).toFixed(0)} MB/s`,
  )
}

for (const format of ['json', 'line_protocol'] as const) for (const fields of [1, 4, 10]) run(format, fields)
