/** Statements for newest rows, from what is known of the series, as DuckDB answers them. */
import t from 'tap'
import type { Random } from '../../conformance/random.ts'
import { LANE_START, LaneHarness, type Tried } from './testing/lane.ts'
import type { LaneStatement } from './testing/lane-statements.ts'

const { SVC_SEED } = process.env
const first = SVC_SEED === undefined ? Date.now() % 1e9 : Number(SVC_SEED)
const STEP_MS = 10_000

/** The same rows behind a subquery are DuckDB's to group. */
function pair(sql: string, table: string, ordered: boolean): LaneStatement {
  return { sql, inDuckDb: sql.replace(`FROM ${table}`, `FROM (SELECT * FROM ${table}) AS ${table}`), ordered }
}

function whereOf(random: Random): string {
  const conditions: string[] = []
  if (random.chance(0.2)) conditions.push(`region = '${random.pick(['eu', 'us', 'none'])}'`)
  if (random.chance(0.2)) conditions.push(`host IN ('a', 'ä', 'c')`)
  if (random.chance(0.3)) conditions.push(`_time >= make_timestamp_ns(${LANE_START + BigInt(random.below(600) * STEP_MS) * 1_000_000n})`)
  if (random.chance(0.1)) conditions.push(`_time <= make_timestamp_ns(${LANE_START + BigInt(random.below(800) * STEP_MS) * 1_000_000n})`)
  return conditions.length === 0 ? '' : ` WHERE ${conditions.join(' AND ')}`
}

/** The values of tags that rows have. */
function valuesStatement(random: Random): LaneStatement {
  const table = random.pick(['cpu', 'one'])
  const where = whereOf(random)
  const tags = random.pick([['host'], ['region'], ['host', 'region'], ['region', 'host', 'region']])
  const items = tags.map((tag) => (random.chance(0.2) ? `${tag} AS "x ${tag}"` : tag)).join(', ')
  const dice = random.next()
  if (dice < 0.3) {
    const counts = tags.map((tag) => `count(DISTINCT ${tag})${random.chance(0.2) ? ' AS n' : ''}`).join(', ')
    return pair(`SELECT ${counts}${random.chance(0.2) ? ', count(*)' : ''} FROM ${table}${where}`, table, true)
  }
  const ordered = random.chance(0.6)
  const order = ordered ? ` ORDER BY ${[...new Set(tags)].map((tag) => tag + random.pick(['', ' DESC', ' NULLS FIRST'])).join(', ')}` : ''
  const end = ordered && random.chance(0.5) ? ` LIMIT ${random.below(5)} OFFSET ${random.below(3)}` : ''
  if (dice < 0.6) return pair(`SELECT DISTINCT ${items} FROM ${table}${where}${order}${end}`, table, ordered)
  return pair(`SELECT ${items} FROM ${table}${where} GROUP BY ${tags.join(', ')}${order}${end}`, table, ordered)
}

function newestStatement(random: Random): LaneStatement {
  if (random.chance(0.25)) return valuesStatement(random)
  const table = random.pick(['cpu', 'cpu', 'one'])
  const fields = table === 'one' ? ['u_a'] : ['u_a', 'u_b', 'n']
  const where = whereOf(random)
  const end = random.chance(0.3) ? ` LIMIT ${random.below(6)}${random.chance(0.5) ? ` OFFSET ${random.below(3)}` : ''}` : ''
  // Several series of a region have a row of the newest time: only the time is certain then.
  const alone = random.chance(0.7)
  const nulls = random.pick(['', '', ' NULLS FIRST', ' NULLS LAST'])
  const direction = random.pick(['', ' ASC', ' DESC']) + nulls
  const dice = random.next()
  if (dice < 0.5) {
    const by = alone ? random.pick([['host', 'region'], ['region', 'host'], ['host']]) : ['region']
    const picked = fields.filter(() => random.chance(0.7))
    const some = picked.map((field) => `${random.pick(['arg_max', 'max_by', 'last'])}(${field}, _time)${random.chance(0.5) ? ` AS x_${field}` : ''}`)
    const items = [...by.filter(() => random.chance(0.9)), 'max(_time)', ...(alone ? some : [])]
    if (random.chance(0.3) && alone && table === 'cpu') items.push('arg_max(u_a, _time)', 'arg_max(n, _time)')
    const key = random.pick([by.join(`${direction}, `) + direction, `max(_time)${direction}, ${by.join(', ')}`])
    const ordered = end !== '' || random.chance(0.6)
    return pair(
      `SELECT ${items.join(', ')} FROM ${table}${where} GROUP BY ${by.join(', ')}${ordered ? ` ORDER BY ${key}` : ''}${ordered ? end : ''}`,
      table,
      ordered,
    )
  }
  const columns =
    random.chance(0.2) && table === 'one' ? '*' : ['host', '_time', 'region', ...fields].filter((name) => name === 'host' || random.chance(0.7)).join(', ')
  const by = random.pick(['host, region', 'region, host'])
  if (dice < 0.75) {
    const order = `${by.replaceAll(',', `${direction},`)}${direction}, _time DESC`
    const behind = random.chance(0.2) ? `, ${random.pick([by, 'region DESC', 'u_a', '_time'])}` : ''
    if (random.chance(0.2)) {
      const apart = `_time DESC, ${random.pick(['u_a', 'u_a DESC NULLS LAST', 'host DESC'])}, host`
      return pair(`SELECT DISTINCT ON (region) ${columns} FROM ${table}${where} ORDER BY region${direction}, ${apart}${end}`, table, true)
    }
    return pair(`SELECT DISTINCT ON (${by}) ${columns} FROM ${table}${where} ORDER BY ${order}${behind}${end}`, table, true)
  }
  const latest = random.chance(0.5)
  const ordered = latest ? false : random.chance(0.5)
  const tail = ordered ? ` ORDER BY host${direction}, region` : ''
  const qualify = `QUALIFY row_number() OVER (PARTITION BY ${by} ORDER BY _time DESC) = 1`
  const { inDuckDb } = pair(`SELECT ${columns} FROM ${table}${where} ${qualify}${tail}`, table, ordered)
  return { sql: `SELECT ${columns} FROM ${table}${where} ${latest ? `LATEST ON _time PARTITION BY ${by}` : qualify}${tail}`, inDuckDb, ordered }
}

t.test('the newest rows are those that DuckDB finds', { timeout: 60_000 }, async (t) => {
  const counts: Record<Tried['outcome'], number> = { samples: 0, duckdb: 0, refused: 0 }
  for (let seed = first; seed < first + Number(process.env.SVC_RUNS ?? 3); seed++) {
    const harness = new LaneHarness(seed)
    try {
      for (let change = 0; change < 5; change++) {
        await harness.change()
        for (let i = 0; i < 6; i++) {
          const { problem, sql, namespace, outcome } = await harness.tryOne(newestStatement)
          counts[outcome]++
          if (problem !== undefined) return t.fail(`SVC_SEED=${seed} in "${namespace}", ${outcome}: ${problem}\n${sql}`)
        }
      }
    } finally {
      harness.close()
    }
  }
  t.equal(counts.refused, 0)
  t.ok(counts.samples > counts.duckdb, `SVC_SEED=${first} ${JSON.stringify(counts)}`)
})

/** Statements around one for newest rows. What is in it twice is in the other twice, too. */
function around(random: Random): LaneStatement {
  const { sql: one, inDuckDb: other, ordered: inner } = newestStatement(random)
  const pairOf = (build: (query: string) => string, ordered = false): LaneStatement => ({ sql: build(one), inDuckDb: build(other), ordered })
  // Of an order with equals nothing is certain behind a limit.
  if (inner && / LIMIT /.test(one)) return pairOf((query) => `SELECT count(*) FROM (${query}) AS x`)
  return random.pick([
    () => pairOf((query) => `SELECT * FROM (${query}) AS x`),
    () => pairOf((query) => `WITH x AS (${query}) SELECT * FROM x`),
    () => pairOf((query) => `SELECT * FROM (${query}) AS x UNION ALL SELECT * FROM (${query}) AS y`),
    () => pairOf((query) => `SELECT count(*) FROM (${query}) AS x, (SELECT count(*) FROM cpu) AS c(n) WHERE n > 10`),
    () => pairOf((query) => `SELECT n, EXISTS (${query}) FROM (SELECT count(*) AS n FROM one) AS c`),
    () => pairOf((query) => `SELECT * FROM (SELECT * FROM (${query}) AS x LIMIT 1000) AS y`),
  ])()
}

t.test('queries for newest rows within a statement find those of all rows', { timeout: 60_000 }, async (t) => {
  let tried = 0
  for (let seed = first; seed < first + Number(process.env.SVC_RUNS ?? 3); seed++) {
    const harness = new LaneHarness(seed)
    try {
      for (let change = 0; change < 5; change++) {
        await harness.change()
        for (let i = 0; i < 6; i++, tried++) {
          const { problem, sql, namespace } = await harness.tryWhole(around)
          if (problem !== undefined) return t.fail(`SVC_SEED=${seed} in "${namespace}": ${problem}\n${sql}`)
        }
      }
    } finally {
      harness.close()
    }
  }
  t.ok(tried > 0, `SVC_SEED=${first}`)
})

t.test('what only looks like a statement for newest rows is left to others, and answered right', { timeout: 60_000 }, async (t) => {
  const harness = new LaneHarness(first)
  t.teardown(() => harness.close())
  await harness.change()
  for (const statement of [
    'SELECT DISTINCT ON (host, region) host, region, _time FROM cpu ORDER BY host, region, _time',
    'SELECT DISTINCT ON (host, region) host, region, _time FROM cpu ORDER BY host, region, _time ASC, _time DESC',
    'SELECT host, region, _time FROM cpu QUALIFY row_number() OVER (PARTITION BY host, region ORDER BY _time) = 1 ORDER BY host, region',
    'SELECT host, region, _time FROM cpu QUALIFY row_number() OVER (PARTITION BY host, region ORDER BY _time DESC) = 2 ORDER BY host, region',
    "SELECT host, region, max(_time) FROM cpu WHERE host <> 'a' GROUP BY host, region ORDER BY host, region",
    "SELECT host, region, max(_time) FROM cpu WHERE host NOT LIKE 'a%' GROUP BY host, region ORDER BY host, region",
    "SELECT host, region, max(_time) FROM cpu WHERE host > 'a' GROUP BY host, region ORDER BY host, region",
    "SELECT host, region, max(_time) FROM cpu WHERE host = 'a' OR region = 'us' GROUP BY host, region ORDER BY host, region",
    'SELECT host, region, max(_time) FROM cpu WHERE u_a > 50 OR n < 3 GROUP BY host, region ORDER BY host, region',
    'SELECT host, region, max(_time) FROM cpu WHERE u_a > 50 GROUP BY host, region ORDER BY host, region',
  ]) {
    const { problem, outcome } = await harness.tryOne(() => pair(statement, 'cpu', true))
    t.equal(problem, undefined, `SVC_SEED=${first}: ${statement}`)
    t.equal(outcome, 'duckdb', statement)
  }
})
