/** What readers of changes cost writes, on the thread of both: node storage/embedded/changes/changes.bench.ts [writes]. Lines print rows a second, best of three. */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { ChangeCursor } from 'svcdb'
import { testContext } from '../../conformance/context.ts'
import { EmbeddedEngine } from '../engine.ts'

const WRITES = Number(process.argv[2] ?? 150)
const ROWS = 5000
const SERIES = 1000
const MEASUREMENTS = 10

async function run(name: string, open: (engine: EmbeddedEngine) => ChangeCursor[]): Promise<void> {
  const dir = mkdtempSync(join(tmpdir(), 'svc-changes-'))
  const engine = new EmbeddedEngine(testContext({ data_dir: dir, memtable_flush_threshold: 1 << 30, max_memtable_memory: 2 ** 31 }, Date.now))
  await engine.open()
  let read = 0
  const cursors = open(engine)
  const reading = cursors.map(async (cursor) => {
    for await (const change of cursor) {
      if (change.kind !== 'rows') continue
      let sum = 0
      for (const { f64 } of change.columns) for (let row = 0; row < change.rows; row++) sum += f64[row]
      read += sum >= 0 ? change.rows : 0
    }
  })
  let time = BigInt(Date.now()) * 1_000_000n
  let best = 0
  for (let turn = 0; turn < 3; turn++) {
    const start = performance.now()
    for (let n = 0; n < WRITES; n++) {
      time += 1_000_000n
      await engine.write(batchOf(engine, time))
    }
    best = Math.max(best, (WRITES * ROWS) / ((performance.now() - start) / 1000))
  }
  while (cursors.some(({ behind }) => behind > 0)) await new Promise((resolve) => setTimeout(resolve, 10))
  for (const cursor of cursors) cursor.close()
  await Promise.all(reading)
  console.log(`${name.padEnd(48)} ${Math.round(best).toLocaleString('en').padStart(12)} rows/s written, ${read.toLocaleString('en')} read`)
  await engine.close()
  rmSync(dir, { recursive: true })
}

function batchOf(engine: EmbeddedEngine, time: bigint) {
  const batch = engine.batch('')
  const [low, high] = [Number(BigInt.asIntN(32, time)), Number(time >> 32n)]
  for (let m = 0; m < MEASUREMENTS; m++) {
    const measurement = engine.resolver.measurement('', `m${m}`)
    const table = batch.table(measurement)
    for (let i = 0; i < ROWS / MEASUREMENTS; i++) {
      const row = table.addRow(numbers(engine, m, i % (SERIES / MEASUREMENTS)), low, high, i)
      for (let f = 0; f < 4; f++) table.column(FIELDS[f], 'float64').setF64(row, i + f)
    }
  }
  return batch
}

const FIELDS = ['a', 'b', 'c', 'd']
const known = new WeakMap<EmbeddedEngine, Map<number, number>>()
function numbers(engine: EmbeddedEngine, m: number, i: number): number {
  let all = known.get(engine)
  if (all === undefined) {
    all = new Map()
    known.set(engine, all)
  }
  const key = m * SERIES + i
  let number = all.get(key)
  if (number === undefined) {
    number = engine.resolver.series(engine.resolver.measurement('', `m${m}`), ['host', `h${i}`])
    // A handle until its first row is durable.
    if (number < 1 << 30) all.set(key, number)
  }
  return number
}

await run('nobody reads', () => [])
await run('one reader, of another measurement', (engine) => [engine.changes({ measurements: ['other'] })])
await run('100 readers, of other measurements', (engine) => Array.from({ length: 100 }, (_, i) => engine.changes({ measurements: [`other${i}`] })))
await run('one reader of all', (engine) => [engine.changes()])
await run('ten readers of all', (engine) => Array.from({ length: 10 }, () => engine.changes()))
await run('nobody reads', () => [])
