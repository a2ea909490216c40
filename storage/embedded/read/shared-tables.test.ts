/**
 * Namespaces whose measurements share a table: whatever a caller computes with its values, DuckDB computes nothing with those of others, which errors, answers and
 * plans would tell of. Each answer is that of an engine that has the caller's rows alone, and in memory.
 */
import { seeded } from 'svcdb/lib/random'
import t from 'tap'
import { fill, i64, NOW, str, type TestPoint, type TestValue } from '../../conformance/points.ts'
import type { EmbeddedEngine } from '../engine.ts'
import type { Decoded } from '../testing/decoded-job.ts'
import { closeAndRemove, openEngine, tempDir } from '../testing/harness.ts'

const JOB = new URL('../testing/decoded-job.ts', import.meta.url)
const SEED = Number(process.env.SVC_SEED ?? Date.now() % 1_000_000)
/** For each state of the data. */
const STATEMENTS = Number(process.env.SVC_STATEMENTS ?? 10)
const ROWS = 6000
/** Of values of others, and of no others. */
const SECRET = /zqsecret|77700/
const CONFIG = { row_group_rows: 16_384, compaction_fan_in: 2, maintenance_interval_secs: 3600, query_threads: 1, result_cache_size: 0 }
t.setTimeout(300_000)

const UNITS = ['day', 'hour', 'minute', 'month']
const AT = "'2020-01-01'"
/** By the names of measurements, what may be computed with each value of theirs and fails for others. */
const EXPRESSIONS: Record<string, string[]> = {
  units: [
    ...['TIMESTAMP_NS', 'TIMESTAMP', 'TIMESTAMPTZ', 'DATE'].map((type) => `date_trunc(value, ${AT}::${type})`),
    ...['date_diff', 'date_sub'].flatMap((name) => ['TIMESTAMP_NS', 'DATE', 'TIMESTAMPTZ'].map((type) => `${name}(value, ${AT}::${type}, ${AT}::${type})`)),
    ...['date_trunc(value, _time)', 'date_part(value, _time)', "date_trunc(lower(value), now()) > '2000-01-01'", "date_trunc(value, INTERVAL '1 day')"],
    ...['date_trunc(value, CAST($1 AS TIMESTAMPTZ))', 'try(date_trunc(value, now())) IS NULL'],
  ],
  digits: [
    ...['INTEGER', 'DOUBLE', 'DECIMAL(9,2)', 'UTINYINT', 'INTERVAL', 'DATE', 'BOOLEAN'].map((type) => `value::${type}`),
    ...["strptime(value, '%d')", '1 / (value::INTEGER - 100)', 'sqrt(10 - value::INTEGER)', "'1 ' || $1 || value", 'unicode(value)::UTINYINT'],
  ],
  numbers: [
    ...['value::UTINYINT', 'value::TINYINT', 'to_days(value::INTEGER)', 'make_date(2000, value, 1)', 'sqrt(10 - value)'],
    ...['value + 9223372036854775000', 'value * 1000000000000000000', "_time + value * INTERVAL '30 years'", '1::TINYINT << value'],
  ],
}
/** These run in an engine process. */
const APART: Record<string, string[]> = {
  units: ["regexp_replace('day', value, 'x')"],
  digits: [
    ...['UUID', 'BIT', 'BLOB', 'JSON', 'INTEGER[]'].map((type) => `value::${type}`),
    ...[
      "json_extract(value, '$')",
      'from_hex(value)',
      'unbin(value)',
      'from_base64(value)',
      'url_decode(value)',
      "hamming(value, '1')",
      "['a', 'b'][value::INTEGER]",
    ],
    ...[
      "'x' LIKE 'y' ESCAPE value",
      "regexp_matches('1', value)",
      'format(value, 1)',
      'chr(value::INTEGER)',
      "repeat('a', value::INTEGER)",
      "map([value, 'x'], [1, 2])",
    ],
  ],
  numbers: ['chr(value::INTEGER)', 'factorial(value::INTEGER)', "['a', 'b'][value]"],
}
const PLACES: ((x: string, m: string) => string)[] = [
  (x, m) => `SELECT (${x})::VARCHAR AS x, count(*) FROM ${m} GROUP BY 1`,
  (x, m) => `SELECT count(*) FROM ${m} WHERE (${x}) IS NOT NULL`,
  (x, m) => `SELECT count(*) FROM ${m} WHERE length(value::VARCHAR) < 50 AND (${x}) IS NOT NULL AND (${x})::VARCHAR <> 'zz' AND hash(value) <> 0`,
  (x, m) => `SELECT host, count(*) FROM ${m} WHERE host <> 'h0' AND (${x}) IS NOT NULL GROUP BY host HAVING max((${x})::VARCHAR) IS NOT NULL`,
  (x, m) => `SELECT value FROM ${m} ORDER BY (${x})::VARCHAR, value LIMIT 3`,
  (x, m) => `SELECT count((${x})) FILTER (WHERE (${x}) IS NOT NULL), count(*) FROM ${m}`,
  (x, m) => `SELECT count(CASE WHEN value IS NOT NULL THEN (${x}) END) FROM ${m}`,
  (x, m) => `SELECT count(y) FROM (SELECT (${x}) AS y FROM (SELECT * FROM ${m} LIMIT 4000))`,
  (x, m) => `SELECT count(*) FROM (SELECT (${x}) AS y, row_number() OVER (PARTITION BY host ORDER BY _time) AS n FROM ${m}) WHERE y IS NOT NULL AND n > 5`,
  (x, m) => `SELECT count(*) FROM (SELECT (${x})::VARCHAR AS y FROM ${m}) a JOIN (SELECT DISTINCT value::VARCHAR AS v FROM ${m}) b ON a.y = b.v`,
  (x, m) => `WITH w AS (SELECT *, lag(value) OVER (ORDER BY _time) AS before FROM ${m}) SELECT count(*) FROM w WHERE (${x}) IS NOT NULL AND before IS NOT NULL`,
]

const VALUES: Record<string, [own: (i: number) => TestValue, theirs: (i: number) => TestValue]> = {
  units: [(i) => str(UNITS[i % 4]), (i) => str(`zqsecret-${i % 60}`)],
  digits: [(i) => str(String((i % 2) + 1)), (i) => str(`\\xZzqsecret-${i % 3000}`)],
  numbers: [(i) => i64(BigInt((i % 2) + 1)), (i) => i64(777_000_000n + BigInt(i % 60))],
}

async function put(engine: EmbeddedEngine, namespace: string, from: number, to: number): Promise<void> {
  const own = namespace === 'a'
  for (const [measurement, values] of Object.entries(VALUES)) {
    const points = Array.from({ length: to - from }, (_, j): TestPoint => {
      const i = from + j
      return { measurement, tags: { host: `h${i % 3}` }, time: NOW - BigInt(i) * 1_000_000n, fields: { value: values[own ? 0 : 1](i) } }
    })
    const { batch, refused } = fill(engine, points, namespace)
    if (refused.length > 0) throw new Error(refused[0].message)
    await engine.write(batch, { backfill: true })
  }
}

async function answer(engine: EmbeddedEngine, query: string): Promise<string> {
  const parameters = query.includes('$1') ? ['2020-01-01'] : []
  try {
    const { rows } = await engine.run<Decoded>(JOB, { namespace: 'a', query, parameters }, { timeoutMs: 60_000 }).result
    return rows
      .map((row) => JSON.stringify(row, (_, value) => (typeof value === 'bigint' ? String(value) : value)))
      .sort()
      .join('\n')
  } catch (error) {
    return `error: ${(error as Error).message}`
  }
}

t.test(`errors and answers tell nothing of other namespaces: SVC_SEED=${SEED}`, async (t) => {
  const random = seeded(SEED)
  const dirs = [tempDir(), tempDir()]
  const [engine, alone] = await Promise.all(dirs.map((dir) => openEngine(dir, CONFIG)))
  t.teardown(() => Promise.all([engine, alone].map((each, i) => closeAndRemove(each, dirs[i]))))
  const write = async (from: number, to: number): Promise<void> => {
    for (const namespace of ['b', 'a', 'c']) await put(engine, namespace, from, to)
    await put(alone, 'a', from, to)
  }
  const both = <T>(what: (engine: EmbeddedEngine) => Promise<T>) => Promise.all([engine, alone].map(what))
  const states: [string, () => Promise<unknown>][] = [
    ['in memory', () => write(0, ROWS)],
    ['flushed', () => engine.flush()],
    ['late', () => write(ROWS / 2, ROWS)],
    ['late and flushed', () => engine.flush()],
    [
      'deleted in part',
      () =>
        both(async (each) => {
          for (let k = 1; k < 4; k++)
            for (const measurement of Object.keys(VALUES)) {
              const start = NOW - BigInt(k * 1000) * 1_000_000n
              await each.delete({ namespace: 'a', measurement, matchers: [{ tag: 'host', op: '=', value: `h${k % 3}` }], start, end: start + 100_000_000n })
            }
        }),
    ],
  ]
  const pick = <T>(list: readonly T[]): T => list[Math.floor(random() * list.length)]
  for (const [state, reach] of states) {
    await reach()
    for (let n = 0; n < STATEMENTS; n++) {
      const m = pick(Object.keys(EXPRESSIONS))
      const query = pick(PLACES)(pick((n === 0 ? APART : EXPRESSIONS)[m]), m)
      const [got, expected] = await both((each) => answer(each, query))
      if (SECRET.test(got) || (got !== expected && !(got.startsWith('error: ') && expected.startsWith('error: '))))
        t.same({ state, query, got }, { got: expected })
    }
    for (const [m, low, high] of [
      ['digits', "'3'", "'zz'"],
      ['numbers', '100', '777000100'],
    ]) {
      const [near, far] = await Promise.all([low, high].map((value) => answer(engine, `EXPLAIN SELECT count(*) FROM ${m} WHERE value > ${value}`)))
      t.equal(/EMPTY_RESULT/.test(far), /EMPTY_RESULT/.test(near), `${state}: the plan is the same beyond the values of others`)
    }
  }
})
