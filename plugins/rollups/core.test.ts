import type { ColumnChunk, FieldInfo, SeriesChunk, Storage } from 'svcdb'
import { decodeHistogram, encodeHistogram, type NativeHistogram } from 'svcdb/lib/histogram'
import { seeded } from 'svcdb/lib/random'
import t from 'tap'
import { type Aggregated, type AggregateRequest, Aggregator, rowValue } from './aggregate.ts'
import { type Aggregation, parseAggregation, targetColumns } from './aggregations.ts'
import { boundariesOf, ceilBucket, floorBucket } from './boundaries.ts'
import { bucketsOf, definitionOf } from './definition.ts'
import { clipped, overlaps, type Range, withoutRange, withRange } from './ranges.ts'
import { Rollup } from './rollup.ts'
import { within } from './together.ts'
import { batchesOf, deleteStale, plan } from './writer.ts'

const all = (...names: string[]) => names.map((name) => parseAggregation(name) as Aggregation)
const body = { name: 'r', source_measurement: 'a', target_measurement: 'b', every: '1h', aggregations: ['avg'] }
const request = (boundaries: BigInt64Array, aggregations: Aggregation[], groupBy?: string[]): AggregateRequest => ({
  boundaries,
  bucketing: '',
  aggregations,
  groupBy,
})
const SEED = Number(process.env.SVC_SEED ?? Date.now() % 1e9)

t.test('ranges stay disjoint and ascending, cover what was added, and become their hull when they are too many', async (t) => {
  t.comment(`SVC_SEED=${SEED}`)
  const random = seeded(SEED)
  for (let round = 0; round < 200; round++) {
    let list: Range[] = []
    const covered = new Set<number>()
    for (let i = 0; i < 30; i++) {
      const start = Math.floor(random() * 100)
      const end = start + Math.floor(random() * 6)
      const range: Range = [BigInt(start), BigInt(end)]
      if (random() < 0.7) {
        list = withRange(list, range, 1000)
        for (let x = start; x < end; x++) covered.add(x)
      } else {
        list = withoutRange(list, range)
        for (let x = start; x < end; x++) covered.delete(x)
      }
      const found = list.flatMap(([a, b]) => Array.from({ length: Number(b - a) }, (_, x) => Number(a) + x))
      if (found.join() !== [...covered].sort((a, b) => a - b).join()) return t.fail(`seed ${SEED}: ${list}`)
      if (list.some(([a, b], n) => a >= b || (n > 0 && list[n - 1][1] > a))) return t.fail(`seed ${SEED}: ${list} is not in order`)
      if (overlaps(list, range) !== clipped(list, range).length > 0) return t.fail(`seed ${SEED}: overlaps`)
    }
  }
  let list: Range[] = []
  for (let i = 0n; i < 65n; i++) list = withRange(list, [i * 10n, i * 10n + 1n], 64)
  t.same(list, [[0n, 641n]])
})

t.test('names of aggregations', async (t) => {
  t.match(parseAggregation('AVG'), { kind: 'avg', suffix: 'avg', shown: 'Avg' })
  t.match(parseAggregation('quantile(0.95)'), { kind: 'quantile', q: 0.95, suffix: 'p95', shown: 'Quantile(0.95)' })
  t.match(parseAggregation('p99.9'), { q: 0.999, suffix: 'p99_9' })
  t.match(parseAggregation(parseAggregation('p99_9')?.shown as string), { q: 0.999, suffix: 'p99_9' })
  for (const bad of ['median', 'quantile(2)', 'quantile()', 'p101', '']) t.equal(parseAggregation(bad), undefined, bad)
})

t.test('what cannot be a rollup is refused by name', async (t) => {
  const refused = (more: object, text: RegExp) => t.throws(() => definitionOf({ ...body, ...more }, '', 0n), { code: 'INVALID_REQUEST', message: text })
  refused({ aggregations: ['avg', 'median'] }, /unknown aggregation "median"/)
  refused({ aggregations: [] }, /at least one/)
  refused({ target_measurement: 'a' }, /its source and its target/)
  refused({ every: '1x' }, /unknown width "1x"/)
  refused({ every: '1us' }, /shorter than 1ms/)
  refused({ every: '-1h' }, /positive/)
  refused({ timezone: 'Mars/Base' }, /unknown time zone "Mars\/Base"/)
  refused({ every: '1mo', origin: '2024-01-31' }, /day 31.*1 to 28/)
  refused({ origin: 'noon' }, /unknown origin "noon"/)
  refused({ name: 'a/b' }, /a name is/)
})

t.test('days have 23 and 25 hours, months their own length', async (t) => {
  const day = bucketsOf({ every: '1d', timezone: 'Europe/Berlin', origin: null, created: '0' })
  const hours = (text: string) => {
    const start = floorBucket(BigInt(Date.parse(text)) * 1_000_000n, day)
    return Number((ceilBucket(start + 1n, day) - start) / 3_600_000_000_000n)
  }
  t.same(['2024-03-30T12:00Z', '2024-03-31T12:00Z', '2024-10-27T12:00Z'].map(hours), [24, 23, 25])
  const month = bucketsOf({ every: '1mo', timezone: null, origin: null, created: '0' })
  const starts = [...boundariesOf(month, BigInt(Date.parse('2024-01-01')) * 1_000_000n, BigInt(Date.parse('2024-04-01')) * 1_000_000n, 10)]
  t.same(
    starts.map((ns) => new Date(Number(ns / 1_000_000n)).toISOString().slice(0, 10)),
    ['2024-01-01', '2024-02-01', '2024-03-01', '2024-04-01'],
  )
})

const histogram = (sum: number, counts: number[]): Uint8Array => {
  const count = counts.reduce((a, b) => a + b, 0)
  const h: NativeHistogram = {
    ...{ schema: 0, counterReset: 'gauge', count, sum, zeroThreshold: 0, zeroCount: 0 },
    ...{ positiveSpans: [{ offset: 1, length: counts.length }], positiveCounts: Float64Array.from(counts), negativeSpans: [] },
    ...{ negativeCounts: new Float64Array(0), customBounds: new Float64Array(0), integer: false },
  }
  return encodeHistogram(h)
}

t.test('every type is aggregated as documented', async (t) => {
  const fields: FieldInfo[] = [
    { name: 'i', type: 'int64' },
    { name: 'u', type: 'uint64' },
    { name: 'd', type: 'decimal', scale: 2 },
    { name: 'b', type: 'bool' },
    { name: 's', type: 'string' },
    { name: 'h', type: 'histogram' },
  ]
  const aggregations = all('avg', 'min', 'max', 'sum', 'count', 'first', 'last')
  t.same(
    targetColumns(fields, aggregations)
      .filter(({ field }) => ['b', 's', 'h'].includes(field.name))
      .map(({ name }) => name),
    ['b_count', 'b_first', 'b_last', 's_count', 's_first', 's_last', 'h_avg', 'h_sum', 'h_count', 'h_first', 'h_last'],
  )
  const aggregator = new Aggregator(fields, [request(BigInt64Array.of(0n, 10n), aggregations)], 1e9)
  const columns: ColumnChunk[] = [
    { name: 'i', type: 'int64', values: BigInt64Array.of(-(2n ** 62n) - 1n, 2n ** 62n + 3n) },
    { name: 'u', type: 'uint64', values: BigUint64Array.of(2n ** 64n - 1n, 2n ** 64n - 2n) },
    { name: 'd', type: 'decimal', scale: 2, values: [150n, -10n] },
    { name: 'b', type: 'bool', values: Uint8Array.of(1, 0) },
    { name: 's', type: 'string', values: ['x', null], validity: Uint8Array.of(1, 0) },
    { name: 'h', type: 'histogram', values: [histogram(3, [1, 2]), histogram(5, [3, 0, 4])] },
  ]
  aggregator.add({ series: 1, tags: { a: 'b' }, times: BigInt64Array.of(1n, 2n), columns })
  const result = aggregator.result(0)
  const value = Object.fromEntries(result.columns.map((column) => [column.name, rowValue(column, 0)]))
  t.match(value, { i_min: -(2n ** 62n) - 1n, i_max: 2n ** 62n + 3n, i_count: 2n, u_min: 2n ** 64n - 2n, u_max: 2n ** 64n - 1n, u_avg: 2 ** 64 })
  t.match(value, { d_sum: 140n, d_avg: 0.7, d_min: -10n, d_last: -10n, b_first: true, b_last: false, s_count: 1n, s_last: 'x', h_count: 2n })
  const sum = decodeHistogram(value.h_sum as Uint8Array)
  t.match({ count: sum.count, sum: sum.sum, counts: [...sum.positiveCounts] }, { count: 10, sum: 8, counts: [4, 2, 4] })
  t.match(decodeHistogram(value.h_avg as Uint8Array), { count: 5, sum: 4 })
})

t.test('of rows of one time the tags say which is first and last, not the order of the series; and values outlive the memory they were read in', async (t) => {
  const fields: FieldInfo[] = [{ name: 'v', type: 'float64' }]
  for (const hosts of [
    ['a', 'b', 'c'],
    ['c', 'b', 'a'],
    ['b', 'c', 'a'],
  ]) {
    const aggregator = new Aggregator(fields, [request(BigInt64Array.of(0n, 10n), all('first', 'last'), [])], 1e9)
    for (const [series, host] of hosts.entries()) {
      const values = Float64Array.of('abc'.indexOf(host))
      aggregator.add({ series, tags: { host }, times: BigInt64Array.of(5n), columns: [{ name: 'v', type: 'float64', values }] })
    }
    const { columns } = aggregator.result(0)
    t.same(
      columns.map((column) => rowValue(column, 0)),
      [0, 2],
      hosts.join(),
    )
  }
  const aggregator = new Aggregator([{ name: 'h', type: 'histogram' }], [request(BigInt64Array.of(0n, 10n), all('last'))], 1e9)
  const bytes = histogram(3, [1, 2])
  aggregator.add({ series: 1, tags: {}, times: BigInt64Array.of(5n), columns: [{ name: 'h', type: 'histogram', values: [bytes] }] })
  bytes.fill(0)
  t.match(decodeHistogram(rowValue(aggregator.result(0).columns[0], 0) as Uint8Array), { sum: 3 })
})

t.test('random rows come to what plain loops make of them', async (t) => {
  t.comment(`SVC_SEED=${SEED}`)
  const random = seeded(SEED)
  const aggregations = all('avg', 'min', 'max', 'sum', 'count', 'first', 'last', 'stddev', 'quantile(0.3)')
  for (let round = 0; round < 50; round++) {
    const width = BigInt(1 + Math.floor(random() * 50))
    const boundaries = BigInt64Array.from({ length: 21 }, (_, i) => BigInt(i) * width)
    const aggregator = new Aggregator([{ name: 'v', type: 'float64' }], [request(boundaries, aggregations, ['g'])], 1e9)
    const wanted = new Map<string, { time: bigint; tie: string; v: number }[]>()
    for (let series = 0; series < 6; series++) {
      const tags = { g: String(series % 2), n: String(series) }
      const times = BigInt64Array.from(
        [...new Set(Array.from({ length: 200 }, () => Math.floor(random() * Number(width) * 20)))].sort((a, b) => a - b),
        BigInt,
      )
      const values = Float64Array.from(times, () => Math.floor(random() * 100))
      const validity = random() < 0.5 ? Uint8Array.from(times, () => (random() < 0.8 ? 1 : 0)) : undefined
      const cut = Math.floor(random() * times.length)
      for (const [a, b] of [
        [0, cut],
        [cut, times.length],
      ]) {
        const column: ColumnChunk = {
          name: 'v',
          type: 'float64',
          values: values.slice(a, b),
          ...(validity === undefined ? {} : { validity: validity.slice(a, b) }),
        }
        aggregator.add({ series, tags, times: times.slice(a, b), columns: [column] } satisfies SeriesChunk)
      }
      for (const [i, time] of times.entries()) {
        if (validity?.[i] === 0) continue
        const key = `${tags.g} ${time - (time % width)}`
        wanted.set(key, [...(wanted.get(key) ?? []), { time, tie: tags.n, v: values[i] }])
      }
    }
    const { group, groups, times, columns } = aggregator.result(0)
    if (group.length !== wanted.size) return t.fail(`seed ${SEED}: ${group.length} rows, not ${wanted.size}`)
    for (let row = 0; row < group.length; row++) {
      const points = wanted.get(`${groups[group[row]].g} ${times[row]}`)?.sort((a, b) => Number(a.time - b.time) || (a.tie < b.tie ? -1 : 1)) ?? []
      const list = points.map(({ v }) => v)
      const sum = list.reduce((a, b) => a + b, 0)
      const sorted = [...list].sort((a, b) => a - b)
      const rank = 0.3 * (list.length - 1)
      const quantile = sorted[Math.floor(rank)] + (sorted[Math.ceil(rank)] - sorted[Math.floor(rank)]) * (rank % 1)
      const variance = list.reduce((a, v) => a + (v - sum / list.length) ** 2, 0) / (list.length - 1)
      const expected = [
        sum / list.length,
        sorted[0],
        sorted.at(-1),
        sum,
        list.length,
        list[0],
        list.at(-1),
        list.length < 2 ? undefined : Math.sqrt(variance),
        quantile,
      ]
      for (const [i, column] of columns.entries()) {
        const [found, right] = [rowValue(column, row), expected[i]]
        if (found === undefined || right === undefined ? found !== right : !(Math.abs(Number(found) - right) <= 1e-9))
          return t.fail(`seed ${SEED}: ${column.name} is ${found}, not ${right}`)
      }
    }
  }
  t.pass()
})

t.test('rollups that share a scan come to the same, bit for bit, as each by itself', async (t) => {
  t.comment(`SVC_SEED=${SEED}`)
  const random = seeded(SEED)
  const some = all('avg', 'min', 'max', 'sum', 'count', 'first', 'last', 'stddev', 'quantile(0.3)')
  const fields: FieldInfo[] = [
    { name: 'f', type: 'float64' },
    { name: 'i', type: 'int64' },
    { name: 's', type: 'string' },
  ]
  for (let round = 0; round < 30; round++) {
    const requests = Array.from({ length: 1 + Math.floor(random() * 8) }, (): AggregateRequest => {
      const width = [7, 10, 30][Math.floor(random() * 3)]
      const first = Math.floor((random() * 300) / width)
      const boundaries = BigInt64Array.from({ length: 2 + Math.floor((random() * 200) / width) }, (_, i) => BigInt((first + i) * width))
      const groupBy = [undefined, [], ['g']][Math.floor(random() * 3)]
      return { boundaries, bucketing: String(width), aggregations: [some[4], ...some.filter(() => random() < 0.3)], groupBy }
    })
    const chunks = Array.from({ length: 5 }, (_, series): SeriesChunk => {
      const times = BigInt64Array.from(new Set(Array.from({ length: 150 }, () => Math.floor(random() * 500))), BigInt).sort()
      const validity = () => Uint8Array.from(times, () => (random() < 0.7 ? 1 : 0))
      const base = random() < 0.5 ? 0n : 2n ** 60n
      const columns: ColumnChunk[] = [
        { name: 'f', type: 'float64', values: Float64Array.from(times, () => random() * 100), ...(random() < 0.5 ? { validity: validity() } : {}) },
        { name: 'i', type: 'int64', values: BigInt64Array.from(times, () => base + BigInt(Math.floor(random() * 100))), validity: validity() },
        { name: 's', type: 'string', values: Array.from(times, String), validity: validity() },
      ]
      return { series, tags: { g: String(series % 2), n: String(series) }, times, columns }
    })
    const shared = new Aggregator(fields, requests, 1e9)
    for (const chunk of chunks) shared.add(chunk)
    for (const [at, request] of requests.entries()) {
      const alone = new Aggregator(fields, [request], 1e9)
      for (const chunk of chunks) alone.add(chunk)
      const [start, end] = [request.boundaries[0], request.boundaries[request.boundaries.length - 1]]
      const rows = chunks.reduce((sum, { times }) => sum + times.filter((time) => time >= start && time < end).length, 0)
      t.equal(alone.result(0).sourceRows, rows)
      t.same(shared.result(at), alone.result(0), `seed ${SEED}, round ${round}, request ${at}`)
    }
  }
})

t.test('who needs the same slice shares a scan of it', async (t) => {
  const every = (text: string) => bucketsOf({ every: text, timezone: null, origin: null, created: '0' })
  const s = 1_000_000_000n
  const end = (text: string, start: bigint, last: bigint) => {
    const found = within([600n * s, 660n * s], { buckets: every(text), start: start * s, end: last * s })
    return found === undefined ? undefined : found / s
  }
  t.equal(end('10s', 600n, 5000n), 660n, 'as far as the window')
  t.equal(end('25s', 600n, 5000n), 650n, 'in whole buckets')
  t.equal(end('10s', 560n, 630n), 630n, 'from before it, as far as there is something to do')
  t.equal(end('10s', 530n, 5000n), undefined, 'not from long before it')
  t.equal(end('10s', 660n, 5000n), undefined, 'nor from behind it')
  t.equal(end('10s', 560n, 600n), undefined, 'nor only before it')
  t.equal(end('2m', 600n, 5040n), 720n, 'one bucket may be longer than the window')
  t.equal(end('1h', 0n, 3600n), undefined, 'but not by much')
})

t.test('what takes too much is refused, not held', async (t) => {
  const boundaries = BigInt64Array.from({ length: 1001 }, (_, i) => BigInt(i))
  const aggregator = new Aggregator([{ name: 'v', type: 'float64' }], [request(boundaries, all('avg'))], 10_000)
  const times = BigInt64Array.from({ length: 1000 }, (_, i) => BigInt(i))
  t.throws(() => aggregator.add({ series: 1, tags: {}, times, columns: [{ name: 'v', type: 'float64', values: new Float64Array(1000) }] }), {
    message: 'too much',
  })
})

t.test('texts count by their length: in what is held, and in what is written at once', async (t) => {
  const boundaries = BigInt64Array.from({ length: 101 }, (_, i) => BigInt(i))
  const field = { name: 'v', type: 'string' } as const
  const columns = (length: number) => [{ ...field, values: Array.from({ length: 100 }, () => 'x'.repeat(length)) }]
  const of = (length: number): Aggregator => {
    const aggregator = new Aggregator([field], [request(boundaries, all('first', 'last', 'count'))], 100_000)
    aggregator.add({ series: 1, tags: {}, times: BigInt64Array.from({ length: 100 }, (_, i) => BigInt(i)), columns: columns(length) })
    return aggregator
  }
  t.throws(() => of(1000), { message: 'too much' })
  const rows = of(320).result(0)
  const places = Int32Array.from({ length: 100 }, (_, i) => 99 - i)
  const batches = [...batchesOf(rows, places, { rows: 50, weight: 200 })]
  t.same([...batches.flatMap((some) => [...some])], [...places], 'each row once, in order')
  t.same(new Set(batches.map(({ length }) => length)), new Set([8, 4]), 'three values a row, and two texts of ten')
  t.same(
    [...batchesOf(rows, places, { rows: 50, weight: 1 })].map(({ length }) => length),
    places.map(() => 1),
    'one at least',
  )
  t.same(
    [...batchesOf(rows, places, { rows: 60, weight: 1e6 })].map(({ length }) => length),
    [60, 40],
  )
})

t.test('changes during a pass are marked up to its end, and a pass that fails loses none', async (t) => {
  const rollup = new Rollup(definitionOf({ ...body, every: '10s' }, '', 0n), 64)
  const s = 1_000_000_000n
  const times = (...seconds: bigint[]) => new Int32Array(BigInt64Array.from(seconds, (x) => x * s).buffer)
  t.notOk(rollup.markTimes(times(5n), 1), 'nothing was computed yet')
  rollup.begin([0n, 100n * s])
  t.ok(rollup.markTimes(times(5n, 99n, 100n), 3))
  rollup.done([0n, 50n * s], true)
  t.same([rollup.until, rollup.dirty], [50n * s, [[0n, 10n * s]]], 'what lies behind the slice will be computed anyway')
  t.ok(rollup.mark(undefined, undefined), 'a drop')
  rollup.begin([0n, 50n * s])
  t.ok(rollup.markTimes(times(20n), 1))
  t.same(rollup.need, 0n, 'what is under repair is still needed')
  rollup.done([0n, 30n * s], false)
  t.same(rollup.dirty, [[20n * s, 50n * s]], 'the rest of the range, and what changed meanwhile')
  rollup.begin([20n * s, 50n * s])
  rollup.failed()
  t.same(rollup.dirty, [[20n * s, 50n * s]])
  rollup.clip(25n * s)
  t.same(rollup.dirty, [[30n * s, 50n * s]], 'a bucket that retention has cut stays as it is')
  const again = Rollup.restore(JSON.parse(JSON.stringify(rollup.kept())), 64)
  t.same([again.from, again.until, again.dirty, again.floor], [0n, 50n * s, rollup.dirty, 25n * s])
})

t.test('a target of which segments are out of service is not taken for one without stale rows', async (t) => {
  const answers = (segmentsSkipped: number) => ({ delete: async () => ({ segmentsSkipped }) }) as unknown as Storage
  const range = [{ start: 0n, end: 10n }]
  await t.rejects(deleteStale(answers(1), definitionOf(body, '', 0n), range), { code: 'OVERLOADED', message: /1 segments of "b" are out of service/ })
  await t.resolves(deleteStale(answers(0), definitionOf(body, '', 0n), range))
})

t.test('a slice deletes what is no more, and nothing else', async (t) => {
  const rows: Aggregated = {
    sourceRows: 0,
    groups: [{ h: 'a' }, { h: 'b', r: 'x' }],
    group: Int32Array.of(0, 0, 1),
    times: BigInt64Array.of(10n, 30n, 30n),
    columns: [],
  }
  const stale = [
    { tags: { h: 'a' }, times: BigInt64Array.of(15n, 20n, 40n) },
    { tags: { h: 'c' }, times: BigInt64Array.of(10n, 20n, 30n) },
  ]
  const { deletes, write } = plan({ start: 0n, end: 50n, rows, unchanged: Uint8Array.of(1, 0, 1), stale })
  const matchers = [
    { tag: 'h', op: '=', value: 'c' },
    { tag: 'r', op: '=', value: '' },
  ]
  t.same(deletes, [
    { start: 15n, end: 21n },
    { start: 40n, end: 41n },
    { matchers, start: 10n, end: 31n },
  ])
  t.same([...write], [1])
})
