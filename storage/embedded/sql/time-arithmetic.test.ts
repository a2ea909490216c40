import type { SqlParameter } from 'svcdb'
import t from 'tap'
import { MAX_TIME } from './host.ts'
import { prepareSql } from './prepare.ts'
import { type TestHost, testHost } from './testing/host.ts'

const SECOND = 1_000_000_000n
const HOUR = 3600n * SECOND
const DAY = 24n * HOUR
/** 2025-12-31T00:00:00.000000001Z and each second and a nanosecond after it. */
const START = 1_767_139_200_000_000_001n
const STEP = SECOND + 1n

let host: TestHost
t.before(async () => {
  host = await testHost([
    [
      {
        name: 'm',
        columns: [
          { name: '_time', role: 'time' },
          { name: 'host', role: 'tag' },
          { name: 'n', role: 'field', type: 'int64' },
        ],
      },
      `SELECT make_timestamp_ns(${START} + i * ${STEP}) AS _time, 'h' AS host, i::BIGINT AS n FROM range(8) r(i)`,
    ],
  ])
})
t.after(() => host.close())

const rowsOf = async (query: string, parameters?: SqlParameter[]): Promise<unknown[][]> => (await host.query(query, { parameters })).rows

t.test('an interval before now, in all its spellings', async (t) => {
  const now = host.clock // 2026-01-01T00:00:00Z
  for (const [text, instant] of [
    ["now() - INTERVAL '1' DAY", now - DAY],
    ['now() - INTERVAL 1 DAY', now - DAY],
    ["now() - INTERVAL '1 day'", now - DAY],
    ["now() - INTERVAL '1' DAYS", now - DAY],
    ["NOW() - interval '24' hour", now - DAY],
    ["now() - INTERVAL '1 day 2 hours'", now - DAY - 2n * HOUR],
    ["now() - INTERVAL '1 day 02:00:00'", now - DAY - 2n * HOUR],
    ['now() - INTERVAL (5) MINUTE', now - 300n * SECOND],
    ['now() - INTERVAL (2 * 60 + 3) SECOND', now - 123n * SECOND],
    ['now() - to_days(1)', now - DAY],
    ["now() - 3 * INTERVAL '1 hour'", now - 3n * HOUR],
    ["now() - INTERVAL '1 hour' * 3", now - 3n * HOUR],
    ["now() + -INTERVAL '1 hour'", now - HOUR],
    ["now() + INTERVAL '-1' HOUR", now - HOUR],
    ["INTERVAL '-1 hour' + now()", now - HOUR],
    ["now() - (INTERVAL '1 hour' + INTERVAL '1' MINUTE)", now - HOUR - 60n * SECOND],
    ["now() - INTERVAL '1 hour' - INTERVAL '1' MINUTE", now - HOUR - 60n * SECOND],
    ["now() - '1 day'::INTERVAL", now - DAY],
    ["now() - CAST('1 day' AS INTERVAL)", now - DAY],
    ["now() - INTERVAL '1.5' SECOND", now - 1_500_000_000n],
    ["now() - INTERVAL '1.5 hours'", now - HOUR - HOUR / 2n],
    ["now() - INTERVAL '5 nanoseconds'", now - 5n],
    ["CURRENT_TIMESTAMP - INTERVAL '1' DAY", now - DAY],
    ["current_timestamp - INTERVAL '1' DAY", now - DAY],
    ["LOCALTIMESTAMP - INTERVAL '1' DAY", now - DAY],
    ["get_current_timestamp() - INTERVAL '1' DAY", now - DAY],
    ["transaction_timestamp() - INTERVAL '1' DAY", now - DAY],
    ["now()::TIMESTAMP - INTERVAL '1' DAY", now - DAY],
    ["CAST(now() AS TIMESTAMP) - INTERVAL '1' DAY", now - DAY],
    ["now()::TIMESTAMP_NS - INTERVAL '1' DAY", now - DAY],
    ["now() AT TIME ZONE 'UTC' - INTERVAL '1' DAY", now - DAY],
    ["(now() - INTERVAL '1' DAY)::TIMESTAMP", now - DAY],
    ["current_date - INTERVAL '1' DAY", now - DAY],
    ['current_date - 1', now - DAY],
    ['today() - 1', now - DAY],
    ["current_date::TIMESTAMP - INTERVAL '6 hours'", now - 6n * HOUR],
    ["ago(INTERVAL '1' DAY)", now - DAY],
    ["date_add(now(), INTERVAL '-1' DAY)", now - DAY],
    ["date_trunc('hour', now() - INTERVAL '90 minutes')", now - 2n * HOUR],
    ["date_trunc('month', now() - INTERVAL '1 day')", 1_764_547_200n * SECOND],
    ["time_bucket('1h', now() - INTERVAL '90 minutes')", now - 2n * HOUR],
    // Months by the calendar: November has 30 days.
    ["TIMESTAMP '2026-03-31 00:00:00' - INTERVAL '4' MONTH", 1_764_460_800n * SECOND],
    ["now() - INTERVAL '1' MONTH", 1_764_547_200n * SECOND],
    ["now() - INTERVAL '1' YEAR", 1_735_689_600n * SECOND],
    ["now() - INTERVAL '1' QUARTER", 1_759_276_800n * SECOND],
    ["TIMESTAMP '2025-12-31T00:00:00.000000003Z' - INTERVAL '1' MICROSECOND", 1_767_139_200_000_000_003n - 1000n],
  ] as [string, bigint][]) {
    const wanted = [0n, 1n, 2n, 3n, 4n, 5n, 6n, 7n].filter((i) => START + i * STEP > instant).length
    t.strictSame(await rowsOf(`SELECT count(*) FROM m WHERE _time > ${text}`), [[BigInt(wanted)]], text)
    t.strictSame(host.requests[0].time, [instant + 1n, MAX_TIME], `${text} prunes`)
    t.strictSame(await rowsOf(`SELECT count(*) FROM m WHERE ${text} < _time`), [[BigInt(wanted)]], `${text} on the left`)
    t.strictSame(host.requests[0].time, [instant + 1n, MAX_TIME])
    t.strictSame(await rowsOf(`SELECT count(*) FROM (SELECT * FROM m) x WHERE NOT (x._time <= ${text})`), [[BigInt(wanted)]], `${text} without pruning`)
  }
})

t.test('what is not constant is a predicate as well', async (t) => {
  for (const [where, count] of [
    ["_time > (SELECT max(_time) - INTERVAL '2 seconds' FROM m)", 2n],
    ["_time >= (SELECT max(_time) FROM m) - INTERVAL '2 seconds'", 2n],
    ["_time > (SELECT now() - INTERVAL '1' YEAR)", 8n],
    ["(SELECT max(_time) FROM m) - INTERVAL '2 seconds' < _time", 2n],
    ['_time < now() - to_days(n::INTEGER)', 1n],
    ['_time > now() - INTERVAL (n) HOUR', 0n],
    ['now() BETWEEN _time AND _time + INTERVAL 1 DAY', 8n],
    ["_time IN (now(), (SELECT min(_time) FROM m), '2025-12-31T00:00:01.000000002Z')", 2n],
    ["_time = ANY (SELECT _time + INTERVAL '1 second' FROM m)", 0n],
    ["_time - INTERVAL '1 second' = ANY (SELECT _time + INTERVAL '0 seconds' FROM m)", 0n],
    [`_time - make_timestamp_ns(${START}) > INTERVAL '2 seconds'`, 6n],
    [`INTERVAL '2 seconds' >= _time - make_timestamp_ns(${START})`, 2n],
    [`_time - make_timestamp_ns(${START}) BETWEEN INTERVAL 1 SECOND AND '3 seconds'::INTERVAL`, 2n],
    ["_time + INTERVAL '10' YEAR > now()", 8n],
    ["_time < TIMESTAMP '2500-01-01'", 8n],
    ["_time > TIMESTAMP '1500-01-01' - INTERVAL '5' YEAR", 8n],
    ["_time < now() + INTERVAL '1000' YEAR", 8n],
  ] as [string, bigint][]) {
    t.strictSame(await rowsOf(`SELECT count(*) FROM m WHERE ${where}`), [[count]], where)
  }
})

t.test('nanoseconds stay nanoseconds', async (t) => {
  const [first, last] = [START, START + 7n * STEP]
  for (const [expression, value, type = 'Timestamp(ns)'] of [
    ["min(_time) + INTERVAL '1 hour'", first + HOUR],
    ["INTERVAL '1 hour' + min(_time)", first + HOUR],
    ["min(_time) - INTERVAL '1 hour'", first - HOUR],
    ["min(_time) + INTERVAL '1 month'", first + 31n * DAY],
    ["min(_time) - INTERVAL '1 month'", first - 31n * DAY],
    ["min(_time) - INTERVAL '3 months'", first - 92n * DAY],
    ["min(_time) + INTERVAL '2 months'", first + 59n * DAY, 'Timestamp(ns)'],
    ['min(_time) + to_hours(max(n))', first + 7n * HOUR],
    ["min(_time) + INTERVAL '5 nanoseconds'", first + 5n],
    ["add(min(_time), INTERVAL '1 hour')", first + HOUR],
    ["date_add(min(_time), INTERVAL '1 hour')", first + HOUR],
    ["date_trunc('minute', max(_time))", START - 1n],
    ["date_trunc('microsecond', max(_time))", last - 8n],
    ["date_trunc('nanosecond', max(_time))", last],
    ["date_trunc('month', max(_time))", 1_764_547_200n * SECOND],
    ["date_trunc(min(CASE WHEN n >= 0 THEN 'second' END), max(_time))", last - 8n],
    ["time_bucket('1s', max(_time))", last - 8n],
    ["TIMESTAMP '2024-01-01T00:00:00.123456789Z' + INTERVAL 1 DAY", 1_704_153_600_123_456_789n],
    ["'2024-01-01 00:00:00.123456789'::TIMESTAMP_NS - INTERVAL 1 DAY", 1_703_980_800_123_456_789n],
    ["make_timestamp_ns(5) + INTERVAL '1 second'", SECOND + 5n],
    ['coalesce(NULL, max(_time), now())', last],
    ['coalesce(CASE WHEN max(n) < 0 THEN max(_time) END, now())', 1_767_225_600n * SECOND],
    ['ifnull(max(_time), now())', last],
    ['greatest(max(_time), now())', 1_767_225_600n * SECOND],
    ['least(max(_time), now())', last],
    ['CASE WHEN count(*) > 0 THEN max(_time) ELSE now() END', last],
    ['([max(_time)])[1] + INTERVAL 1 HOUR', last + HOUR],
    ["struct_extract({'a': max(_time)}, 'a') - INTERVAL 1 HOUR", last - HOUR],
    ['list_transform(list(_time ORDER BY _time), lambda x: x + INTERVAL 1 HOUR)[1]', first + HOUR],
    ['avg(_time)', START + (28n * STEP) / 8n],
    ['avg(_time) FILTER (WHERE n > 5)', START + (13n * STEP) / 2n],
    ['median(_time)', START + 3n * STEP + STEP / 2n],
    ['quantile_disc(_time, 0.5)', START + 3n * STEP],
    ['arg_max(_time, n) + INTERVAL 1 HOUR', last + HOUR],
    ['max(_time) - min(_time)', { months: 0, days: 0, nanoseconds: 7_000_000_000n }, 'Interval'],
    ["date_diff('second', min(_time), max(_time))", 7n, 'Int64'],
    ["date_diff('nanosecond', min(_time), max(_time))", 7n * STEP, 'Int64'],
    ["date_sub('second', min(_time), max(_time) - INTERVAL '7 nanoseconds')", 7n, 'Int64'],
    ["date_sub('second', min(_time), max(_time) - INTERVAL '8 nanoseconds')", 6n, 'Int64'],
    ["date_sub('month', min(_time), max(_time) + INTERVAL '59 days')", 2n, 'Int64'],
    ["date_diff('day', max(_time), now())", 1n, 'Int64'],
    ["date_part('nanosecond', max(_time))", 7n * SECOND + 8n, 'Int64'],
    ['nanosecond(max(_time))', 7n * SECOND + 8n, 'Int64'],
    ['extract(second FROM max(_time))', 7n, 'Int64'],
    ["date_part(['hour', 'second'], max(_time)).second", 7n, 'Int64'],
    ['epoch_ns(max(_time))', last, 'Int64'],
    ['epoch_us(max(_time))', last / 1000n, 'Int64'],
    ['max(_time)::TIMESTAMP', last / 1000n, 'Timestamp(us)'],
    ['max(_time)::TIMESTAMP_S', last / SECOND, 'Timestamp(s)'],
    ['max(_time)::TIMESTAMPTZ', last / 1000n, 'Timestamp(us, UTC)'],
    ['max(_time)::TIMESTAMP::TIMESTAMP_NS', last - 8n],
  ] as [string, unknown, string?][]) {
    const { rows, types } = await host.query(`SELECT ${expression} AS x FROM m`)
    t.same([rows[0][0], types[0]], [value, type], expression)
  }
})

t.test('before 1970 too, times are rounded down', async (t) => {
  const at = 'make_timestamp_ns(-1)'
  for (const [expression, value] of [
    [`hour(${at})`, 23n],
    [`year(${at})`, 1969n],
    [`epoch_us(${at})`, -1n],
    [`epoch_ns(date_trunc('minute', ${at}))`, -60n * SECOND],
    [`epoch_ns(date_trunc('year', ${at}))`, -365n * DAY],
    [`${at}::TIMESTAMP`, -1n],
    [`epoch_ns(${at}::DATE)`, -DAY],
    [`date_diff('day', ${at}, make_timestamp_ns(0))`, 1n],
  ] as [string, bigint][]) {
    t.strictSame(await rowsOf(`SELECT ${expression}`), [[value]], expression)
  }
})

t.test('frames of windows by time', async (t) => {
  const counts = async (frame: string): Promise<unknown[]> =>
    (await rowsOf(`SELECT count(*) OVER (ORDER BY _time RANGE BETWEEN ${frame}) FROM m ORDER BY _time`)).map(([n]) => n)
  // The rows are a second and a nanosecond apart.
  t.strictSame(await counts("INTERVAL '1 second' PRECEDING AND CURRENT ROW"), [1n, 1n, 1n, 1n, 1n, 1n, 1n, 1n])
  t.strictSame(await counts("INTERVAL '1000001 us' PRECEDING AND CURRENT ROW"), [1n, 2n, 2n, 2n, 2n, 2n, 2n, 2n])
  t.strictSame(await counts("CURRENT ROW AND INTERVAL '2 seconds' FOLLOWING"), [2n, 2n, 2n, 2n, 2n, 2n, 2n, 1n])
  t.strictSame(await counts('INTERVAL 1 MONTH PRECEDING AND INTERVAL 1 MONTH FOLLOWING'), [8n, 8n, 8n, 8n, 8n, 8n, 8n, 8n])
  t.strictSame(await rowsOf("SELECT lag(_time) OVER (ORDER BY _time) + INTERVAL '1 second' FROM m ORDER BY _time LIMIT 2"), [[null], [START + SECOND]])
  t.strictSame(await rowsOf('SELECT avg(_time) OVER (ORDER BY n ROWS 1 PRECEDING) FROM m ORDER BY n LIMIT 2'), [[START], [START + STEP / 2n]])
  t.strictSame(await rowsOf("SELECT count(*) FROM (SELECT _time - lag(_time) OVER (ORDER BY _time) AS gap FROM m) WHERE gap > INTERVAL '1 second'"), [[0n]])
  t.strictSame(
    await rowsOf("SELECT n FROM m QUALIFY _time - lag(_time) OVER (ORDER BY _time) > INTERVAL '1 second' ORDER BY n LIMIT 1"),
    [[1n]],
    'compared where it is computed, a difference has its nanoseconds',
  )
})

t.test('parameters', async (t) => {
  const last = START + 7n * STEP
  for (const [query, parameters, value] of [
    ["SELECT ? + INTERVAL '1 hour'", [{ timestamp: 5n }], HOUR + 5n],
    ["SELECT date_trunc('second', ?)", [{ timestamp: SECOND + 5n }], SECOND],
    ['SELECT max(_time) + to_hours(?) FROM m', [2n], last + 2n * HOUR],
    ['SELECT max(_time) + CAST(? AS INTERVAL) FROM m', ['2 hours'], last + 2n * HOUR],
    ['SELECT greatest(max(_time), ?) FROM m', [{ timestamp: last + 1n }], last + 1n],
    ["SELECT count(*) FROM m WHERE _time > ? - INTERVAL '1 second'", [{ timestamp: last }], 1n],
    ["SELECT count(*) FROM m WHERE _time - INTERVAL '1 second' > ?", [START], 7n],
    ["SELECT count(*) FROM m WHERE _time + INTERVAL '1 second' > ?", ['2025-12-31T00:00:02.000000002Z'], 6n],
    ['SELECT count(*) FROM m WHERE _time BETWEEN ? AND ?', [START, { timestamp: START + STEP }], 2n],
    ["SELECT count(*) FROM m WHERE _time > now() - INTERVAL '1 minute' * ?", [60n], 0n],
    ["SELECT count(*) FROM m WHERE date_trunc('second', _time) = ?", ['2025-12-31T00:00:01Z'], 1n],
  ] as [string, SqlParameter[], bigint][]) {
    t.strictSame(await rowsOf(query, parameters), [[value]], query)
  }
})

t.test('a time that 64 bits cannot hold is refused, never wrapped', async (t) => {
  const refused = (query: string, message: RegExp) => t.rejects(rowsOf(query), { code: 'SQL_ERROR', message }, query)
  const outside = /outside 1677-09-21 to 2262-04-11|out of range|Overflow/i
  await refused("SELECT _time + INTERVAL '300 years' FROM m", outside)
  await refused("SELECT _time + INTERVAL '90000 days' FROM m", outside)
  await refused("SELECT _time - INTERVAL '400 years' FROM m", outside)
  await refused("SELECT _time + INTERVAL '4000000 hours' FROM m", outside)
  await refused('SELECT _time + to_days(n::INTEGER * 1000000) FROM m', outside)
  await refused("SELECT ([_time])[1] + INTERVAL '300 years' FROM m", outside)
  await refused("SELECT date_trunc('millennium', make_timestamp_ns(0) - INTERVAL '200 years')", /convert|outside/i)
  await refused("SELECT count(*) FROM m WHERE _time > now() - INTERVAL '99999999999 years'", /interval|out of range/i)
  await refused("SELECT INTERVAL '5 nanoseconds'", /an INTERVAL has microseconds/)
  await refused("SELECT date_trunc('fortnight', _time) FROM m", /fortnight/)
  await refused("SELECT date_trunc('fortnight', ([_time])[1]) FROM m", /fortnight/)
  await refused('SELECT quantile_cont(_time, 0.3) FROM m', /quantile_disc/)
})

t.test('nested rounding grows with its depth, not faster', async (t) => {
  const nested = (depth: number, wrap: (inner: string) => string, inner = '_time'): string => (depth === 0 ? inner : nested(depth - 1, wrap, wrap(inner)))
  for (const wrap of [
    (inner: string) => `date_trunc('second', ${inner})`,
    (inner: string) => `time_bucket('1s', ${inner} + INTERVAL '0 days')`,
    (inner: string) => `make_timestamp_ns(epoch_us(${inner}) * 1000)`,
    (inner: string) => `date_trunc('second', CASE WHEN n = -1 THEN ${inner} ELSE _time END)`,
  ]) {
    const length = async (depth: number) => (await prepareSql(host, 'default', `SELECT ${nested(depth, wrap)} AS x FROM m`)).sql.length
    const [ten, thirty] = [await length(10), await length(30)]
    t.ok(thirty < 4 * ten, `${ten} and ${thirty} characters`)
    const [[value]] = await rowsOf(`SELECT ${nested(30, wrap)} AS x FROM m ORDER BY _time LIMIT 1`)
    t.equal((value as bigint) - ((value as bigint) % 1000n), START - 1n)
  }
})

t.test('now is one instant in a statement', async (t) => {
  const { rows, types, columns } = await host.query(
    'SELECT now(), CURRENT_TIMESTAMP, current_date, LOCALTIMESTAMP, now() - CURRENT_TIMESTAMP = INTERVAL 0 SECOND AS none',
  )
  const us = host.clock / 1000n
  t.strictSame(rows, [[us, us, Number(host.clock / DAY), us, 1]])
  t.strictSame(types, ['Timestamp(us, UTC)', 'Timestamp(us, UTC)', 'Date32', 'Timestamp(us)', 'Boolean'])
  t.strictSame(columns.slice(0, 2), ['now()', 'CURRENT_TIMESTAMP'])
  t.strictSame(await rowsOf("SELECT hour(now() AT TIME ZONE 'Europe/Berlin')"), [[1n]], 'an instant, that a zone turns into a wall clock')
})
