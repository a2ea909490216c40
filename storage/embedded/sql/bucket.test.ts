import { type Bucketing, bucketOf, parseSpan } from 'svcdb/lib/time-buckets'
import t from 'tap'
import { bucketing } from './bucket.ts'
import { CPU, type TestHost, testHost } from './testing/host.ts'

const NOW = 1_767_225_600_000_000_000n
const MINUTE = 60_000_000_000n
const HOUR = 60n * MINUTE
const DAY = 24n * HOUR
const ns = (iso: string): bigint => BigInt(Date.parse(iso)) * 1_000_000n
const iso = (at: bigint): string => new Date(Number(at / 1_000_000n)).toISOString()
const starts = (b: Bucketing, from: string, to: string): string[] => {
  const out: string[] = []
  for (let at = ns(from); at < ns(to); ) {
    const [start, end] = bucketOf(at, b)
    out.push(iso(start))
    at = end
  }
  return out
}

t.test('widths', (t) => {
  t.same(parseSpan('5m'), { months: 0, days: 0, ns: 5n * MINUTE })
  t.same(parseSpan('1 hour 30 minutes'), { months: 0, days: 0, ns: 90n * MINUTE })
  t.same(parseSpan('1h30m'), { months: 0, days: 0, ns: 90n * MINUTE })
  t.same(parseSpan('01:30:00'), { months: 0, days: 0, ns: 90n * MINUTE })
  t.same(parseSpan('1.5s'), { months: 0, days: 0, ns: 1_500_000_000n })
  t.same(parseSpan('2mo 1d'), { months: 2, days: 1, ns: 0n })
  t.same(parseSpan('1y'), { months: 12, days: 0, ns: 0n })
  t.same(parseSpan('3w'), { months: 0, days: 21, ns: 0n })
  t.same(parseSpan('7ns'), { months: 0, days: 0, ns: 7n })
  for (const unit of ['constructor', 'valueOf', '__proto__']) t.equal(parseSpan(`1 ${unit}`), undefined)
  for (const bad of ['', '5', 'm', '5 parsecs', '1.5d', '5m;', '5M5']) t.equal(parseSpan(bad), undefined, bad)
  t.end()
})

t.test('fixed widths: floor division, before 1970 too', (t) => {
  for (const [width, step] of [
    ['1m', MINUTE],
    ['7m', 7n * MINUTE],
    ['1h', HOUR],
    ['3ns', 3n],
    ['1d', DAY],
    ['36h', 36n * HOUR],
  ] as const) {
    const b = bucketing(width, '', undefined, NOW)
    for (const at of [0n, 1n, -1n, -MINUTE, ns('2024-02-29T12:34:56Z'), ns('1969-07-20T20:17:40Z') - 1n]) {
      const rest = ((at % step) + step) % step
      t.same(bucketOf(at, b), [at - rest, at - rest + step], `${width} ${at}`)
    }
  }
  t.end()
})

/** Wall-clock day of an instant, by Intl alone. */
function localDay(at: bigint, zone: string): string {
  return new Intl.DateTimeFormat('en-CA', { timeZone: zone, year: 'numeric', month: '2-digit', day: '2-digit' }).format(Number(at / 1_000_000n))
}

t.test('days, weeks and months follow the clock of the zone, across its changes', (t) => {
  const spans: [zone: string, from: string, to: string][] = [
    ['Europe/Berlin', '2024-03-28T00:00:00Z', '2024-04-03T00:00:00Z'],
    ['Europe/Berlin', '2024-10-25T00:00:00Z', '2024-10-30T00:00:00Z'],
    ['America/New_York', '2024-03-08T00:00:00Z', '2024-03-13T00:00:00Z'],
    ['America/New_York', '2024-11-01T00:00:00Z', '2024-11-06T00:00:00Z'],
    ['Australia/Lord_Howe', '2024-04-04T00:00:00Z', '2024-04-10T00:00:00Z'],
    ['Australia/Lord_Howe', '2024-10-03T00:00:00Z', '2024-10-09T00:00:00Z'],
    ['Asia/Kathmandu', '2024-01-01T00:00:00Z', '2024-01-05T00:00:00Z'],
    ['America/Havana', '2024-03-08T00:00:00Z', '2024-03-13T00:00:00Z'], // midnight does not exist
    ['America/Havana', '2024-11-01T00:00:00Z', '2024-11-06T00:00:00Z'], // midnight comes twice
  ]
  for (const [zone, from, to] of spans) {
    const b = bucketing('1d', zone, undefined, NOW)
    // By brute force: the bucket of a moment begins at the first quarter of an hour that has its day.
    let day = ''
    let start = 0n
    for (let at = ns(from) - 2n * DAY; at < ns(to); at += 15n * MINUTE) {
      const local = localDay(at, zone)
      if (local !== day) [day, start] = [local, at]
      if (at < ns(from)) continue
      if (bucketOf(at, b)[0] !== start) {
        t.fail(`${zone} ${iso(at)}: ${iso(bucketOf(at, b)[0])}, not ${iso(start)}`)
        break
      }
    }
  }
  const lengths = (zone: string, from: string, to: string): bigint[] => {
    const edges = starts(bucketing('1d', zone, undefined, NOW), from, to).map(ns)
    return edges.slice(1).map((edge, i) => (edge - edges[i]) / HOUR)
  }
  t.same(lengths('Europe/Berlin', '2024-03-30T00:00:00Z', '2024-04-02T00:00:00Z'), [24n, 23n, 24n])
  t.same(lengths('Europe/Berlin', '2024-10-26T00:00:00Z', '2024-10-29T00:00:00Z'), [24n, 25n, 24n])
  t.same(starts(bucketing('1w', 'Europe/Berlin', undefined, NOW), '2024-03-20T00:00:00Z', '2024-04-05T00:00:00Z'), [
    '2024-03-17T23:00:00.000Z',
    '2024-03-24T23:00:00.000Z',
    '2024-03-31T22:00:00.000Z',
  ])
  t.same(starts(bucketing('1mo', 'America/New_York', undefined, NOW), '2024-02-10T00:00:00Z', '2024-05-02T00:00:00Z'), [
    '2024-02-01T05:00:00.000Z',
    '2024-03-01T05:00:00.000Z',
    '2024-04-01T04:00:00.000Z',
    '2024-05-01T04:00:00.000Z',
  ])
  t.same(starts(bucketing('1y', '', undefined, NOW), '1969-05-01T00:00:00Z', '1971-05-01T00:00:00Z'), [
    '1969-01-01T00:00:00.000Z',
    '1970-01-01T00:00:00.000Z',
    '1971-01-01T00:00:00.000Z',
  ])
  t.same(starts(bucketing('3mo', '', undefined, NOW), '2024-05-01T00:00:00Z', '2024-08-01T00:00:00Z'), ['2024-04-01T00:00:00.000Z', '2024-07-01T00:00:00.000Z'])
  t.end()
})

t.test('fixed widths in a zone lie on its standard offset', (t) => {
  const kathmandu = bucketing('1h', 'Asia/Kathmandu', undefined, NOW)
  t.equal(iso(bucketOf(ns('2024-01-01T00:30:00Z'), kathmandu)[0]), '2024-01-01T00:15:00.000Z')
  const berlin = bucketing('6h', 'Europe/Berlin', undefined, NOW)
  t.equal(iso(bucketOf(ns('2024-07-01T00:00:00Z'), berlin)[0]), '2024-06-30T23:00:00.000Z')
  const lordHowe = bucketing('1h', 'Australia/Lord_Howe', undefined, NOW)
  t.equal(iso(bucketOf(ns('2024-01-01T00:00:00Z'), lordHowe)[0]), '2023-12-31T23:30:00.000Z')
  t.end()
})

t.test('an origin moves the bounds', (t) => {
  const start = (width: string, zone: string, origin: string, at: string): string => iso(bucketOf(ns(at), bucketing(width, zone, origin, NOW))[0])
  t.equal(start('1d', '', '2024-01-01T06:00:00', '2024-05-05T05:59:59Z'), '2024-05-04T06:00:00.000Z')
  t.equal(start('1d', 'Europe/Berlin', '2024-01-01T06:00:00', '2024-07-05T05:00:00Z'), '2024-07-05T04:00:00.000Z', 'six in the morning, summer or winter')
  t.equal(start('1d', 'Europe/Berlin', '2024-01-01T05:00:00Z', '2024-07-05T05:00:00Z'), '2024-07-05T04:00:00.000Z', 'an instant counts by its wall clock')
  t.equal(start('1mo', '', '2024-01-15', '2024-03-14T23:00:00Z'), '2024-02-15T00:00:00.000Z')
  t.equal(start('1mo', '', '2024-01-15', '2024-03-15T00:00:00Z'), '2024-03-15T00:00:00.000Z')
  t.equal(start('3mo', '', '2024-02-01', '2024-04-30T00:00:00Z'), '2024-02-01T00:00:00.000Z')
  t.equal(start('1w', '', '2024-01-07', '2024-03-13T00:00:00Z'), '2024-03-10T00:00:00.000Z', 'weeks from Sunday')
  t.equal(start('2d', '', '2024-01-02', '2024-01-05T12:00:00Z'), '2024-01-04T00:00:00.000Z')
  t.equal(start('6h', '', '2024-01-01T01:00:00Z', '2024-01-01T06:59:00Z'), '2024-01-01T01:00:00.000Z')
  t.throws(() => bucketing('1mo', '', '2024-01-31', NOW), { code: 'SQL_ERROR', message: /day 31; it must be a day from 1 to 28/ })
  t.throws(() => bucketing('1d', '', 'noon', NOW), { code: 'SQL_ERROR', message: /unknown origin "noon"/ })
  t.throws(() => bucketing('1d', 'Mars/Base', undefined, NOW), { code: 'SQL_ERROR', message: /unknown time zone "Mars\/Base"/ })
  t.throws(() => bucketing('1mo 1d', '', undefined, NOW), { code: 'SQL_ERROR' })
  t.throws(() => bucketing('1d 1h', 'Europe/Berlin', undefined, NOW), { code: 'SQL_ERROR' })
  t.throws(() => bucketing('0m', '', undefined, NOW), { code: 'SQL_ERROR', message: /positive/ })
  t.throws(() => bucketing('-1h', '', undefined, NOW), { code: 'SQL_ERROR', message: /positive/ })
  t.end()
})

t.test('date_bin() is time_bucket() in UTC, from an origin', async (t) => {
  const host = await testHost([[CPU, 'SELECT make_timestamp_ns(1711800000000000000 + i * 1234567890123) AS _time, i AS procs FROM range(1000) r(i)']])
  t.teardown(() => host.close())
  for (const [called, meant] of [
    [`date_bin(interval '90 second', _time, timestamp '1970-01-01T00:00:00Z')`, `time_bucket('90s', _time)`],
    [`date_bin('1h', _time)`, `time_bucket('1h', _time)`],
    [`date_bin(interval '7 minutes', _time, timestamp '2024-01-01T00:01:00Z')`, `time_bucket('7m', _time, '', '2024-01-01T00:01:00Z')`],
  ]) {
    const rows = async (call: string) => (await host.query(`SELECT ${call} AS b, count(*) FROM cpu GROUP BY 1 ORDER BY 1`)).rows
    t.strictSame(await rows(called), await rows(meant), called)
  }
  await t.rejects(host.query("SELECT date_bin('1h') FROM cpu"), { code: 'SQL_ERROR', message: /date_bin/ })
  await t.rejects(host.query("SELECT date_bin('1h', _time, _time) FROM cpu"), { code: 'SQL_ERROR', message: /origin/ })
})

t.test('time_bucket() in SQL agrees with the core', async (t) => {
  const table = 'SELECT make_timestamp_ns(1711800000000000000 + (i - 3000) * 1234567890123) AS _time, i AS procs FROM range(6000) r(i)'
  const host: TestHost = await testHost([
    [CPU, table],
    [{ name: 'old', columns: [{ name: '_time', role: 'time' }] }, 'SELECT make_timestamp_ns(i * 1234567891) AS _time FROM range(-500, 500) r(i)'],
  ])
  t.teardown(() => host.close())
  for (const [args, ...how] of [
    [`'1m'`, '1m', ''],
    [`INTERVAL '15 minutes'`, '15m', ''],
    [`INTERVAL 6 HOURS`, '6h', ''],
    [`'7ns'`, '7ns', ''],
    [`INTERVAL '1 day'`, '1d', ''],
    [`'1w'`, '1w', ''],
    [`INTERVAL '1 month'`, '1mo', ''],
    [`'1d', 'Europe/Berlin'`, '1d', 'Europe/Berlin'],
    [`'1h', 'Asia/Kathmandu'`, '1h', 'Asia/Kathmandu'],
    [`'1d', 'America/New_York', '2024-01-01T06:00:00'`, '1d', 'America/New_York', '2024-01-01T06:00:00'],
    [`'1mo', '', DATE '2024-01-15'`, '1mo', '', '2024-01-15'],
  ] as const) {
    const [width, ...rest] = args.split(/, (?=['D])/)
    for (const measurement of ['cpu', 'old']) {
      const call = `time_bucket(${[width, '_time', ...rest].join(', ')})`
      const { types, rows } = await host.query(`SELECT _time, ${call} AS b FROM ${measurement}`)
      t.equal(types[1], 'Timestamp(ns)')
      const b = bucketing(how[0], how[1], how[2], NOW)
      const wrong = rows.find(([at, start]) => bucketOf(at as bigint, b)[0] !== start)
      t.equal(wrong, undefined, `${call} over ${measurement}`)
    }
  }
  t.same(
    (
      await host.query(
        `SELECT time_bucket('1d', NULL::TIMESTAMP, 'Europe/Berlin'), time_bucket('1h', timestamp '2024-01-01T01:30:00'), time_bucket('1h', '2024-01-01T01:30:00Z')`,
      )
    ).rows,
    [[null, ns('2024-01-01T01:00:00Z'), ns('2024-01-01T01:00:00Z')]],
  )
  for (const bad of [
    `'1h'`,
    `procs, _time`,
    `'1 parsec', _time`,
    `'1h', _time, 'Nope/Zone'`,
    `'1h', _time, hostname`,
    `'1h', _time, '', hostname`,
    `'1h', _time, '', '2024-01-01', 1`,
  ]) {
    await t.rejects(host.query(`SELECT time_bucket(${bad}) FROM cpu`), { code: 'SQL_ERROR' }, bad)
  }
})

t.test('a bucket that begins before the first time is refused, and not one of 2262', async (t) => {
  const host = await testHost([[CPU, 'SELECT make_timestamp_ns(-9223372036854775000 + i) AS _time, i AS procs FROM range(3) r(i)']])
  t.teardown(() => host.close())
  for (const args of [`'1mo', _time`, `'1y', _time`, `'1d', _time, 'Europe/Berlin'`, `'1w', _time, 'Asia/Kathmandu'`])
    await t.rejects(host.query(`SELECT time_bucket(${args}), count(*) FROM cpu GROUP BY 1`), { code: 'SQL_ERROR', message: /outside 1677-09-21/ }, args)
})
