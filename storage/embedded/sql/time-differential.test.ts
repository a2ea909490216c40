/**
 * Random expressions over times with odd nanoseconds, against a model in plain JavaScript that shares no code with the engine: values, types and predicates,
 * the latter with the scan pruned and not.
 */

import { type Random, seeded } from 'svcdb/lib/random'
import t from 'tap'
import type { SqlMeasurement } from './host.ts'
import { type TestHost, testHost } from './testing/host.ts'

const MEASUREMENT: SqlMeasurement = {
  name: 'm',
  columns: [
    { name: '_time', role: 'time' },
    { name: 'host', role: 'tag' },
    { name: 'n', role: 'field', type: 'int64' },
  ],
}

interface Row {
  time: bigint
  n: bigint
}

/** An expression as SQL, and what it is for a row. */
interface Expression<T> {
  sql: string
  /** Only DuckDB's binder knows its type. */
  opaque?: boolean
  of(row: Row): T
}

interface Interval {
  months: number
  days: number
  ns: bigint
}

const SECOND = 1_000_000_000n
const DAY = 86_400n * SECOND
/** 1700 to 2240: nothing that is made of such times overflows by the intervals below. */
const [FIRST, LAST] = [-8_520_000_000n * SECOND, 8_520_000_000n * SECOND]
const NOW = 1_767_225_600_123_456_000n

const mod = (a: bigint, b: bigint): bigint => ((a % b) + b) % b
const floor = (a: bigint, step: bigint): bigint => a - mod(a, step)

const all = (values: readonly boolean[]): boolean => values.every(Boolean)

/** The calendar comes from Date. */
function parts(ns: bigint): { date: Date; rest: bigint } {
  const day = floor(ns, DAY)
  return { date: new Date(Number(day / 1_000_000n)), rest: ns - day }
}

const midnight = (year: number, month: number, day: number): bigint => {
  const date = new Date(0)
  date.setUTCFullYear(year, month, day)
  return BigInt(date.getTime()) * 1_000_000n
}

function add(ns: bigint, { months, days, ns: by }: Interval, sign: number): bigint {
  let { date, rest } = parts(ns)
  const [year, month, day] = [date.getUTCFullYear(), date.getUTCMonth() + sign * months, date.getUTCDate()]
  const last = parts(midnight(year, month + 1, 0)).date.getUTCDate()
  rest += midnight(year, month, Math.min(day, last)) + BigInt(sign * days) * DAY + BigInt(sign) * by
  if (rest < FIRST || rest > LAST) throw new RangeError('out of range')
  return rest
}

const FIXED: Record<string, bigint> = { microseconds: 1000n, milliseconds: 1_000_000n, second: SECOND, minute: 60n * SECOND, hour: 3600n * SECOND, day: DAY }

function trunc(unit: string, ns: bigint): bigint {
  if (unit in FIXED) return floor(ns, FIXED[unit])
  if (unit === 'week') return floor(ns - 4n * DAY, 7n * DAY) + 4n * DAY
  const { date } = parts(ns)
  const year = date.getUTCFullYear()
  return unit === 'month'
    ? midnight(year, date.getUTCMonth(), 1)
    : unit === 'quarter'
      ? midnight(year, 3 * Math.floor(date.getUTCMonth() / 3), 1)
      : midnight(year, 0, 1)
}

class Generator {
  private readonly random: Random

  constructor(random: Random) {
    this.random = random
  }

  private int(n: number): number {
    return Math.floor(this.random() * n)
  }

  private pick<T>(values: readonly T[]): T {
    return values[this.int(values.length)]
  }

  instant(): bigint {
    const base = this.pick([0n, NOW, -5n * DAY, 951_782_400n * SECOND, -2_208_988_800n * SECOND, 1_704_067_200n * SECOND])
    return base + this.pick([0n, 1n, -1n, 999n, -999n, BigInt(this.int(2 ** 40)), -BigInt(this.int(2 ** 48))])
  }

  rows(count: number): Row[] {
    return Array.from({ length: count }, () => ({ time: this.instant(), n: BigInt(this.int(40) - 20) }))
  }

  interval(depth = 2): Expression<Interval> {
    const [a, b] = [this.int(30), this.int(90)]
    const constant = (sql: string, months: number, days: number, ns: bigint): Expression<Interval> => ({ sql, of: () => ({ months, days, ns }) })
    const each = (of: Expression<Interval>, sql: string, f: (i: Interval, row: Row) => Interval): Expression<Interval> => ({
      sql,
      of: (row) => f(of.of(row), row),
    })
    const times = (i: Interval, k: number): Interval => ({ months: i.months * k, days: i.days * k, ns: i.ns * BigInt(k) })
    const leaves = [
      () => constant(`INTERVAL '${a}' DAY`, 0, a, 0n),
      () => constant(`INTERVAL ${a} MINUTE`, 0, 0, BigInt(a) * 60n * SECOND),
      () => constant(`INTERVAL '${a} days ${b} minutes'`, 0, a, BigInt(b) * 60n * SECOND),
      () => constant(`INTERVAL '${b} us'`, 0, 0, BigInt(b) * 1000n),
      () => constant(`INTERVAL '${a} month'`, a, 0, 0n),
      () => constant(`INTERVAL '1 year ${a} mons -${b} s'`, 12 + a, 0, -BigInt(b) * SECOND),
      () => constant(`INTERVAL (${a} + 1) HOUR`, 0, 0, BigInt(a + 1) * 3600n * SECOND),
      () => constant(`to_weeks(${a})`, 0, 7 * a, 0n),
      () => constant(`to_seconds(${a}.25)`, 0, 0, BigInt(a) * SECOND + SECOND / 4n),
      () => constant(`'${b}:30:15.000125'::INTERVAL`, 0, 0, (BigInt(b) * 3600n + 1815n) * SECOND + 125_000n),
      () => constant(`INTERVAL '-${b}' SECOND`, 0, 0, -BigInt(b) * SECOND),
      (): Expression<Interval> => ({ sql: 'to_days(n::INTEGER)', of: ({ n }) => ({ months: 0, days: Number(n), ns: 0n }) }),
      (): Expression<Interval> => ({ sql: 'INTERVAL (n) MONTH', of: ({ n }) => ({ months: Number(n), days: 0, ns: 0n }) }),
    ]
    if (depth === 0) return this.pick(leaves)()
    const inner = this.interval(depth - 1)
    const other = this.interval(depth - 1)
    return this.pick<() => Expression<Interval>>([
      ...leaves,
      () => each(inner, `(3 * ${inner.sql})`, (i) => times(i, 3)),
      () => each(inner, `(${inner.sql} * 2)`, (i) => times(i, 2)),
      () => each(inner, `(-${inner.sql})`, (i) => times(i, -1)),
      () => each(inner, `(n * ${inner.sql})`, (i, { n }) => times(i, Number(n))),
      () =>
        each(inner, `(${inner.sql} + ${other.sql})`, (i, row) => {
          const j = other.of(row)
          return { months: i.months + j.months, days: i.days + j.days, ns: i.ns + j.ns }
        }),
    ])()
  }

  private literal(): Expression<bigint> {
    const ns = this.instant()
    const text = (at: bigint): string => {
      const { date, rest } = parts(at)
      const clock = [rest / (3600n * SECOND), (rest / (60n * SECOND)) % 60n, (rest / SECOND) % 60n].map((each) => String(each).padStart(2, '0')).join(':')
      return `${date.toISOString().slice(0, 10)}T${clock}.${String(rest % SECOND).padStart(9, '0')}`
    }
    const sql = this.pick([
      `make_timestamp_ns(${ns})`,
      `TIMESTAMP '${text(ns)}Z'`,
      `'${text(ns)}'::TIMESTAMP_NS`,
      `TIMESTAMP '${text(ns + 7200n * SECOND)}+02:00'`,
    ])
    return { sql, of: () => ns }
  }

  time(depth: number): Expression<bigint> {
    const column: Expression<bigint> = { sql: this.pick(['_time', 'm._time', '_time']), of: ({ time }) => time }
    if (depth === 0) return this.int(4) === 0 ? this.literal() : column
    const a = this.time(depth - 1)
    const i = this.interval()
    const unit = this.pick([...Object.keys(FIXED), 'week', 'month', 'quarter', 'year'])
    const map = (sql: string, f: (ns: bigint, row: Row) => bigint, opaque = a.opaque): Expression<bigint> => ({ sql, opaque, of: (row) => f(a.of(row), row) })
    const ofKnown = (sql: string, f: (ns: bigint, row: Row) => bigint): Expression<bigint> => (a.opaque ? a : map(sql, f))
    return this.pick<() => Expression<bigint>>([
      () => map(`(${a.sql} + ${i.sql})`, (ns, row) => add(ns, i.of(row), 1)),
      () => map(`(${a.sql} - ${i.sql})`, (ns, row) => add(ns, i.of(row), -1)),
      () => map(`(${i.sql} + ${a.sql})`, (ns, row) => add(ns, i.of(row), 1)),
      () => map(`date_add(${a.sql}, ${i.sql})`, (ns, row) => add(ns, i.of(row), 1)),
      () => map(`date_trunc('${unit}', ${a.sql})`, (ns) => trunc(unit, ns)),
      () => map(`time_bucket('15m', ${a.sql})`, (ns) => floor(ns, 900n * SECOND), false),
      () => ofKnown(`CAST(${a.sql} AS TIMESTAMP)::TIMESTAMP_NS`, (ns) => floor(ns, 1000n)),
      () => map(`make_timestamp_ns(epoch_ns(${a.sql}) + n)`, (ns, { n }) => ns + n, false),
      // Types that only the binder knows.
      () => map(`([${a.sql}])[1]`, (ns) => ns, true),
      () => map(`(([${a.sql}])[1] + ${i.sql})`, (ns, row) => add(ns, i.of(row), 1), true),
      () => map(`(${i.sql} + {'a': ${a.sql}}.a)`, (ns, row) => add(ns, i.of(row), 1), true),
      () => map(`({'a': ${a.sql}}.a - ${i.sql})`, (ns, row) => add(ns, i.of(row), -1), true),
      () => map(`date_trunc('${unit}', ([${a.sql}])[1])`, (ns) => trunc(unit, ns), true),
      () => {
        const b = this.time(depth - 1)
        const name = this.pick(['greatest', 'least'])
        return map(`${name}(${a.sql}, ${b.sql})`, (ns, row) => ((name === 'greatest') === ns > b.of(row) ? ns : b.of(row)), a.opaque || b.opaque)
      },
      () => {
        const b = this.time(depth - 1)
        return map(`CASE WHEN n % 2 = 0 THEN ${a.sql} ELSE ${b.sql} END`, (ns, row) => [ns, b.of(row)][Number(mod(row.n, 2n))], a.opaque || b.opaque)
      },
      () => ofKnown(`coalesce(NULL, ${a.sql}, now())`, (ns) => ns),
      () => ofKnown(`CASE WHEN n > 0 THEN ${a.sql} ELSE now() END`, (ns, { n }) => (n > 0n ? ns : NOW)),
    ])()
  }

  /** Seconds since the epoch, whole or with some digits behind the point. */
  private seconds(): Expression<bigint> {
    const whole = floor(this.instant(), SECOND)
    const digits = whole < 0n ? 0 : this.int(5)
    const fraction = this.int(10 ** digits)
    const sql = `to_timestamp(${whole / SECOND}${digits === 0 ? '' : `.${String(fraction).padStart(digits, '0')}`})`
    return { sql, of: () => whole + BigInt(fraction) * 10n ** BigInt(9 - digits) }
  }

  /** Something that a time is compared with. */
  private other({ opaque }: Expression<bigint>): Expression<bigint> {
    const i = this.interval(1)
    const ns = this.instant()
    return this.pick<() => Expression<bigint>>([
      () => this.time(1),
      () => this.literal(),
      () => (opaque ? this.literal() : { sql: `(${ns})`, of: () => ns }),
      () => this.seconds(),
      () => ({ sql: `(now() - ${i.sql})`, of: (row) => add(NOW, i.of(row), -1) }),
      () => ({ sql: `(CURRENT_TIMESTAMP + ${i.sql})`, of: (row) => add(NOW, i.of(row), 1) }),
      () => ({ sql: `(now()::TIMESTAMP - ${i.sql})`, of: (row) => add(NOW, i.of(row), -1) }),
      () => ({ sql: `(current_date - ${i.sql})`, of: (row) => add(floor(NOW, DAY), i.of(row), -1) }),
      () => ({ sql: "date_trunc('month', now())", of: () => trunc('month', NOW) }),
      () => ({ sql: `(DATE '2024-02-29' - 30)`, of: () => midnight(2024, 1, 29) - 30n * DAY }),
      () => ({ sql: `(TIMESTAMP '2000-02-29 12:00:00' - ${i.sql})`, of: (row) => add(midnight(2000, 1, 29) + DAY / 2n, i.of(row), -1) }),
    ])()
  }

  predicate(depth: number): Expression<boolean> {
    const subject = this.int(3) === 0 ? this.time(2) : this.time(this.int(2))
    const [a, b] = [this.other(subject), this.other(subject)]
    const signs: [string, (x: bigint, y: bigint) => boolean][] = [
      ['<', (x, y) => x < y],
      ['<=', (x, y) => x <= y],
      ['>', (x, y) => x > y],
      ['>=', (x, y) => x >= y],
      ['=', (x, y) => x === y],
      ['<>', (x, y) => x !== y],
      ['IS NOT DISTINCT FROM', (x, y) => x === y],
    ]
    const [sign, compare] = this.pick(signs)
    const length = BigInt(this.int(2 ** 40)) * 1000n
    const leaves: (() => Expression<boolean>)[] = [
      () => ({ sql: `(${subject.sql} ${sign} ${a.sql})`, of: (row) => compare(subject.of(row), a.of(row)) }),
      () => ({ sql: `(${a.sql} ${sign} ${subject.sql})`, of: (row) => compare(a.of(row), subject.of(row)) }),
      () => ({ sql: `(${subject.sql} BETWEEN ${a.sql} AND ${b.sql})`, of: (row) => all([subject.of(row) >= a.of(row), subject.of(row) <= b.of(row)]) }),
      () => ({
        sql: `(now() BETWEEN ${subject.sql} AND _time + INTERVAL '1 year')`,
        of: (row) => all([NOW >= subject.of(row), NOW <= add(row.time, { months: 12, days: 0, ns: 0n }, 1)]),
      }),
      () => ({ sql: `(${subject.sql} IN (${a.sql}, ${b.sql}))`, of: (row) => [a.of(row), b.of(row)].includes(subject.of(row)) }),
      () => ({ sql: `(_time::DATE >= DATE '2024-01-01')`, of: ({ time }) => time >= midnight(2024, 0, 1) }),
      () => ({ sql: `(_time::DATE < now())`, of: ({ time }) => floor(time, DAY) < NOW }),
      () => ({
        sql: `(${subject.sql} - make_timestamp_ns(${NOW}) ${sign} to_microseconds(-${length / 1000n}))`,
        of: (row) => compare(subject.of(row) - NOW, -length),
      }),
    ]
    if (depth === 0) return this.pick(leaves)()
    const [x, y] = [this.predicate(depth - 1), this.predicate(depth - 1)]
    return this.pick<() => Expression<boolean>>([
      ...leaves,
      () => ({ sql: `(${x.sql} AND ${y.sql})`, of: (row) => all([x.of(row), y.of(row)]) }),
      () => ({ sql: `(${x.sql} OR ${y.sql})`, of: (row) => !all([!x.of(row), !y.of(row)]) }),
      () => ({ sql: `(NOT ${x.sql})`, of: (row) => !x.of(row) }),
    ])()
  }
}

const seed = Number(process.env.SVC_SEED ?? Date.now() % 1e9)
const ROUNDS = Number(process.env.SVC_TIME_ROUNDS ?? 40)

/** No part of it overflows: overflow is tested elsewhere. */
function inRange(expression: Expression<unknown>, rows: readonly Row[]): boolean {
  try {
    for (const row of rows) expression.of(row)
    return true
  } catch {
    return false
  }
}

async function hostOf(rows: readonly Row[]): Promise<TestHost> {
  const values = rows.map(({ time, n }) => `(make_timestamp_ns(${time}), ${n})`).join(', ')
  const host = await testHost([[MEASUREMENT, `SELECT t AS _time, 'h' AS host, n::BIGINT AS n FROM (VALUES ${values}) v(t, n)`]])
  host.clock = NOW
  return host
}

t.test('expressions of times', async (t) => {
  t.comment(`SVC_SEED=${seed}`)
  const generator = new Generator(seeded(seed))
  const rows = generator.rows(64)
  const host = await hostOf(rows)
  t.teardown(() => host.close())
  for (let round = 0; round < ROUNDS; round++) {
    const expressions = Array.from({ length: 8 }, () => generator.time(3)).filter((each) => inRange(each, rows))
    const sql = `SELECT ${['0', ...expressions.map((each) => each.sql)].map((each, i) => `${each} AS x${i}`).join(', ')} FROM m`
    const answer = await host.query(sql).catch((error: Error) => t.fail(`SVC_SEED=${seed}: ${error.message}: ${sql}`))
    if (typeof answer === 'boolean') return
    const found = new Set(answer.types.slice(1))
    if (expressions.length > 0 && (found.size !== 1 || !found.has('Timestamp(ns)'))) {
      const wrong = expressions.find((_, i) => answer.types[i + 1] !== 'Timestamp(ns)')
      return t.fail(`SVC_SEED=${seed}: ${answer.types} ${wrong?.sql}`)
    }
    for (const [i, row] of rows.entries()) {
      for (const [j, expression] of expressions.entries()) {
        const [got, wanted] = [answer.rows[i][j + 1], expression.of(row)]
        if (got !== wanted) return t.fail(`SVC_SEED=${seed}: ${expression.sql} of ${row.time}, n = ${row.n}: ${got} instead of ${wanted}`)
      }
    }
  }
  t.pass(`${ROUNDS} rounds`)
})

t.test('predicates, with the scan pruned and not', async (t) => {
  t.comment(`SVC_SEED=${seed}`)
  const generator = new Generator(seeded(seed + 1))
  const rows = generator.rows(64)
  const host = await hostOf(rows)
  t.teardown(() => host.close())
  let pruned = 0
  for (let round = 0; round < 4 * ROUNDS; round++) {
    const predicate = generator.predicate(2)
    if (!inRange(predicate, rows)) continue
    const { sql, of } = predicate
    const wanted = rows.filter(of)
    const summary = [BigInt(wanted.length), wanted.reduce((sum, { time }) => sum + time, 0n)]
    for (const query of [
      `SELECT count(*), coalesce(sum(epoch_ns(_time)), 0) FROM m WHERE ${sql}`,
      `SELECT count(*), coalesce(sum(epoch_ns(_time)), 0) FROM (SELECT * FROM m) m WHERE ${sql}`,
      `SELECT count(*) FILTER (WHERE x), coalesce(sum(epoch_ns(_time)) FILTER (WHERE x), 0) FROM (SELECT _time, ${sql} AS x FROM m) m`,
    ]) {
      const answer = await host.query(query).catch((error: Error) => t.fail(`SVC_SEED=${seed}: ${error.message}: ${query}`))
      if (typeof answer === 'boolean') return
      if (host.requests.some(({ time: [low, high] }) => low > -(2n ** 62n) || high < 2n ** 62n)) pruned++
      const got = answer.rows[0].map((each) => BigInt(each as bigint))
      if (got[0] !== summary[0] || got[1] !== summary[1]) return t.fail(`SVC_SEED=${seed}: ${query}: ${got} instead of ${summary}`)
    }
  }
  t.ok(pruned > ROUNDS / 4, `${pruned} scans were pruned`)
})

t.test('counts of units', async (t) => {
  t.comment(`SVC_SEED=${seed}`)
  const generator = new Generator(seeded(seed + 2))
  const rows = generator.rows(64)
  const host = await hostOf(rows)
  t.teardown(() => host.close())
  for (let round = 0; round < ROUNDS; round++) {
    const to = generator.instant()
    const units = Object.keys(FIXED).map((unit): Expression<bigint> => {
      const size = FIXED[unit]
      return { sql: `date_diff('${unit}', _time, make_timestamp_ns(${to}))`, of: ({ time }) => (floor(to, size) - floor(time, size)) / size }
    })
    const whole = Object.keys(FIXED).map((unit): Expression<bigint> => {
      return { sql: `date_sub('${unit}', ([_time])[1], make_timestamp_ns(${to}))`, of: ({ time }) => (to - time) / FIXED[unit] }
    })
    const expressions: Expression<bigint>[] = [
      ...units,
      ...whole,
      { sql: `date_diff('nanosecond', _time, make_timestamp_ns(${to}))`, of: ({ time }) => to - time },
      { sql: `date_sub('month', _time, make_timestamp_ns(${to}))`, of: ({ time }) => months(time, to) },
      { sql: `date_sub('year', ([_time])[1], make_timestamp_ns(${to}))`, of: ({ time }) => months(time, to) / 12n },
      { sql: 'hour(_time)', of: ({ time }) => mod(time, DAY) / (3600n * SECOND) },
      { sql: "date_part('microseconds', _time)", of: ({ time }) => mod(time, 60n * SECOND) / 1000n },
      { sql: 'year(_time)', of: ({ time }) => BigInt(parts(time).date.getUTCFullYear()) },
      { sql: 'epoch_us(_time)', of: ({ time }) => floor(time, 1000n) / 1000n },
    ]
    const { rows: got } = await host.query(`SELECT ${expressions.map(({ sql }, i) => `${sql} AS x${i}`).join(', ')} FROM m`)
    for (const [i, row] of rows.entries()) {
      for (const [j, { sql, of }] of expressions.entries()) {
        if (BigInt(got[i][j] as bigint) !== of(row)) return t.fail(`SVC_SEED=${seed}: ${sql} of ${row.time}: ${got[i][j]} instead of ${of(row)}`)
      }
    }
  }
  t.pass(`${ROUNDS} rounds`)
})

/** The most months that can be added to the earlier without passing the later. */
function months(from: bigint, to: bigint): bigint {
  const [early, late] = from <= to ? [from, to] : [to, from]
  const [a, b] = [parts(early).date, parts(late).date]
  let count = (b.getUTCFullYear() - a.getUTCFullYear()) * 12 + b.getUTCMonth() - a.getUTCMonth()
  while (add(early, { months: count, days: 0, ns: 0n }, 1) > late) count--
  return BigInt(from <= to ? count : -count)
}
