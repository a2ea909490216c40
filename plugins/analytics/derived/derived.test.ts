/** Derived series: statements over measurements, kept up to date. */
import { temporaryFolder } from 'svcdb/testkit'
import t from 'tap'
import { lookUntil } from '../../../test/support/until.ts'
import { call, node, write } from '../models/testing.ts'
import { tenants } from '../testing-tenants.ts'

const PATH = '/api/v1/analytics/derived'
const MINUTE = 60_000_000_000n
const begin = (BigInt(Date.now()) / 60_000n - 20n) * MINUTE
const mem = (minute: number, host: string, used: number, total = 100): string =>
  `mem,host=${host} used=${used},total=${total}i ${begin + BigInt(minute) * MINUTE}`
const share = {
  name: 'mem_share',
  query: 'SELECT _time, host, used / total AS share FROM mem WHERE _time >= $1 AND _time < $2',
  every_secs: 1,
}

t.test('an expression over a measurement is kept up to date', async (t) => {
  const one = await node(t, { plugins: ['promql'], analytics: { derived_interval_secs: 1 } })
  await write(one, [mem(0, 'a', 50), mem(0, 'b', 25), mem(1, 'a', 60)])
  t.match(await call(one, 'POST', PATH, share), {
    status: 201,
    body: { name: 'mem_share', target_measurement: 'mem_share', lookback_secs: 3600, last_error: null },
  })
  const rows = async () => (await call(one, 'POST', '/api/v1/svc/sql', { query: 'SELECT host, share FROM mem_share ORDER BY _time, host' })).body.rows ?? []
  t.same(await lookUntil(rows, (found) => found.length === 3), [
    ['a', 0.5],
    ['b', 0.25],
    ['a', 0.6],
  ])
  // What is new, and what came late or was changed.
  await write(one, [mem(2, 'b', 10), mem(0, 'b', 75), mem(1, 'c', 1)])
  const again = [
    ['a', 0.5],
    ['b', 0.75],
    ['a', 0.6],
    ['c', 0.01],
    ['b', 0.1],
  ]
  t.same(await lookUntil(rows, (found) => JSON.stringify(found) === JSON.stringify(again)), again)
  const metrics = (await one.inject('/metrics')).body
  t.match(metrics, /^svc_derived_series_eval_duration_seconds_count [1-9]/m)
  t.match(metrics, /^svc_derived_series_points_written_total 6$/m, 'what came to the same is not written again')
  const listed = await call(one, 'GET', PATH)
  t.equal(listed.body.count, 1)
  t.ok(listed.body.derived[0].evaluated_until > Number(begin))
  t.match(await call(one, 'DELETE', `${PATH}/mem_share`), { status: 200, body: { ok: true } })
  t.equal((await call(one, 'DELETE', `${PATH}/mem_share`)).status, 404)
  t.equal((await rows()).length, 5, 'the points stay')
})

t.test('a node that was away catches up in parts, and no bucket is half of one', async (t) => {
  const dataDir = temporaryFolder(t)
  const analytics = { derived_interval_secs: 1, max_derived_rows: 4 }
  const first = await node(t, { dataDir, analytics: { derived_interval_secs: 3600 } })
  await write(
    first,
    Array.from({ length: 20 }, (_, i) => mem(i, 'a', i)),
  )
  const query = "SELECT time_bucket('2m', _time) AS _time, count(used) AS samples FROM mem WHERE _time >= $1 AND _time < $2 GROUP BY 1"
  t.equal((await call(first, 'POST', PATH, { name: 'counts', query, every_secs: 1, lookback_secs: 240 })).status, 201)
  const state = first.storage.state('analytics')
  const [{ key, value }] = await state.list<object>({ prefix: 'derived/' })
  await state.transaction((tx) => tx.put(key, { ...value, evaluated_until: String(begin) }))
  await first.stop()
  const second = await node(t, { dataDir, analytics })
  const rows = async () => (await call(second, 'POST', '/api/v1/svc/sql', { query: 'SELECT samples FROM counts ORDER BY _time' })).body.rows ?? []
  // An odd first minute makes half a bucket at either end.
  const found = (await lookUntil(rows, (all) => all.length >= 10)).map(([samples]: number[]) => samples)
  t.equal(
    found.reduce((sum: number, samples: number) => sum + samples, 0),
    20,
    `all samples once: ${found}`,
  )
  t.ok(
    found.slice(1, -1).every((samples: number) => samples === 2),
    `whole buckets: ${found}`,
  )
  t.equal((await call(second, 'GET', PATH)).body.derived[0].last_error, null)
  await call(second, 'DELETE', `${PATH}/counts`)
  t.equal((await call(second, 'POST', PATH, { ...share, lookback_secs: 1800 })).status, 201)
  const failing = await lookUntil(
    async () => (await call(second, 'GET', PATH)).body.derived[0],
    ({ last_error }) => last_error !== null,
  )
  t.match(failing.last_error, /1800 s have more than the 4 rows of analytics.max_derived_rows; shorten lookback_secs/)
})

t.test('what cannot be derived is refused, saying what to write', async (t) => {
  const one = await node(t, { analytics: { max_derived_series: 1 } })
  await write(one, [mem(0, 'a', 50)])
  const refused = async (query: string, text: RegExp, status = 400) => {
    const answer = await call(one, 'POST', PATH, { ...share, query })
    t.equal(answer.status, status, JSON.stringify(answer.body))
    t.match(answer.body.error, text)
  }
  const where = 'FROM mem WHERE _time >= $1 AND _time < $2'
  await refused('SELECT _time, used FROM mem', /it reads from \$1 on and before \$2, such as/)
  await refused(`SELECT used ${where}`, /it has no column "_time"/)
  await refused(`SELECT _time, host ${where}`, /no column of numbers/)
  await refused(`SELECT _time, [used] AS x ${where}`, /column "x" is List.*cast it to DOUBLE/)
  await refused('DROP TABLE mem', /cannot keep derived series/)
  t.equal((await call(one, 'POST', PATH, share)).status, 201)
  await refused(share.query, /there is one of this name/, 409)
  t.match(await call(one, 'POST', PATH, { ...share, name: 'other', target_measurement: 'mem_share' }), {
    status: 409,
    body: { error: /is written by derived series "mem_share"/ },
  })
  t.match(await call(one, 'POST', PATH, { ...share, name: 'other' }), { status: 429, body: { error: /analytics.max_derived_series/ } })
})

t.test('tenants derive from their own measurements only', async (t) => {
  const one = await node(t, { plugins: ['namespaces', tenants], config: { server: { multi_tenancy: true } }, analytics: { derived_interval_secs: 1 } })
  const [red, blue] = ['red', 'blue'].map((name) => ({ authorization: `Bearer ${name}` }))
  await write(one, [mem(0, 'a', 50)], red)
  await write(one, [mem(0, 'a', 80)], blue)
  t.equal((await call(one, 'POST', PATH, share, red)).status, 201)
  const rows = async (who: object) => (await call(one, 'POST', '/api/v1/svc/sql', { query: 'SELECT share FROM mem_share' }, who)).body.rows
  t.same(
    await lookUntil(
      () => rows(red),
      (found) => found?.length === 1,
    ),
    [[0.5]],
  )
  t.equal(await rows(blue), undefined)
  t.equal((await call(one, 'GET', PATH, undefined, blue)).body.count, 0)
  t.equal((await call(one, 'DELETE', `${PATH}/mem_share`, undefined, blue)).status, 404)
})

t.test('a derived series may not write what it reads, itself or by others', async (t) => {
  const one = await node(t)
  await write(one, [mem(0, 'a', 50)])
  t.match(await call(one, 'POST', PATH, { ...share, target_measurement: 'mem' }), {
    status: 400,
    body: {
      error: /^cannot create derived series "mem_share": it writes "mem", which it reads, and would go round in circles; choose another target_measurement/,
    },
  })
  t.equal((await call(one, 'POST', PATH, { ...share, target_measurement: 'b' })).status, 201)
  await write(one, [`b,host=a share=1 ${begin}`])
  const back = { name: 'back', query: 'SELECT _time, share AS used FROM "b" WHERE _time >= $1 AND _time < $2', target_measurement: 'mem' }
  t.match(await call(one, 'POST', PATH, back), { status: 400, body: { error: /it writes "mem", which derived series "mem_share" reads for it/ } })
  t.equal((await call(one, 'POST', PATH, { ...back, target_measurement: 'c' })).status, 201, 'one after the other is fine')
})

t.test('slow statements of one tenant hold up no other', async (t) => {
  const config = { server: { multi_tenancy: true } }
  // All are made before the first pass: what is made is tried, and would wait for those that run.
  const one = await node(t, { plugins: ['namespaces', tenants], config, analytics: { derived_interval_secs: 20, derived_timeout_secs: 10 } })
  const [red, blue] = ['red', 'blue'].map((name) => ({ authorization: `Bearer ${name}` }))
  await write(one, [mem(0, 'a', 50)], red)
  await write(one, [mem(0, 'a', 80)], blue)
  const slow = 'SELECT _time, (SELECT sum(sqrt(a.range * b.range)) FROM range(10000000) a, range(1000000) b) AS x FROM mem WHERE _time >= $1 AND _time < $2'
  for (let i = 0; i < 6; i++) t.equal((await call(one, 'POST', PATH, { name: `slow${i}`, query: slow, every_secs: 3600 }, red)).status, 201)
  t.equal((await call(one, 'POST', PATH, { ...share, every_secs: 1 }, blue)).status, 201)
  const [found] = await lookUntil(
    async () => (await call(one, 'GET', PATH, undefined, blue)).body.derived,
    ([{ evaluated_until }]) => evaluated_until !== null,
  )
  t.not(found.evaluated_until, null)
  const { derived } = (await call(one, 'GET', PATH, undefined, red)).body
  const tried = derived.filter(({ last_error, evaluated_until }: { last_error: unknown; evaluated_until: unknown }) => last_error ?? evaluated_until)
  t.ok(tried.length < 6, `${tried.length} of 6 slow ones came before`)
})

t.test('what is remembered of written rows is bounded over all series', async (t) => {
  const one = await node(t, { analytics: { derived_interval_secs: 1, derived_memory_mb: 1 } })
  await write(
    one,
    Array.from({ length: 6000 }, (_, i) => `mem,host=h${i % 600} used=${i},total=100i ${begin + BigInt(Math.floor(i / 600)) * MINUTE}`),
  )
  const written = async (): Promise<number> => Number(/^svc_derived_series_points_written_total (\d+)/m.exec((await one.inject('/metrics')).body)?.[1] ?? 0)
  t.equal((await call(one, 'POST', PATH, share)).status, 201)
  await lookUntil(written, (found) => found >= 6000)
  // Its rows take more than that: they are written again, and none is missing.
  t.ok((await lookUntil(written, (found) => found >= 12_000)) >= 12_000)
  t.equal((await call(one, 'POST', '/api/v1/svc/sql', { query: 'SELECT count(*) FROM mem_share' })).body.rows[0][0], 6000)
})

t.test('an encrypted field is refused, at the creation and when it comes later', async (t) => {
  process.env.SVC_TEST_DERIVED_KEY = Buffer.alloc(32, 7).toString('base64')
  const one = await node(t, {
    analytics: { derived_interval_secs: 1 },
    config: { database: { field_encryption: { columns: { note: 'k' }, keys: { k: 'SVC_TEST_DERIVED_KEY' } } } },
  })
  await write(one, ['Seen,host=a value=1,note="secret"', mem(0, 'a', 50)])
  const query = 'SELECT _time, note, value FROM main.seen WHERE _time >= $1 AND _time < $2'
  t.match(await call(one, 'POST', PATH, { name: 'copy', query, every_secs: 1 }), {
    status: 400,
    body: { code: 'INVALID_REQUEST', error: /cannot keep derived series "copy": field "note" of measurement "Seen" is encrypted/ },
  })
  t.equal((await call(one, 'POST', PATH, share)).status, 201)
  await write(one, [`mem,host=a note="secret" ${begin}`])
  const lastError = async () => String((await call(one, 'GET', PATH)).body.derived[0].last_error)
  t.match(await lookUntil(lastError, (error) => error.includes('encrypted')), /"note" of measurement "mem" is encrypted/)
})
