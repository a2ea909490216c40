/**
 * Aggregations that ClickHouse computes give what the evaluator makes of the samples: random questions over random series with resets, gaps, markers, values that
 * are not finite, and times of any precision, each asked both ways. SVC_SEED repeats a run, SVC_QUERIES makes it longer.
 */
import { seeded } from 'svcdb/lib/random'
import t from 'tap'
import type { Result } from '../../plugins/promql/testing/run-script.ts'
import { NO_CLICKHOUSE, startClickHouse } from '../../test/support/clickhouse/clickhouse.ts'
import { testContext } from '../conformance/index.ts'
import { bits, f64, INFINITE, i64, NAN, STALE, str, type TestPoint, type TestValue, write } from '../conformance/points.ts'
import type { Client } from './client.ts'
import { ClickHouseEngine } from './engine.ts'
import { GridFunctions } from './grid-functions.ts'
import type { Answered, Asked } from './testing/aggregate-job.ts'
import { proxyTo } from './testing/proxy.ts'

const SEED = Number(process.env.SVC_SEED ?? 20_240_101)
const QUERIES = Number(process.env.SVC_QUERIES ?? 100)
const AT_ONCE = 25
const JOB = new URL('./testing/aggregate-job.ts', import.meta.url)
/** Even seeds begin before 1970. */
const START_MS = SEED % 2 === 0 ? Date.UTC(1969, 11, 31, 23, 40) : Date.UTC(2024, 1, 28, 23, 40)
const MINUTES = 40
const END_MS = START_MS + MINUTES * 60_000
const TOLERANCE = 1e-9

type Random = () => number
const pick = <T>(random: Random, from: readonly T[]): T => from[Math.floor(random() * from.length)]

/** How samples of a metric come: milliseconds between them, jitter in nanoseconds, and the next value. */
interface Kind {
  measurement: string
  field?: string
  every: number
  jitterNs: number
  value(random: Random, before: number): TestValue | undefined
}

const counter =
  (step: (random: Random) => number, resets = 0.05) =>
  (random: Random, before: number) =>
    f64(random() < resets ? step(random) : before + step(random))
const whole = (random: Random): number => Math.floor(random() * 20)
const broken = (random: Random): number => random() * 3
const KINDS: readonly Kind[] = [
  { measurement: 'seconds_total', every: 10_000, jitterNs: 0, value: counter(whole) },
  { measurement: 'half_minutes_total', every: 30_000, jitterNs: 0, value: counter(broken) },
  { measurement: 'jitter_total', every: 7000, jitterNs: 900_000_000, value: counter(broken) },
  { measurement: 'fine_total', every: 5000, jitterNs: 1_000_000, value: counter(whole) },
  { measurement: 'dense_total', every: 1, jitterNs: 900_000, value: counter(whole) },
  { measurement: 'large_total', every: 10_000, jitterNs: 0, value: counter((random) => random() * 1e14) },
  { measurement: 'level', every: 15_000, jitterNs: 0, value: (random) => f64(Math.round((random() - 0.5) * 100) / 4) },
  { measurement: 'positive', every: 12_000, jitterNs: 999_000_000, value: (random) => f64(random() * 1000) },
  { measurement: 'falling_total', every: 10_000, jitterNs: 0, value: (random, before) => f64(before - random()) },
  {
    measurement: 'odd_total',
    every: 10_000,
    jitterNs: 0,
    value: (random, before) => (random() < 0.03 ? bits(pick(random, [NAN, INFINITE])) : f64(before + random())),
  },
  { measurement: 'jobs', field: 'done', every: 10_000, jitterNs: 0, value: (random, before) => i64(BigInt(Math.floor(before + random() * 9))) },
  { measurement: 'both', every: 20_000, jitterNs: 0, value: counter(whole) },
]

function samplesOf(kind: Kind, random: Random): TestPoint[] {
  const points: TestPoint[] = []
  for (let series = 0; series < 9; series++) {
    const tags: Record<string, string> = { host: `h${series}`, dc: `dc${series % 3}` }
    if (series % 4 === 1) tags.rack = pick(random, ["r'1", 'r{2}', 'ü'])
    if (series === 7) delete tags.dc
    let value = 0
    const first = START_MS + Math.floor(random() * 8) * 33_000
    for (let ms = first, n = 0; ms < END_MS && n < 400; ms += kind.every, n++) {
      if (random() < 0.03) ms += Math.ceil((random() * 400_000) / kind.every) * kind.every
      const time = BigInt(ms) * 1_000_000n + BigInt(Math.floor(random() * kind.jitterNs))
      const next = random() < 0.03 && kind.field === undefined ? bits(STALE) : kind.value(random, value)
      if (next === undefined) continue
      if (next.type !== 'float64' || typeof next.value === 'number') value = Number(next.value)
      points.push({ measurement: kind.measurement, tags, time, fields: { [kind.field ?? 'value']: next } })
    }
  }
  return points
}

const RANGES = ['20s', '1m', '90s', '5m', '1500ms', '17s', '33s']
const GROUPS = ['', ' by (dc)', ' by (host, dc)', ' by (dc, nope)', ' without (host)', ' without ()', ' without (rack, dc, dc)', ' by (dc, __name__)']
const MATCHERS = [
  '',
  '',
  '',
  '{dc="dc1"}',
  '{dc!="dc1"}',
  '{host=~"h[1-4]"}',
  '{dc=~".+"}',
  '{host!~"h1|h2", rack=""}',
  '{host=~".*", dc=~"dc0|dc2"}',
  '{rack!~"r.*"}',
  '{host="none"}',
]

function question(random: Random): Asked {
  const kind = pick(random, KINDS)
  const metric = kind.field === undefined ? kind.measurement : `${kind.measurement}_${kind.field}`
  const at = pick(random, ['', '', '', '', ' offset 1m', ' offset -45s', ` @ ${START_MS / 1000 + 600}`, ' @ end()'])
  const selector = `${metric}${pick(random, MATCHERS)}`
  const fn = pick(random, ['', '', 'rate', 'rate', 'increase', 'delta', 'irate', 'idelta'])
  const operand = fn === '' ? `${selector}${at}` : `${fn}(${selector}[${pick(random, RANGES)}]${at})`
  const aggregation = `${pick(random, ['sum', 'sum', 'avg', 'min', 'max', 'count', 'group', 'stddev'])}${pick(random, GROUPS)} (${operand})`
  const form = random()
  const query = form < 0.85 ? aggregation : form < 0.93 ? `max_over_time((${aggregation})[5m:40s])` : `${aggregation} / 2 + count(${metric})`
  const start = START_MS + (random() < 0.7 ? Math.floor(random() * MINUTES) * 60_000 : Math.floor(random() * MINUTES * 60_000))
  const step = pick(random, [0, 0, 1000, 15_000, 60_000, 7000, 333, 600_000])
  return { query, startMs: start, endMs: step === 0 ? start : start + Math.floor(random() * 60) * step, stepMs: step }
}

/** What is not the same; undefined when all is. */
function difference(expected: Result, found: Result): string | undefined {
  const { series, ...rest } = expected
  const { series: own, ...others } = found
  if (JSON.stringify(rest) !== JSON.stringify(others)) return `${JSON.stringify(rest)} is ${JSON.stringify(others)}`
  const sorted = (list: Result['series']) => list.toSorted(([a], [b]) => (a < b ? -1 : 1))
  const [a, b] = [sorted(series), sorted(own)]
  if (a.length !== b.length) return `${a.length} series are ${b.length}: ${JSON.stringify(a)} ${JSON.stringify(b)}`
  for (const [i, [labels, points]] of a.entries()) {
    if (labels !== b[i][0]) return `${labels} is ${b[i][0]}`
    const at = points.findIndex((point, k) => !close(point, b[i][1][k]))
    if (at >= 0) return `${labels} at step ${at}: ${points[at]} is ${b[i][1][at]}`
  }
  return undefined
}

function close(a: string, b: string): boolean {
  if (a === b) return true
  const [x, y] = [Number(a), Number(b)]
  // Less, and not as much: infinity is as much as a share of infinity.
  return x === y || Math.abs(x - y) < TOLERANCE * Math.max(Math.abs(x), Math.abs(y))
}

t.setTimeout(3_600_000)

t.test('aggregations over windows', { skip: NO_CLICKHOUSE ?? false }, async (t) => {
  const server = await startClickHouse()
  const seen = { bytes: 0, statements: [] as string[] }
  /** What ClickHouse answers statements with that have grids, by its code; undefined = their result. */
  let failing: string | undefined
  const proxy = await proxyTo(server.url, (statement, forward, _, to) => {
    seen.statements.push(statement)
    if (failing !== undefined && statement.includes('ToGrid'))
      return void to.writeHead(500, { 'x-clickhouse-exception-code': failing }).end(`Code: ${failing}. DB::Exception: it is said to have failed. (TEST)`)
    const write = to.write.bind(to) as (...args: unknown[]) => boolean
    to.write = (...args: unknown[]) => {
      seen.bytes += (args[0] as Buffer).length
      return write(...args)
    }
    forward()
  })
  const told: unknown[] = []
  const begin = async (config: Record<string, unknown> = {}): Promise<ClickHouseEngine> => {
    const clickhouse = { ...server.section, url: proxy.url, prefix: `g${process.pid}` }
    const context = testContext({ ooo_shard_tolerance: 1_000_000, ...config, clickhouse }, () => END_MS)
    const engine = new ClickHouseEngine({ ...context, log: { ...context.log, warn: (one: unknown) => told.push(one) } })
    await engine.open()
    return engine
  }
  const engine = await begin()
  t.teardown(async () => {
    await engine.close()
    proxy.close()
    await server.stop()
  })
  const answers = (questions: Asked[], aggregates: boolean, of = engine): Promise<Answered[]> => of.run<Answered[]>(JOB, { questions, aggregates }).result
  /** Asked both ways. */
  const ask = async (questions: Asked[], of = engine) => {
    const [stored, evaluated] = [await answers(questions, true, of), await answers(questions, false, of)]
    return stored.map(({ asked, declined, ...result }, i) => {
      const { asked: _, declined: __, ...expected } = evaluated[i]
      return { stored: result, evaluated: expected, asked, declined }
    })
  }
  const instant = (query: string, startMs = END_MS): Asked => ({ query, startMs, endMs: startMs, stepMs: 0 })

  await t.test('are those of the evaluator', async (t) => {
    t.comment(`SVC_SEED=${SEED}`)
    const random = seeded(SEED)
    for (const kind of KINDS) {
      const { rejected, rejections } = await write(engine, samplesOf(kind, random), { backfill: true, nonFinite: true })
      t.equal(rejected, 0, JSON.stringify(rejections))
    }
    // From here on a part of the values of a field is in the shared table, and a part in the measurement's own.
    const more = { measurement: 'both', tags: { host: 'h1', dc: 'dc1' }, time: BigInt(END_MS) * 1_000_000n, fields: { value: f64(4), text: str('x') } }
    await write(engine, [more], { backfill: true })
    const counts = { asked: 0, declined: 0, values: 0 }
    for (let left = QUERIES; left > 0; left -= AT_ONCE) {
      const questions = Array.from({ length: Math.min(left, AT_ONCE) }, () => question(random))
      for (const [i, { stored, evaluated, asked, declined }] of (await ask(questions)).entries()) {
        counts.asked += asked
        counts.declined += declined
        if (asked > declined && evaluated.series.length > 0) counts.values++
        const what = difference(evaluated, stored)
        if (what !== undefined) t.fail(`${JSON.stringify(questions[i])}: ${what.slice(0, 600)}`)
      }
    }
    t.ok(counts.values > QUERIES / 4, JSON.stringify(counts))
  })

  await t.test('a first sample that is just 1.1 average distances from its window is taken as the evaluator takes it', async (t) => {
    const range = 900
    const ties = Array.from({ length: 30 }, (_, i) => i + 1).flatMap((gaps) =>
      [20, 60, 110, 300, 330].map((sampled) => ({ gaps, sampled, toStart: (sampled * 11) / (gaps * 10) })),
    )
    const whole = ties.filter(({ gaps, sampled, toStart }) => Number.isInteger(toStart) && sampled >= gaps)
    const points = whole.flatMap(({ gaps, sampled, toStart }, series) =>
      Array.from({ length: gaps + 1 }, (_, i): TestPoint => {
        const seconds = toStart + Math.round((sampled * i) / gaps)
        const time = BigInt(END_MS - range * 1000 + seconds * 1000) * 1_000_000n
        return { measurement: 'tie_total', tags: { host: `t${series}` }, time, fields: { value: f64(1000 + i * 7) } }
      }),
    )
    await write(engine, points, { backfill: true })
    const [{ stored, evaluated, asked, declined }] = await ask([instant(`sum by (host) (rate(tie_total[${range}s]))`)])
    t.same([evaluated.series.length, asked, declined], [whole.length, 1, 0])
    t.equal(difference(evaluated, stored), undefined)
  })

  await t.test('only groups cross the wire', async (t) => {
    const rows = Array.from({ length: 300 }, (_, series) =>
      Array.from({ length: 100 }, (_, i): TestPoint => {
        const time = BigInt(START_MS + i * 10_000) * 1_000_000n
        return { measurement: 'many_total', tags: { host: `m${series}`, dc: `dc${series % 5}` }, time, fields: { value: f64(i * series) } }
      }),
    ).flat()
    await write(engine, rows, { backfill: true })
    const question = { query: 'sum by (dc) (rate(many_total[5m]))', startMs: START_MS + 300_000, endMs: START_MS + 900_000, stepMs: 60_000 }
    const bytesOf = async (aggregates: boolean): Promise<number> => {
      const { bytes } = seen
      const [{ series, declined }] = await answers([question], aggregates)
      t.same([series.length, declined], [5, 0])
      return seen.bytes - bytes
    }
    // A sample is a row of 32 bytes.
    const evaluated = await bytesOf(false)
    t.ok(evaluated > rows.length * 32 * 0.9, String(evaluated))
    const stored = await bytesOf(true)
    t.ok(stored < 5000, String(stored))
  })

  await t.test('name the tables of their namespace only, with the limits of every read', async (t) => {
    const named = { measurement: 'named_total', time: BigInt(END_MS) * 1_000_000n, fields: { value: f64(1) } }
    await write(engine, [{ ...named, tags: { dc: "x') OR 1 --" } }], { backfill: true, namespace: 'theirs' })
    await write(engine, [{ ...named, tags: { dc: 'mine' } }], { backfill: true })
    seen.statements.length = 0
    const [{ stored, asked, declined }] = await ask([instant('count by (dc) (named_total{dc!="x\') OR 1 --", dc=~"m.*|x.*"})')])
    t.same([asked, declined], [1, 0])
    t.same(stored.series, [['{"dc":"mine"}', ['1']]])
    const statements = seen.statements.filter((statement) => statement.includes('ToGrid'))
    t.equal(statements.length, 1)
    t.same([...new Set(statements[0].match(/\b(?:FROM|JOIN) [a-z]\w*\.\w+/g))].sort(), [
      `FROM g${process.pid}_n_default.narrow`,
      `FROM g${process.pid}_n_default.series`,
    ])
    t.notMatch(statements[0], /OR 1/)
    t.match(statements[0], / SETTINGS .*max_memory_usage = \d+.* FORMAT Native$/)
  })

  await t.test('what retention has cut off is not in them', async (t) => {
    const short = await begin({ retention_secs: 900, shard_duration_secs: 600 })
    t.teardown(() => short.close())
    const query = 'sum by (dc) (increase(seconds_total[40m]))'
    const [kept] = await ask([instant(query)], short)
    t.same([kept.asked, kept.declined], [1, 0])
    t.equal(difference(kept.evaluated, kept.stored), undefined)
    const [all] = await ask([instant(query)])
    t.not(difference(all.evaluated, kept.evaluated), undefined)
  })

  await t.test('are computed from samples where ClickHouse has no room, and not where it is too slow', async (t) => {
    t.teardown(() => (failing = undefined))
    failing = '241'
    const [full] = await ask([instant('sum(rate(seconds_total[5m]))')])
    t.same([full.asked, full.declined, difference(full.evaluated, full.stored)], [1, 1, undefined])
    failing = '159'
    await t.rejects(ask([instant('sum(rate(seconds_total[5m]))')]), { code: 'QUERY_TIMEOUT' })
  })

  await t.test('are computed from samples where the values that match would make an address too long', async (t) => {
    const long = Array.from(
      { length: 900 },
      (_, i): TestPoint => ({
        measurement: 'long_total',
        tags: { host: `${i} ${'ä'.repeat(200)}` },
        time: BigInt(START_MS) * 1_000_000n,
        fields: { value: f64(i) },
      }),
    )
    await write(engine, long, { backfill: true })
    const query = 'sum(long_total{host=~".*ä"})'
    const [{ evaluated, stored, asked, declined }] = await ask([{ query, startMs: START_MS, endMs: START_MS, stepMs: 0 }])
    t.same([asked, declined, difference(evaluated, stored)], [1, 1, undefined])
    t.equal(stored.series.length, 1)
  })

  await t.test('are computed from samples where ClickHouse lacks the functions, which is said once', async (t) => {
    t.teardown(() => (failing = undefined))
    failing = '46'
    const other = await begin()
    t.teardown(() => other.close())
    told.length = 0
    seen.statements.length = 0
    const question = instant('sum(rate(seconds_total[5m]))')
    for (const one of await ask([question, question], other)) t.same([one.asked, one.declined, difference(one.evaluated, one.stored)], [1, 1, undefined])
    t.match(told, [{ why: /code 46/ }])
    t.equal(told.length, 1)
    t.equal(seen.statements.filter((statement) => statement.includes('ToGrid')).length, 1)
  })
})

t.test('functions that give other results are not used', async (t) => {
  const told: string[] = []
  const items = { name: '', type: 'Nullable(Float64)', nulls: new Uint8Array(5), bytes: new Uint8Array(40) }
  const column = { name: '', type: 'Array(Nullable(Float64))', bytes: new Uint8Array(0), items }
  const client = {
    async *blocks() {
      yield { rows: 1, columns: Array(5).fill(column) }
    },
  }
  const functions = new GridFunctions(client as unknown as Client, (why) => told.push(why))
  t.equal(await functions.available(), false)
  t.match(told, ['timeSeriesResampleToGridWithStaleness gives [0,0,0,0,0] where [5,9,7,null,14] is right'])
})
