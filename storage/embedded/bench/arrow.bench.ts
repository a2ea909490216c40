/** SQL results as Arrow record batches in an engine thread: rows a second. `node storage/embedded/bench/arrow.bench.ts [hosts] [steps]` */
import { ArrowEncoder, streamPrefix } from 'svcdb/lib/arrow'
import { EngineReader } from '../read/reader.ts'
import { TestDatabase } from '../testing/engine-state.ts'
import { fillBench } from './bench-data.ts'

const hosts = Number(process.argv[2] ?? 1000)
const steps = Number(process.argv[3] ?? 1000)
const db = new TestDatabase()
fillBench(db, hosts, steps, 0)
const context = await db.context()
const rows = hosts * steps

async function answer(query: string, textBytes: boolean, encode: boolean): Promise<number> {
  const reader = await EngineReader.open(context)
  const cursor = await reader.sql({ namespace: 'default', query, textBytes })
  const encoder = new ArrowEncoder(cursor.columns, { prefix: streamPrefix })
  let bytes = 0
  for await (const chunk of cursor) if (encode) for (const { framed } of encoder.push(chunk)) bytes += framed!.length
  for (const { framed } of encoder.flush()) bytes += framed!.length
  reader.close()
  return bytes
}

async function measure(name: string, query: string, textBytes = true, encode = true): Promise<void> {
  const all: [wall: number, cpu: number][] = []
  for (let i = 0; i < 5; i++) {
    const [before, start] = [process.cpuUsage(), performance.now()]
    await answer(query, textBytes, encode)
    const { user, system } = process.cpuUsage(before)
    all.push([performance.now() - start, (user + system) / 1000])
  }
  const [wall, cpu] = all.sort((a, b) => a[0] - b[0])[2]
  console.log(`${name.padEnd(44)} ${(rows / wall / 1000).toFixed(1)} million rows a second, ${((cpu / rows) * 1e6).toFixed(0)} ns of processor time a row`)
}

for (const place of ['the memtable', 'one segment']) {
  console.log(`-- ${rows} rows in ${place}`)
  await measure('time, tag, double', 'SELECT _time, hostname, usage_0 FROM cpu')
  await measure('the same, rows only', 'SELECT _time, hostname, usage_0 FROM cpu', true, false)
  await measure('the same, tag as text in bytes', "SELECT _time, hostname || '' AS hostname, usage_0 FROM cpu")
  await measure('the same, tag as strings', 'SELECT _time, hostname, usage_0 FROM cpu', false)
  await measure('time and double', 'SELECT _time, usage_0 FROM cpu')
  await measure('time, three tags, ten doubles', 'SELECT * FROM cpu')
  if (place === 'the memtable') await db.flush()
}
db.close()
process.exit(0)
