/** What is done to models by itself: forecasts are written, drift is found, better ones take the place of others. */
import { systemClock } from 'svcdb/testkit'
import t from 'tap'
import { lookUntil } from '../../../test/support/until.ts'
import { begin, call, line, lines, MINUTE, MODELS, model, node, season, write } from './testing.ts'

t.test('forecasts are written again and again, with intervals and scores, and PromQL and SQL see them', async (t) => {
  const one = await node(t, { plugins: ['promql'], analytics: { watch_interval_secs: 1 } })
  await write(one, lines(0, 399))
  const forecast = { horizon: 24, every_secs: 1, target_measurement: 'cpu_ahead', level: 0.9 }
  t.equal((await call(one, 'POST', MODELS, model({ forecast }))).status, 201)
  // One sample as it was to be expected, and one that was not.
  await write(one, [line(399, season(399)), line(400, 500)])
  const sql = async (query: string) => (await call(one, 'POST', '/api/v1/svc/sql', { query })).body
  const found = await lookUntil(
    () => sql('SELECT forecast, lower, upper FROM cpu_ahead WHERE forecast IS NOT NULL ORDER BY _time'),
    ({ rows }) => rows?.length >= 24,
  )
  t.ok(found.rows.length >= 24, JSON.stringify(found))
  for (const [value, lower, upper] of found.rows) t.ok(lower < value && value < upper, `${lower} < ${value} < ${upper}`)
  const scores = await sql('SELECT expected, score FROM cpu_ahead WHERE score IS NOT NULL ORDER BY _time')
  t.equal(scores.rows.length, 2)
  t.ok(scores.rows[0][1] < 3, 'usual')
  t.ok(scores.rows[1][1] > 100, 'unusual: what a trigger watches')
  const asked = await call(
    one,
    'GET',
    `/api/v1/query_range?query=cpu_ahead_upper-cpu_ahead_lower&start=${Date.now() / 1000}&end=${Date.now() / 1000 + 1200}&step=60`,
  )
  t.match(asked.body, { status: 'success', data: { result: [{ metric: { host: 'a', model: 'load' } }] } })
  const shown = await lookUntil(
    async () => (await call(one, 'GET', `${MODELS}/cpu/load`)).body,
    ({ versions }) => versions[0].after !== null,
  )
  t.equal(shown.versions[0].after.points, 2)
  t.ok(shown.forecast.written_until > Number(begin + 410n * MINUTE))
})

t.test('a forecast may have more steps than one write of a client may have points', async (t) => {
  const one = await node(t, { config: { server: { max_write_batch_size: 10 } }, analytics: { watch_interval_secs: 1 } })
  const all = lines(0, 300)
  for (let i = 0; i < all.length; i += 10) await write(one, all.slice(i, i + 10))
  const forecast = { horizon: 50, every_secs: 1, target_measurement: 'cpu_ahead' }
  t.equal((await call(one, 'POST', MODELS, model({ forecast }))).status, 201)
  const shown = await lookUntil(
    async () => (await call(one, 'GET', `${MODELS}/cpu/load`)).body,
    ({ forecast: { written_until }, last_error }) => written_until !== null || last_error !== null,
  )
  t.equal(shown.last_error, null)
  t.match((await call(one, 'POST', '/api/v1/svc/sql', { query: 'SELECT count(forecast) AS n FROM cpu_ahead' })).body.rows, [[50]])
})

t.test('a clock that ran ahead and is put right keeps no forecast from being written', async (t) => {
  let ahead = 86_400_000
  const clock = { ...systemClock, now: () => Date.now() + ahead, nowNanos: () => BigInt(Date.now() + ahead) * 1_000_000n }
  const one = await node(t, { clock, analytics: { watch_interval_secs: 1 } })
  await write(one, lines(0, 399))
  t.equal((await call(one, 'POST', MODELS, model({ forecast: { horizon: 2, every_secs: 1 } }))).status, 201)
  const written = async () => (await call(one, 'GET', `${MODELS}/cpu/load`)).body.forecast.written_until
  const first = await lookUntil(written, (until) => until !== null)
  ahead = 0
  await write(one, [line(399, season(399)), line(400, season(400))])
  const next = await lookUntil(written, (until) => until > first)
  t.ok(next > first, `${next} after ${first}`)
})

t.test('a model that has drifted is replaced where that is better, and stays where it is not', async (t) => {
  const one = await node(t, { analytics: { watch_interval_secs: 1, drift_points: 20, refit_pause_secs: 1 } })
  // Twice the level and three times the season: what was learnt does not hold.
  const changed = (i: number) => (i < 150 ? season(i) : 60 + season(i, 3))
  // Five times as noisy about the same level: nothing would forecast it better.
  const noise = (i: number) => 50 + (((i * 7919) % 13) - 6) / 20
  await write(one, [...lines(0, 150, changed), ...lines(0, 150, noise, 'noise')])
  t.equal((await call(one, 'POST', MODELS, model({ tags: { host: 'a' } }))).status, 201)
  t.equal((await call(one, 'POST', MODELS, model({ name: 'noise', tags: { host: 'noise' }, model_type: 'ses', params: {} }))).status, 201)
  await write(one, [...lines(150, 390, changed), ...lines(150, 390, (i) => 50 + 5 * (noise(i) - 50), 'noise')])
  const replaced = await lookUntil(
    async () => (await call(one, 'GET', `${MODELS}/cpu/load`)).body,
    ({ version }) => version > 1,
  )
  t.match(replaced.versions, [
    { version: 1, tag: 'Retired' },
    { version: 2, tag: 'Champion', training_points: 390 },
  ])
  t.ok(replaced.versions[0].after.rmse > 1.5 * replaced.versions[0].metrics.rmse, 'it had drifted')
  const stays = await lookUntil(
    async () => (await call(one, 'GET', `${MODELS}/cpu/noise`)).body,
    ({ drift_score }) => drift_score !== null,
  )
  t.ok(stays.drift_score > 1.5)
  t.equal(stays.version, 1)
})

t.test('a Challenger that forecasts better what comes takes the place of the Champion, and one that does not goes', async (t) => {
  const one = await node(t, { analytics: { watch_interval_secs: 1, drift_points: 10, drift_threshold: 1000 } })
  const rising = (i: number) => (i < 100 ? season(i) : season(i) + (i - 100) * 4)
  await write(one, lines(0, 200, rising))
  const range = { end: String(begin + 100n * MINUTE) }
  t.equal((await call(one, 'POST', MODELS, model({ model_type: 'linear_regression', params: {}, range }))).status, 201)
  await call(one, 'POST', '/api/v1/admin/analytics/retrain', { measurement: 'cpu' })
  await lookUntil(
    async () => (await call(one, 'GET', `${MODELS}/cpu/load`)).body,
    ({ versions, status }) => versions.length === 2 && status === 'ready',
  )
  // The same range gives the same model: neither wins. A range of its own is the definition's, which stays; so the champion is beaten by one of all samples.
  t.match((await call(one, 'GET', `${MODELS}/cpu/load`)).body.versions, [{ tag: 'Champion' }, { tag: 'Challenger' }])
  t.equal((await call(one, 'POST', MODELS, model({ name: 'b', model_type: 'linear_regression', params: {}, range: { last_secs: 400 * 60 } }))).status, 201)
  await write(
    one,
    lines(200, 300, (i) => rising(i) * 2 - 400),
  )
  await call(one, 'POST', '/api/v1/admin/analytics/retrain', { measurement: 'cpu', model_name: 'b' })
  await lookUntil(
    async () => (await call(one, 'GET', `${MODELS}/cpu/b`)).body,
    ({ versions, status }) => versions.length === 2 && status === 'ready',
  )
  await write(
    one,
    lines(300, 330, (i) => rising(i) * 2 - 400),
  )
  const decided = await lookUntil(
    async () => (await call(one, 'GET', `${MODELS}/cpu/b`)).body,
    ({ version }) => version === 2,
  )
  t.match(decided.versions, [
    { version: 1, tag: 'Retired' },
    { version: 2, tag: 'Champion' },
  ])
  const [before, after] = decided.versions
  t.ok(after.after.rmse < before.after.rmse, `${after.after.rmse} instead of ${before.after.rmse}`)
})

t.test('a model that much came after is trained again by itself, and one that nothing came after is let alone', async (t) => {
  const one = await node(t, { analytics: { watch_interval_secs: 1, max_training_points: 60 } })
  await write(one, lines(0, 60))
  t.equal((await call(one, 'POST', MODELS, model({ tags: { host: 'a' } }))).status, 201)
  // More than half of what it may be followed over.
  await write(one, lines(60, 95))
  const renewed = await lookUntil(
    async () => (await call(one, 'GET', `${MODELS}/cpu/load`)).body,
    ({ version }) => version > 1,
  )
  t.match(renewed, { last_error: null, training_data_end: Number(begin + 94n * MINUTE), versions: [{ tag: 'Retired' }, { version: 2, tag: 'Champion' }] })

  // 10,000,000 steps of a microsecond: more than anything is followed over.
  const at = (microseconds: number, v: number): string => `fast load=${v} ${begin + BigInt(microseconds) * 1000n}`
  await write(
    one,
    Array.from({ length: 50 }, (_, i) => at(i, i % 7)),
  )
  t.equal((await call(one, 'POST', MODELS, { name: 'fast', measurement: 'fast', field: 'load' })).status, 201)
  await write(one, [at(10_000_000, 3)])
  const fast = await lookUntil(
    async () => (await call(one, 'GET', `${MODELS}/fast/fast`)).body,
    ({ version, last_error }) => version > 1 || last_error !== null,
  )
  t.match(fast, { version: 2, last_error: null })

  const rounds = async (): Promise<number> =>
    Number(/schedule_runs_total\{plugin="analytics",schedule="models",result="done"\} (\d+)/.exec((await one.inject('/metrics')).body)?.[1] ?? 0)
  const followed = async (): Promise<number> =>
    Number(/^svc_forecast_predict_duration_seconds_count (\d+)/m.exec((await one.inject('/metrics')).body)?.[1] ?? 0)
  const past = async (): Promise<void> => {
    const from = await rounds()
    await lookUntil(rounds, (found) => found >= from + 3)
  }
  await past()
  const before = await followed()
  await past()
  t.equal(await followed(), before, 'nothing new came')
  await write(one, lines(95, 96))
  await lookUntil(followed, (found) => found > before)
  t.ok((await followed()) > before, 'a new sample is looked at')
})

t.test('a forecast that cannot be written does not keep a model from being compared and replaced', async (t) => {
  const one = await node(t, { analytics: { watch_interval_secs: 1, drift_points: 20, refit_pause_secs: 1 } })
  const changed = (i: number) => (i < 150 ? season(i) : 60 + season(i, 3))
  // A field of text, where the forecast would be a number.
  await write(one, [...lines(0, 150, changed), `cpu_ahead,host=x forecast="text" ${begin}`])
  const forecast = { horizon: 4, every_secs: 1, target_measurement: 'cpu_ahead' }
  t.equal((await call(one, 'POST', MODELS, model({ forecast }))).status, 201)
  await write(one, lines(150, 395, changed))
  const replaced = await lookUntil(
    async () => (await call(one, 'GET', `${MODELS}/cpu/load`)).body,
    ({ version, last_error }) => version > 1 && last_error !== null,
  )
  t.equal(replaced.version, 2)
  t.match(replaced.last_error, /forecast/)
  t.equal(replaced.forecast.written_until, null)

  await write(
    one,
    Array.from({ length: 30 }, (_, i) => `daily load=${i} ${begin - BigInt(29 - i) * 1440n * MINUTE}`),
  )
  const daily = { name: 'd', measurement: 'daily', field: 'load', forecast: { horizon: 3 } }
  t.match(await call(one, 'POST', MODELS, daily), {
    status: 400,
    body: {
      error:
        /^cannot write the forecast of model "d": its first step at \d+ lies past \d+, the clock plus \[database\] future_write_tolerance_secs; raise that$/,
    },
  })
  t.equal((await call(one, 'GET', `${MODELS}?measurement=daily`)).body.count, 0)
})

t.test('a sample that lies off its step is counted once, however often the model is looked at', async (t) => {
  const one = await node(t, { analytics: { watch_interval_secs: 1 } })
  const figure = async (name: string): Promise<number> => Number(new RegExp(`^svc_${name} (\\d+)`, 'm').exec((await one.inject('/metrics')).body)?.[1] ?? 0)
  const moved = () => figure('clock_drift_corrections_total')
  const late = (i: number): string => `cpu,host=a load=50 ${begin + BigInt(i) * MINUTE + 2_000_000_000n}`
  await write(one, [...lines(0, 50), late(50), ...lines(51, 100)])
  const forecast = { horizon: 4, every_secs: 1, target_measurement: 'cpu_ahead' }
  t.equal((await call(one, 'POST', MODELS, model({ forecast }))).status, 201)
  t.equal(await moved(), 1)
  await write(one, [late(100), ...lines(101, 110)])
  await lookUntil(moved, (found) => found > 1)
  const from = await figure('forecast_predict_duration_seconds_count')
  await lookUntil(
    () => figure('forecast_predict_duration_seconds_count'),
    (found) => found >= from + 3,
  )
  t.equal((await call(one, 'GET', '/api/v1/analytics/models/cpu/load/forecast')).status, 200)
  t.equal((await call(one, 'POST', '/api/v1/admin/analytics/retrain', { measurement: 'cpu' })).status, 202)
  await lookUntil(
    async () => (await call(one, 'GET', `${MODELS}/cpu/load`)).body,
    ({ versions, status }) => versions.length === 2 && status === 'ready',
  )
  t.equal(await moved(), 2)
})

t.test('a training that was asked of a node that has ended is done by the one that watches', async (t) => {
  const one = await node(t, { analytics: { watch_interval_secs: 1, training_timeout_secs: 8 } })
  await write(one, lines(0, 60))
  t.equal((await call(one, 'POST', MODELS, model())).status, 201)
  const state = one.storage.state('analytics')
  const [{ key, value }] = await state.list<object>({ prefix: 'model/' })
  await state.transaction((tx) => tx.put(key, { ...value, retrain: true }))
  // Its next look reads the record.
  await write(one, lines(60, 70))
  const shown = () => call(one, 'GET', `${MODELS}/cpu/load`)
  const asked = await lookUntil(shown, ({ body }) => body.status === 'training')
  t.match(asked.body, { status: 'training', versions: [{ version: 1 }] })
  const done = await lookUntil(shown, ({ body }) => body.status === 'ready')
  t.match(done.body, { status: 'ready', last_error: null, versions: [{ version: 1 }, { version: 2, tag: 'Challenger', training_points: 70 }] })
})
