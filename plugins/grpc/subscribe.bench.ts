/** Rows of changes written for Subscribe a second on one core, of all subscribers together: node plugins/grpc/subscribe.bench.ts [rows] */
import { Column } from 'svcdb/lib/columns'
import { RowBatches } from './change-batches.ts'
import { ChangeMessages } from './change-messages.ts'

const TOTAL = Number(process.argv[2] ?? 4_000_000)
const position = `${'a'.repeat(16)}-${'0'.repeat(14)}-${'0'.repeat(13)}`

function run(name: string, fields: number, rows: number, subscribers = 1): void {
  const columns = Array.from({ length: fields }, (_, i) => {
    const column = new Column(`field_${i}`, i % 4 === 3 ? 'int64' : 'float64', rows)
    for (let row = 0; row < rows; row++) {
      if (i % 4 === 3) column.setPair(row, row, 0)
      else column.setF64(row, Math.round(Math.random() * 10_000) / 100)
    }
    return column
  })
  const times = new Int32Array(rows * 2)
  for (let row = 0; row < rows; row++) times[row * 2] = row
  const placed = { kind: 'rows' as const, position, sequence: 123_456, namespace: '', measurement: 'cpu', backfill: false }
  const change = {
    ...{ ...placed, rows, times, columns, series: Int32Array.from({ length: rows }, (_, row) => row % 1000), heap: new Uint8Array(0) },
    fields: columns.map((column) => ({ name: column.name, type: column.type })),
    tagsOf: (number: number) => ({ host: `host-${number}`, region: 'eu-west-1', rack: String(number % 40) }),
  }
  const batches = new RowBatches()
  const messages = Array.from({ length: subscribers }, () => new ChangeMessages(batches, 1 << 20))
  let bytes = 0
  const pass = (total: number): void => {
    for (let n = 0; n < total; n += rows * subscribers) {
      change.sequence++
      for (const each of messages) for (const message of each.encode(change, () => position)) bytes += message.length
    }
  }
  const count = Math.min(TOTAL, rows * 40_000)
  pass(count / 10)
  bytes = 0
  const start = process.hrtime.bigint()
  pass(count)
  const secs = Number(process.hrtime.bigint() - start) / 1e9
  console.log(`${name.padEnd(32)} ${Math.round(count / secs).toLocaleString('en')} rows/s, ${(bytes / secs / 1e6).toFixed(0)} MB/s`)
}

run('1 field, 3 tags, 5,000 a write', 1, 5000)
run('4 fields, 3 tags, 5,000 a write', 4, 5000)
run('10 fields, 3 tags, 5,000 a write', 10, 5000)
run('4 fields, 3 tags, 1 a write', 4, 1)
run('4 fields, 20 subscribers', 4, 5000, 20)
