import type { Clock } from 'svcdb'
import { boot, systemClock, type TestNode } from 'svcdb/testkit'
import t, { type Test } from 'tap'
import { until } from '../../test/support/until.ts'
import { becomes } from './testing.ts'

const HOUR = 3_600_000_000_000n
/** 2024-01-01T00:00:00Z */
const T0 = 1_704_067_200_000_000_000n

t.setTimeout(300_000)

async function node(
  t: Test,
  { storage = 'memory', rollups = {}, database = {}, clock }: { storage?: string; rollups?: object; database?: object; clock?: Clock } = {},
): Promise<TestNode> {
  const one = await boot({
    ...(clock === undefined ? {} : { clock }),
    plugins: ['native', 'line_protocol', 'rollups'],
    storage,
    config: { rollups: { interval_ms: 10, ...rollups }, database: { ooo_shard_tolerance: 2, ...database } },
  })
  t.teardown(() => one.stop())
  return one
}

async function write(one: TestNode, lines: string[], backfill = true): Promise<void> {
  const answer = await one.inject({ method: 'POST', url: `/write?backfill=${backfill}`, headers: { 'content-type': 'text/plain' }, payload: lines.join('\n') })
  if (answer.statusCode !== 204) throw new Error(answer.body)
}

const create = (one: TestNode, body: object) =>
  one.inject({
    method: 'POST',
    url: '/api/v1/rollups',
    payload: { name: 'hourly', source_measurement: 'cpu', target_measurement: 'cpu_1h', every: '1h', aggregations: ['avg', 'count'], ...body },
  })

async function rows(one: TestNode, measurement = 'cpu_1h'): Promise<string[]> {
  const out: string[] = []
  try {
    for await (const { tags, times, columns } of one.storage.scan({ namespace: '', measurement })) {
      for (let i = 0; i < times.length; i++) {
        const values = columns.filter(({ validity }) => validity === undefined || validity[i] === 1).map(({ name, values }) => `${name}=${values[i]}`)
        out.push(`${Object.values(tags)} ${(times[i] - T0) / HOUR} ${values}`)
      }
    }
  } catch (error) {
    if ((error as { code: string }).code !== 'NOT_FOUND') throw error
  }
  return out.sort()
}

for (const storage of ['memory', 'embedded']) {
  t.test(`buckets are written when the live window has left them, and again when their data changes (${storage})`, async (t) => {
    const one = await node(t, { storage })
    const line = (host: string, minutes: number, value: number) => `cpu,host=${host} usage=${value} ${T0 + BigInt(minutes) * 60_000_000_000n}`
    await write(one, [line('a', 0, 1), line('a', 30, 3), line('b', 10, 7), line('a', 60, 5), line('a', 60 * 5, 9)])
    t.equal((await create(one, {})).statusCode, 201)
    await becomes(t, () => rows(one), ['a 0 usage_avg=2,usage_count=2', 'a 1 usage_avg=5,usage_count=1', 'b 0 usage_avg=7,usage_count=1'], 'up to the window')
    const listed = (await one.inject('/api/v1/rollups')).json()
    t.match(listed, {
      total: 1,
      items: [{ name: 'hourly', aggregations: ['Avg', 'Count'], timezone: null, origin: null, pending_repairs: [], status: 'active', last_error: null }],
    })
    t.match((await one.inject('/api/v1/rollups')).body, `"materialised_until":${T0 + 3n * HOUR}`)
    await write(one, [line('a', 45, 5)])
    await becomes(t, () => rows(one), ['a 0 usage_avg=3,usage_count=3', 'a 1 usage_avg=5,usage_count=1', 'b 0 usage_avg=7,usage_count=1'], 'a backfill')
    await one.storage.delete({ namespace: '', measurement: 'cpu', matchers: [{ tag: 'host', op: '=', value: 'b' }], start: T0, end: T0 + HOUR })
    await becomes(t, () => rows(one), ['a 0 usage_avg=3,usage_count=3', 'a 1 usage_avg=5,usage_count=1'], 'a delete')
    const view = (await one.inject('/api/v1/rollups/hourly/query')).json()
    t.same(
      view.rows.map((row: unknown[]) => row.slice(1)),
      [
        ['a', 3, 3],
        ['a', 5, 1],
        ['a', 9, 1],
      ],
    )
    t.equal((await one.inject({ method: 'DELETE', url: '/api/v1/rollups/hourly' })).statusCode, 204)
    t.equal((await one.inject({ method: 'DELETE', url: '/api/v1/rollups/hourly' })).statusCode, 404)
  })
}

/** The clock of the system, but that so much time passes at each look. */
function leaping(ms: number): Clock {
  let looks = 0
  return { ...systemClock, monotonic: () => systemClock.monotonic() + ++looks * ms }
}

t.test('rollups whose turn does not come within a run have it in a later one', async (t) => {
  // Each look at the clock is some seconds later: a run is over before most have had their turn.
  const one = await node(t, { clock: leaping(2000) })
  await write(one, [`cpu,host=a usage=1 ${T0}`, `cpu,host=a usage=2 ${T0 + 9n * HOUR}`])
  const names = ['a', 'b', 'c', 'd', 'e', 'f', 'g', 'h']
  for (const name of names) t.equal((await create(one, { name, target_measurement: `cpu_${name}` })).statusCode, 201)
  const computed = async () => (await Promise.all(names.map((name) => rows(one, `cpu_${name}`)))).map(({ length }) => length)
  await becomes(
    t,
    computed,
    names.map(() => 1),
    'all of them',
  )
})

t.test('what cannot be a rollup is refused', async (t) => {
  const one = await node(t, { rollups: { max_rollups_per_namespace: 2 } })
  const answer = async (more: object) => {
    const { statusCode, body } = await create(one, more)
    return [statusCode, (JSON.parse(body) as { code?: string }).code]
  }
  t.same(await answer({ name: 'one', target_measurement: 'one' }), [201, undefined])
  t.same(await answer({ name: 'one', target_measurement: 'two' }), [409, 'CONFLICT'], 'name taken')
  t.same(await answer({ name: 'two', target_measurement: 'one' }), [409, 'CONFLICT'], 'target taken')
  t.same(await answer({ name: 'two', source_measurement: 'one', target_measurement: 'cpu' }), [400, 'INVALID_REQUEST'], 'a cycle')
  t.same(await answer({ name: 'two', target_measurement: 'cpu' }), [400, 'INVALID_REQUEST'], 'source = target')
  t.same(await answer({ name: 'two', target_measurement: 'two', aggregations: ['mode'] }), [400, 'INVALID_REQUEST'])
  t.same(await answer({ name: 'two', target_measurement: 'two', aggregations: [] }), [400, 'INVALID_REQUEST'])
  t.equal((await answer({ name: 'two', target_measurement: 'two', unknown: 1 }))[0] === 201, false, 'an unknown member')
  await write(one, ['used v=1 1'])
  t.same(await answer({ name: 'two', target_measurement: 'used' }), [409, 'CONFLICT'], 'a target with other fields')
  t.same(await answer({ name: 'two', target_measurement: 'two', every: '1mo', origin: '2024-01-29' }), [400, 'INVALID_REQUEST'])
  t.same(await answer({ name: 'two', source_measurement: 'one', target_measurement: 'two' }), [201, undefined], 'a tier')
  t.same(await answer({ name: 'three', target_measurement: 'three' }), [429, 'RATE_LIMITED'])
  for (const [method, url] of [
    ['POST', '/api/v1/rollups/none/refresh'],
    ['GET', '/api/v1/rollups/none/query'],
  ] as const)
    t.match((await one.inject({ method, url })).json(), { code: 'NOT_FOUND', error: /"none"/ })
  t.match((await one.inject({ method: 'POST', url: '/api/v1/rollups/one/refresh?start=5&end=5' })).json(), { code: 'INVALID_REQUEST' })
})

const line = (measurement: string, hours: number, value: number, tags = '') => `${measurement}${tags} v=${value} ${T0 + BigInt(hours * 3600) * 1_000_000_000n}`

t.test('an encrypted field is refused, at the creation and when it comes later', async (t) => {
  process.env.SVC_TEST_ROLLUP_KEY = Buffer.alloc(32, 7).toString('base64')
  const one = await node(t, { storage: 'embedded', database: { field_encryption: { columns: { note: 'k' }, keys: { k: 'SVC_TEST_ROLLUP_KEY' } } } })
  await write(one, [`cpu note="x",v=1 ${T0}`, `mem v=1 ${T0}`, `mem v=1 ${T0 + 9n * HOUR}`])
  t.match((await create(one, {})).json(), { code: 'INVALID_REQUEST', error: /"note" of measurement "cpu" is encrypted/ })
  t.equal((await create(one, { source_measurement: 'mem' })).statusCode, 201)
  await becomes(t, () => rows(one), [' 0 v_avg=1,v_count=1'], 'without it')
  await write(one, [`mem note="y" ${T0 + 1n}`])
  const error = async () => /"note" of measurement "mem" is encrypted/.test(String((await one.inject('/api/v1/rollups')).json().items[0].last_error))
  await becomes(t, error, true, 'it is shown')
  t.same(await rows(one), [' 0 v_avg=1,v_count=1'])
})

t.test('raw data waits for its buckets, and what retention took is not computed again', async (t) => {
  const one = await node(t, { database: { retention_secs: 6 * 3600, retention: { cpu_1h: 0 } }, rollups: { interval_ms: 10 } })
  t.equal((await create(one, {})).statusCode, 201)
  await write(one, [line('cpu', 0, 1), line('cpu', 1, 2), line('cpu', 2, 3)], false)
  await write(one, [line('cpu', 30, 9)], false)
  const first = [' 0 v_avg=1,v_count=1', ' 1 v_avg=2,v_count=1', ' 2 v_avg=3,v_count=1']
  await becomes(t, () => rows(one), first, 'computed though the newest point left retention far behind at once')
  const raw = async () => (await rows(one, 'cpu')).length
  await becomes(t, raw, 1, 'then retention has its way')
  await one.storage.delete({ namespace: '', measurement: 'cpu', start: T0, end: T0 + 3n * HOUR })
  await one.storage.drop('', 'cpu')
  const view = (await one.inject(`/api/v1/rollups/hourly/query?start=${T0}&end=${T0 + 3n * HOUR}`)).json()
  t.equal(view.row_count, 3, 'the view has them before the next pass, too')
  await write(one, [line('cpu', 31, 9)], false)
  const pending = async () => (await one.inject('/api/v1/rollups')).json().items[0].pending_repairs
  await becomes(t, pending, [], 'nothing of it is computed again')
  t.same(await rows(one), first)
})

t.test('buckets keep their types in the view when the source is dropped and written again with others', async (t) => {
  const one = await node(t, { database: { retention_secs: 6 * 3600, retention: { cpu_1h: 0 } } })
  const post = (url: string, payload: object) => one.inject({ method: 'POST', url, payload })
  const declare = (scale: number) => post('/api/v1/measurements/cpu/schema/fields', { name: 'price', type: 'decimal', scale })
  const priced = (hours: number, price: string) => `cpu price=${price}d ${T0 + BigInt(hours) * HOUR}`
  const view = async (query: string) => (await one.inject(`/api/v1/rollups/hourly/query?start=${T0}${query}`)).json()
  const shown = (answer: { columns: { name: string; data_type: string }[]; rows: unknown[][] }) => [answer.columns[1], ...answer.rows.map((row) => row[1])]
  await declare(2)
  t.equal((await create(one, { aggregations: ['max'] })).statusCode, 201)
  await write(one, [priced(0, '1.25'), priced(1, '2.50')], false)
  await write(one, [priced(30, '3')], false)
  const column = { name: 'price_max', data_type: 'decimal(38, 2)' }
  await becomes(t, async () => (await rows(one)).length, 2, 'they are computed')
  await becomes(t, async () => (await rows(one, 'cpu')).length, 1, 'retention takes the raw data')
  await one.storage.drop('', 'cpu')
  await declare(4)
  t.same(shown(await view('')), [column, '1.25', '2.50'])
  await write(one, [priced(30, '3.1234')], false)
  t.same(shown(await view(`&end=${T0 + 2n * HOUR}`)), [column, '1.25', '2.50'])
  t.match(await view(''), { code: 'SCHEMA_ERROR', error: /"price_max" of "cpu_1h" is decimal\(38, 2\), and out of what "cpu" has now it is decimal\(38, 4\)/ })
})

t.test('a retention of its own deletes buckets, and tiers above keep theirs', async (t) => {
  const one = await node(t, { rollups: { trim_interval_secs: 1 } })
  t.equal((await create(one, { retention_seconds: 7200, aggregations: ['sum'] })).statusCode, 201)
  t.equal((await create(one, { name: 'tier', source_measurement: 'cpu_1h', target_measurement: 'cpu_2h', every: '2h', aggregations: ['sum'] })).statusCode, 201)
  await write(
    one,
    [0, 1, 2, 3, 4, 5, 6, 7].map((hour) => line('cpu', hour, 1)),
  )
  await write(one, [line('cpu', 10, 1)])
  await becomes(t, () => rows(one), [' 6 v_sum=1', ' 7 v_sum=1'], 'two hours are left')
  await becomes(t, () => rows(one, 'cpu_2h'), [' 0 v_sum_sum=2', ' 2 v_sum_sum=2', ' 4 v_sum_sum=2', ' 6 v_sum_sum=2'], 'of the tier all')
  await write(one, [line('cpu', 0.5, 1)])
  await becomes(
    t,
    async () => (await one.inject('/api/v1/rollups')).json().items.map((item: { pending_repairs: unknown[] }) => item.pending_repairs),
    [[], []],
    'a backfill before it',
  )
  t.same((await rows(one, 'cpu_2h'))[0], ' 0 v_sum_sum=2', 'changes nothing')
})

t.test('a retention of its own waits for the tiers above, whose buckets are longer', async (t) => {
  const one = await node(t, { rollups: { trim_interval_secs: 1 } })
  t.equal((await create(one, { retention_seconds: 7200, aggregations: ['sum'] })).statusCode, 201)
  t.equal((await create(one, { name: 'tier', source_measurement: 'cpu_1h', target_measurement: 'cpu_8h', every: '8h', aggregations: ['sum'] })).statusCode, 201)
  // Trimmed behind the other, so that it shows that both have had their turn.
  const alone = { name: 'alone', target_measurement: 'alone_1h', retention_seconds: 7200, aggregations: ['sum'] }
  t.equal((await create(one, alone)).statusCode, 201)
  await write(
    one,
    [0, 1, 2, 3, 4].map((hour) => line('cpu', hour, 1)),
  )
  await write(one, [line('cpu', 7, 1)])
  await becomes(t, () => rows(one, 'alone_1h'), [' 3 v_sum=1', ' 4 v_sum=1'], 'two hours are left where nobody needs more')
  t.equal((await rows(one)).length, 5, 'a bucket of the tier is to be computed from all five')
  await write(
    one,
    [5, 6].map((hour) => line('cpu', hour, 1)),
  )
  await write(one, [line('cpu', 10, 1)])
  await becomes(t, () => rows(one, 'cpu_8h'), [' 0 v_sum_sum=8'], 'which it is')
  await becomes(t, () => rows(one), [' 6 v_sum=1', ' 7 v_sum=1'], 'then two hours are left')
})

t.test('a refresh computes buckets before their time', async (t) => {
  const one = await node(t)
  await write(one, [line('cpu', 0, 1), line('cpu', 1, 3)], false)
  t.equal((await create(one, {})).statusCode, 201)
  const answer = await one.inject({ method: 'POST', url: `/api/v1/rollups/hourly/refresh?start=${T0 + 1n}&end=${T0 + HOUR + 1n}` })
  t.same(answer.json(), { rollup: 'hourly', points_written: 2 })
  t.same(await rows(one), [' 0 v_avg=1,v_count=1', ' 1 v_avg=3,v_count=1'])
  const body = { start: String(T0), end: String(T0 + HOUR) }
  const misplaced = await one.inject({ method: 'POST', url: '/api/v1/rollups/hourly/refresh', payload: body })
  t.match(misplaced.json(), { code: 'INVALID_REQUEST', error: /takes no body; give start and end in the query/ }, 'a range that is not looked at would be all')
  t.equal((await one.inject({ method: 'POST', url: `/api/v1/rollups/hourly/refresh?start=${T0 + 1n}&end=${T0 + HOUR + 1n}`, payload: {} })).statusCode, 200)
  const tooMany = await one.inject({ method: 'POST', url: `/api/v1/rollups/hourly/refresh?start=0&end=${T0}` })
  t.match(tooMany.json(), { code: 'INVALID_REQUEST', error: /max_refresh_buckets/ })
})

t.test('a refresh without a start begins with the first row, whatever was repaired or asked for before', async (t) => {
  const one = await node(t)
  const line = (hour: bigint) => `cpu v=1 ${T0 + hour * HOUR}`
  const refresh = (query = '') => one.inject({ method: 'POST', url: `/api/v1/rollups/hourly/refresh${query}` })
  const shown = async () => (await one.inject('/api/v1/rollups')).json().items[0]
  await write(one, [line(5n)])
  t.equal((await create(one, {})).statusCode, 201)
  await until('all is empty', async () => (await one.inject('/api/v1/rollups')).body.includes(`"materialised_until":${T0 + 3n * HOUR}`))
  await one.storage.delete({ namespace: '', measurement: 'cpu', matchers: [] })
  await until('that is repaired', async () => / [1-9]/.test((await one.inject('/metrics')).body.match(/^svc_rollup_ranges_recomputed_total.*$/m)?.[0] ?? ''))
  t.match(await shown(), { status: 'waiting', pending_repairs: [] })
  t.same((await refresh()).json(), { rollup: 'hourly', points_written: 0 })
  await write(one, [line(0n), line(2n)])
  await becomes(t, () => rows(one), [' 0 v_avg=1,v_count=1', ' 2 v_avg=1,v_count=1'], 'late rows')
  t.equal((await refresh()).statusCode, 200)
  t.equal((await refresh(`?start=${T0 - 200_000n * HOUR}&end=${T0 - 199_990n * HOUR}`)).statusCode, 200, 'where there is nothing')
  t.equal((await refresh()).statusCode, 200)
})

t.test('a refresh ahead of the watermark hides nothing of what lies before it', async (t) => {
  const one = await node(t)
  await write(one, [`cpu,host=a usage=1 ${T0}`, `cpu,host=a usage=2 ${T0 + HOUR}`])
  t.equal((await create(one, {})).statusCode, 201)
  const shown = async () => {
    const { statusCode, body } = await one.inject('/api/v1/rollups/hourly/query')
    return statusCode === 200 ? (JSON.parse(body).rows as unknown[][]).map((row) => row.slice(1)) : body
  }
  const both = [
    ['a', 1, 1],
    ['a', 2, 1],
  ]
  const refresh = () => one.inject({ method: 'POST', url: `/api/v1/rollups/hourly/refresh?start=${T0 + HOUR}&end=${T0 + 2n * HOUR}` })
  t.match((await refresh()).json(), { points_written: 1 })
  t.same(await shown(), both, 'before the first look')
  await becomes(t, async () => /"materialised_until":(-?\d+)/.exec((await one.inject('/api/v1/rollups')).body)?.[1], String(T0 - HOUR), 'looked at')
  t.equal((await refresh()).statusCode, 200)
  t.same(await shown(), both, 'after it')
})

t.test('a rollup that fails again and again is parked with its error, and others go on', async (t) => {
  const one = await node(t, { rollups: { park_after_failures: 1, max_series_per_rollup: 2 } })
  t.equal((await create(one, { name: 'wide' })).statusCode, 201)
  t.equal((await create(one, { name: 'narrow', target_measurement: 'cpu_all', group_by_tags: [] })).statusCode, 201)
  await write(one, [...['a', 'b', 'c'].map((host) => line('cpu', 0, 1, `,host=${host}`)), line('cpu', 9, 1)])
  await becomes(t, () => rows(one, 'cpu_all'), [' 0 v_avg=1,v_count=3'], 'the other one')
  const state = async () => (await one.inject('/api/v1/rollups')).json().items.map((item: { name: string; status: string }) => `${item.name} ${item.status}`)
  await becomes(t, state, ['narrow active', 'wide parked'], 'parked')
  t.match((await one.inject('/api/v1/rollups')).json().items[1].last_error, /max_series_per_rollup is 2/)
  t.match((await one.inject('/metrics')).body, /^svc_rollup_failures_total 1$/m)
})

t.test('a slice is read once for the rollups of its source', async (t) => {
  const one = await node(t)
  const widths = ['10m', '20m', '30m', '1h', '1h']
  for (const [i, every] of widths.entries())
    t.equal(
      (await create(one, { name: `r${i}`, target_measurement: `t${i}`, every, aggregations: ['sum'], group_by_tags: i % 2 === 0 ? [] : null })).statusCode,
      201,
    )
  const minutes = Array.from({ length: 360 }, (_, minute) => `cpu,host=h${minute % 3} v=1 ${T0 + (BigInt(minute) * HOUR) / 60n}`)
  await write(one, [...minutes, line('cpu', 8, 1, ',host=h0')])
  const done = async () => (await one.inject('/api/v1/rollups')).json().items.map(({ materialised_until: until }: { materialised_until: number }) => until)
  await becomes(t, done, new Array(5).fill(Number(T0 + 6n * HOUR)), 'all have six hours')
  for (const [i, points] of [36, 54, 12, 18, 6].entries()) t.equal((await rows(one, `t${i}`)).length, points, widths[i])
  const read = Number(/^svc_rollup_source_rows_total (\d+)$/m.exec((await one.inject('/metrics')).body)?.[1])
  t.ok(read < 2 * 360, `five rollups of 360 rows have read ${read}: their buckets end at different times`)
})

t.test('how far a rollup is behind is shown', async (t) => {
  const one = await node(t, { rollups: { park_after_failures: 1, max_series_per_rollup: 2 } })
  t.equal((await create(one, {})).statusCode, 201)
  t.equal((await create(one, { name: 'tier', source_measurement: 'cpu_1h', target_measurement: 'cpu_2h', every: '2h', aggregations: ['sum'] })).statusCode, 201)
  const lags = async () =>
    (await one.inject('/api/v1/rollups')).json().items.map((item: { name: string; lag_seconds: number }) => [item.name, item.lag_seconds])
  const metric = async () => /^svc_rollup_lag_seconds (.*)$/m.exec((await one.inject('/metrics')).body)?.[1]
  await write(one, [line('cpu', 0, 1), line('cpu', 9, 1)])
  await becomes(t, () => rows(one, 'cpu_2h'), [' 0 v_avg_sum=1,v_count_sum=1'], 'the tier has the first bucket')
  // How far it has come is stored behind the rows.
  await becomes(
    t,
    async () => [await lags(), await metric()],
    [
      [
        ['hourly', 0],
        ['tier', 0],
      ],
      '0',
    ],
    'all that is closed is there',
  )
  await write(one, [...['a', 'b', 'c'].map((host) => line('cpu', 10, 1, `,host=${host}`)), line('cpu', 20, 1)])
  await becomes(
    t,
    lags,
    [
      ['hourly', 11 * 3600],
      ['tier', 12 * 3600],
    ],
    'from hour 7, and 6, to 18',
  )
  t.equal(await metric(), String(12 * 3600))
})

t.test('tenants see, fill and hold their own rollups only', async (t) => {
  const one = await boot({
    plugins: ['native', 'line_protocol', 'namespaces', 'rollups'],
    config: { rollups: { interval_ms: 10 }, database: { ooo_shard_tolerance: 2 }, server: { multi_tenancy: true } },
  })
  t.teardown(() => one.stop())
  const as = (namespace: string) => ({ 'x-namespace': namespace, 'content-type': 'application/json' })
  for (const [namespace, value] of [
    ['acme', 1],
    ['other', 2],
  ] as const) {
    const payload = [line('cpu', 0, value), line('cpu', 9, value)].join('\n')
    t.equal((await one.inject({ method: 'POST', url: '/write', headers: { ...as(namespace), 'content-type': 'text/plain' }, payload })).statusCode, 204)
  }
  const body = { name: 'hourly', source_measurement: 'cpu', target_measurement: 'cpu_1h', every: '1h', aggregations: ['sum'] }
  t.equal((await one.inject({ method: 'POST', url: '/api/v1/rollups', headers: as('acme'), payload: body })).statusCode, 201)
  const listed = async (namespace: string) => (await one.inject({ url: '/api/v1/rollups', headers: as(namespace) })).json().total
  t.same([await listed('acme'), await listed('other')], [1, 0])
  const found = async (namespace: string) => {
    const out: unknown[] = []
    const measurements = await one.storage.measurements(namespace)
    if (measurements.some(({ name }) => name === 'cpu_1h'))
      for await (const { columns } of one.storage.scan({ namespace, measurement: 'cpu_1h' })) out.push(columns[0].values[0])
    return out
  }
  await becomes(t, () => found('acme'), [1], 'its own data')
  t.same(await found('other'), [])
  t.equal((await one.inject({ method: 'DELETE', url: '/api/v1/rollups/hourly', headers: { 'x-namespace': 'other' } })).statusCode, 404)
  t.match((await one.inject({ method: 'DELETE', url: '/api/v1/namespaces/acme' })).json(), {
    code: 'CONFLICT',
    error: 'cannot delete namespace "acme": it has 1 rollup; remove them first',
  })
})

t.test('a rollup that is created while its namespace is being deleted goes with it', async (t) => {
  const one = await boot({ plugins: ['line_protocol', 'namespaces', 'rollups'], config: { server: { multi_tenancy: true } } })
  t.teardown(() => one.stop())
  const headers = { 'x-namespace': 'acme' }
  const text = { ...headers, 'content-type': 'text/plain' }
  t.equal((await one.inject({ method: 'POST', url: '/write', headers: text, payload: `cpu v=1 ${BigInt(Date.now()) * 1_000_000n}` })).statusCode, 204)
  const payload = { name: 'late', source_measurement: 'cpu', target_measurement: 'cpu_1h', every: '1h', aggregations: ['sum'] }
  const { storage } = one
  const drop = storage.drop.bind(storage)
  let created = 0
  storage.drop = async (...args) => {
    created = (await one.inject({ method: 'POST', url: '/api/v1/rollups', headers, payload })).statusCode
    return drop(...args)
  }
  const remove = async () => (await one.inject({ method: 'DELETE', url: '/api/v1/namespaces/acme' })).statusCode
  t.equal(await remove(), 200)
  storage.drop = drop
  t.equal(created, 201, 'by whoever had the namespace')
  t.equal((await one.inject({ method: 'POST', url: '/api/v1/namespaces', payload: { name: 'acme' } })).statusCode, 201)
  t.equal((await one.inject({ url: '/api/v1/rollups', headers })).json().total, 0, 'whoever has the name next has none')
  t.equal(await remove(), 200)
})
