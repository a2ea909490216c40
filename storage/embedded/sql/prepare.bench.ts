/** What the SQL layer costs: gate and rewriting a statement, and buckets over rows. node storage/embedded/sql/prepare.bench.ts */
import { prepareSql } from './prepare.ts'
import { CPU, testHost } from './testing/host.ts'

const ROUNDS = 500
const ROWS = 2_000_000
const rows = `SELECT make_timestamp_ns(1704067200000000000 + i * 10000000) AS _time, 'h' || i % 100 AS hostname, 'r' AS region, (i % 97)::DOUBLE AS usage_user,
  0::DOUBLE AS usage_idle, i AS procs, 0::DECIMAL(38,4) AS price FROM range(${ROWS}) r(i)`
const host = await testHost([[CPU, rows]])

const time = async (rounds: number, body: () => Promise<unknown>): Promise<number> => {
  await body()
  const began = performance.now()
  for (let i = 0; i < rounds; i++) await body()
  return (performance.now() - began) / rounds
}

const during = `_time >= timestamp '2024-01-01T00:00:00Z' AND _time < timestamp '2024-01-01T12:00:00Z'`
for (const [name, sql] of [
  ['point', `SELECT time_bucket(INTERVAL '1 minute', _time) AS t, max(usage_user) FROM cpu WHERE hostname = 'h1' AND ${during} GROUP BY 1 ORDER BY 1`],
  ['count', `SELECT count(*) FROM cpu WHERE usage_user > 90 AND ${during}`],
  ['lastpoint', 'SELECT hostname, max(_time), arg_max(usage_user, _time) FROM cpu GROUP BY hostname ORDER BY hostname'],
]) {
  console.log(`prepare ${name}: ${(await time(ROUNDS, () => prepareSql(host, 'default', sql))).toFixed(3)} ms`)
}
for (const width of [`'1h'`, `'1h', 'Europe/Berlin'`, `'1d', 'Europe/Berlin'`, `'1mo'`]) {
  const [first, zone] = width.split(', ')
  const call = `time_bucket(${[first, '_time', zone].filter(Boolean).join(', ')})`
  for (const [what, where] of [
    ['', ''],
    [' with a lower bound', ` WHERE ${during}`],
  ]) {
    const ms = await time(5, () => host.query(`SELECT ${call}, avg(usage_user) FROM cpu${where} GROUP BY 1`))
    console.log(`${call} over ${ROWS / 1e6} M rows${what}: ${ms.toFixed(1)} ms`)
  }
}
host.close()
