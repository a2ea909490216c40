/** Events encoded a second on one core, of all readers together: node plugins/cdc/frames.bench.ts [events] */
import { Column } from 'svcdb/lib/columns'
import { FrameEncoder } from './frames.ts'
import { PointFrames } from './point-frames.ts'
import { idsOf } from './request.ts'

const EVENTS = Number(process.argv[2] ?? 2_000_000)
const ROWS = 5000
const position = `${'a'.repeat(16)}-${'0'.repeat(14)}-${'0'.repeat(14)}`

function run(name: string, fields: number, of = 1000, readers = 1): void {
  const columns = Array.from({ length: fields }, (_, i) => {
    const column = new Column(`field_${i}`, i % 4 === 3 ? 'int64' : 'float64', ROWS)
    for (let row = 0; row < ROWS; row++) {
      if (i % 4 === 3) column.setPair(row, row, 0)
      else column.setF64(row, Math.round(Math.random() * 10_000) / 100)
    }
    return column
  })
  const times = new Int32Array(ROWS * 2)
  const series = new Int32Array(ROWS)
  for (let row = 0; row < ROWS; row++) {
    const time = 1_700_000_000_000_000_000n + BigInt(row) * 1_000_000n
    times[row * 2] = Number(BigInt.asIntN(32, time))
    times[row * 2 + 1] = Number(time >> 32n)
    series[row] = of > ROWS ? Math.floor(Math.random() * of) : row % of
  }
  const change = {
    ...{
      kind: 'rows' as const,
      position,
      sequence: 123_456,
      namespace: '',
      measurement: 'cpu',
      backfill: false,
      rows: ROWS,
      times,
      series,
      columns,
      heap: new Uint8Array(0),
    },
    fields: columns.map(({ name, type }) => ({ name, type })),
    tagsOf: (number: number) => ({ host: `host-${number}`, region: 'eu-west-1', rack: String(number % 40) }),
  }
  const points = new PointFrames(() => readers > 1)
  const encoders = Array.from({ length: readers }, () => new FrameEncoder(points))
  let bytes = 0
  const pass = (events: number): void => {
    for (let n = 0; n < events; n += ROWS * readers) {
      change.sequence++
      for (const encoder of encoders) for (const chunk of encoder.encode(change, idsOf(position, 'abcdef12', position))) bytes += chunk.length
    }
  }
  pass(EVENTS / 10)
  bytes = 0
  const start = process.hrtime.bigint()
  pass(EVENTS)
  const secs = Number(process.hrtime.bigint() - start) / 1e9
  console.log(`${name.padEnd(52)} ${Math.round(EVENTS / secs).toLocaleString('en')} events/s, ${(bytes / secs / 1e6).toFixed(0)} MB/s`)
}

run('1 field, 3 tags', 1)
run('4 fields, 3 tags', 4)
run('10 fields, 3 tags', 10)
run('3 fields, 3 tags, 20,000 series in random order', 3, 20_000)
run('4 fields, 20 readers', 4, 1000, 20)
