/** Reads over memtable and segments: rows a second. `node storage/embedded/bench/scan.bench.ts [hosts] [steps]` */

import { EngineReader } from '../read/reader.ts'
import { type RelationArgs, relation } from '../read/relation.ts'
import { TestDatabase } from '../testing/engine-state.ts'
import { BENCH_FIELDS, BENCH_INTERVAL, BENCH_START, fillBench } from './bench-data.ts'

const hosts = Number(process.argv[2] ?? 1000)
const steps = Number(process.argv[3] ?? 700)
const db = new TestDatabase()
const { def } = fillBench(db, hosts, steps, 0)
const context = await db.context()
const ALL: [bigint, bigint] = [BENCH_START, BENCH_START + BigInt(steps) * BENCH_INTERVAL]
const hour: [bigint, bigint] = [BENCH_START + 1000n * BENCH_INTERVAL, BENCH_START + 1359n * BENCH_INTERVAL]
const rows = hosts * steps

async function time(name: string, work: () => Promise<unknown>): Promise<void> {
  const all: number[] = []
  for (let i = 0; i < 5; i++) {
    const start = performance.now()
    await work()
    all.push(performance.now() - start)
  }
  all.sort((a, b) => a - b)
  console.log(`${name}: ${all[2].toFixed(1)} ms, ${Math.round(rows / all[2] / 1000)} M rows/s of all`)
}

async function sql(select: string, args: Omit<RelationArgs, 'measurement'>, tail = ''): Promise<number> {
  const { sql, calls } = relation(context, db.state.snapshotNow()!, { measurement: def, ...args })
  const result = await context.duck.run(`SELECT ${select} FROM (${sql}) ${tail}`)
  for (const call of calls) context.duck.removeSource(call)
  return result.length
}

async function scan(request: object): Promise<number> {
  const reader = await EngineReader.open(context)
  let n = 0
  for await (const chunk of reader.scan({ namespace: 'default', measurement: 'cpu', ...request })) n += chunk.times.length
  reader.close()
  return n
}

async function all(where: string): Promise<void> {
  const one = db.state.series.select(def.id, [{ tag: 'hostname', op: '=', value: 'host_7' }])
  const averages = BENCH_FIELDS.map((name) => `avg(${name})`).join(', ')
  console.log(`-- ${rows} rows in ${where}`)
  await time('count', () => sql('count(*)', { columns: ['_time'], time: ALL }))
  await time('sum of one field', () => sql('sum(usage_0)', { columns: ['usage_0'], time: ALL }))
  await time('sum of ten fields', () => sql(BENCH_FIELDS.map((name) => `sum(${name})`).join(', '), { columns: BENCH_FIELDS, time: ALL }))
  await time('one series, one hour, by minute', () =>
    sql('epoch_ns(_time) // 60000000000 AS m, max(usage_0)', { columns: ['_time', 'usage_0'], time: hour, series: one }, 'GROUP BY m'),
  )
  for (const enumTags of [[], ['hostname']]) {
    await time(`average by hour and host, tags ${enumTags.length > 0 ? 'ENUM' : 'text'}`, () =>
      sql(
        'epoch_ns(_time) // 3600000000000 AS h, hostname, avg(usage_0)',
        { columns: ['_time', 'hostname', 'usage_0'], time: ALL, enumTags },
        'GROUP BY h, hostname',
      ),
    )
  }
  await time('ten averages by hour', () =>
    sql(`epoch_ns(_time) // 3600000000000 AS h, ${averages}`, { columns: ['_time', ...BENCH_FIELDS], time: ALL }, 'GROUP BY h'),
  )
  await time('scan, one field, all series', () => scan({ fields: ['usage_0'] }))
  await time('scan, one field, one series', () => scan({ fields: ['usage_0'], matchers: [{ tag: 'hostname', op: '=', value: 'host_7' }] }))
}

await all('the memtable')
await db.flush()
await all('one segment')
db.close()
process.exit(0)
