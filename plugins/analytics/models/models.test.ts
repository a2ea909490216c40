import { createHash } from 'node:crypto'
import { definePlugin, MODEL_KINDS, type ModelKinds } from 'svcdb'
import { boot, temporaryFolder } from 'svcdb/testkit'
import t from 'tap'
import { lookUntil } from '../../../test/support/until.ts'
import { tenants } from '../testing-tenants.ts'
import { begin, call, line, lines, MINUTE, MODELS, model, node, season, write } from './testing.ts'

t.test('a model is trained, shown, asked, trained again and deleted', async (t) => {
  const one = await node(t)
  await write(one, lines(0, 240))
  const created = await call(one, 'POST', MODELS, model())
  t.match(created, {
    status: 201,
    body: {
      ...{ name: 'load', measurement: 'cpu', field: 'load', tags: { host: 'a' }, model_type: 'HoltWinters', version: 1, training_points: 240, status: 'ready' },
      ...{ params: { period: 12 }, parameters: { kind: 'HoltWinters', period: 12, multiplicative: false }, last_error: null, drift_score: null },
      training_data_end: Number(begin + 239n * MINUTE),
      versions: [{ version: 1, tag: 'Champion', algorithm: 'holt_winters', hyperparameters: { period: '12' }, interval_ns: 60_000_000_000, after: null }],
    },
  })
  t.ok(created.body.r_squared > 0.99, `r_squared ${created.body.r_squared}`)
  t.match(created.body.versions[0].checksum, /^[0-9a-f]{64}$/)
  t.same((await call(one, 'GET', `${MODELS}/cpu/load`)).body, created.body)
  const listed = await call(one, 'GET', `${MODELS}?measurement=cpu`)
  t.match(listed, { status: 200, body: { count: 1, models: [{ name: 'load', model_type: 'HoltWinters', version: 1, mse: created.body.mse }] } })
  t.same((await call(one, 'GET', `${MODELS}?measurement=mem`)).body, { models: [], count: 0 })

  // From the newest sample on, not from the end of the training.
  await write(one, lines(240, 250))
  const asked = await call(one, 'GET', '/api/v1/analytics/models/cpu/load/forecast?horizon=6&level=0.9')
  t.match(asked, { status: 200, body: { version: 1, confidence_level: 0.9, interval_ns: 60_000_000_000 } })
  t.equal(asked.body.timestamps.length, 6)
  t.equal(asked.body.timestamps[0], Number(begin + 250n * MINUTE))
  for (let h = 0; h < 6; h++) {
    t.ok(Math.abs(asked.body.values[h] - season(250 + h)) < 1.5, `step ${h}: ${asked.body.values[h]}, and ${season(250 + h)} comes`)
    t.ok(asked.body.confidence_lower[h] < asked.body.values[h] && asked.body.values[h] < asked.body.confidence_upper[h])
  }
  const wider = await call(one, 'GET', '/api/v1/analytics/models/cpu/load/forecast?horizon=6&level=0.99')
  t.ok(wider.body.confidence_upper[0] > asked.body.confidence_upper[0], 'a higher level is wider')

  t.match(await call(one, 'POST', '/api/v1/admin/analytics/retrain', { measurement: 'cpu' }), { status: 202, body: { accepted: true, models_queued: 1 } })
  const again = await lookUntil(
    async () => (await call(one, 'GET', `${MODELS}/cpu/load`)).body,
    (found) => found.versions.length === 2 && found.status === 'ready',
  )
  t.match(again.versions, [
    { version: 1, tag: 'Champion' },
    { version: 2, tag: 'Challenger', training_points: 250 },
  ])
  t.match(await call(one, 'GET', '/api/v1/analytics/models/cpu/load/forecast?version=2'), { status: 200, body: { version: 2 } })
  t.match(await call(one, 'GET', '/api/v1/analytics/models/cpu/load/forecast?version=9'), { status: 404, body: { error: /it has 1, 2/ } })
  t.match(await call(one, 'POST', '/api/v1/admin/analytics/retrain', { measurement: 'mem' }), { status: 200, body: { accepted: false, models_queued: 0 } })

  t.match(await call(one, 'DELETE', `${MODELS}/cpu/load`), { status: 200, body: { ok: true } })
  t.equal((await call(one, 'DELETE', `${MODELS}/cpu/load`)).status, 404)
  t.same(await one.storage.state('analytics').list(), [], 'nothing is kept of it')
})

t.test('a model stays that of its series when another one appears that has its tags and more', async (t) => {
  const one = await node(t, { analytics: { watch_interval_secs: 1 } })
  await write(one, lines(0, 100))
  t.match(await call(one, 'POST', MODELS, model({ tags: {} })), { status: 201, body: { tags: { host: 'a' } } })
  await write(one, [
    ...Array.from({ length: 110 }, (_, i) => `cpu,host=a,core=1 load=1000 ${begin + BigInt(i) * MINUTE}`),
    ...Array.from({ length: 110 }, (_, i) => `cpu,host=a,zone=z load=1000 ${begin + BigInt(i) * MINUTE}`),
    ...lines(100, 110),
  ])
  const asked = await call(one, 'GET', '/api/v1/analytics/models/cpu/load/forecast?horizon=3')
  t.match(asked, { status: 200, body: { timestamps: [Number(begin + 110n * MINUTE)] } }, JSON.stringify(asked.body))
  t.ok(
    asked.body.values?.every((v: number) => v < 100),
    'from its own samples',
  )
  t.equal((await call(one, 'POST', '/api/v1/admin/analytics/retrain', { measurement: 'cpu' })).status, 202)
  const shown = await lookUntil(
    async () => (await call(one, 'GET', `${MODELS}/cpu/load`)).body,
    ({ versions, last_error }) => versions.length === 2 || last_error !== null,
  )
  t.match(shown, { last_error: null, versions: [{}, { training_points: 110 }] })
})

t.test('what cannot be a model is refused, saying what to do', async (t) => {
  const one = await node(t)
  await write(one, [...lines(0, 40), ...lines(0, 40, season, 'b'), `cpu,host=c note="x" ${begin}`, `cpu,host=d load=1 ${begin}`])
  const refused = async (more: object, status: number, text: RegExp): Promise<void> => {
    const { status: found, body } = await call(one, 'POST', MODELS, model({ tags: { host: 'a' }, ...more }))
    t.equal(found, status, JSON.stringify(body))
    t.match(body.error, text)
    t.match(body.error, /^cannot create model /)
  }
  await refused({ model_type: 'prophet' }, 400, /there is no model "prophet"; use one of ses, holt, .*auto$/)
  await refused({ params: { periode: 3 } }, 400, /holt_winters has no parameter "periode"; it has alpha, .*period/)
  await refused({ params: { period: 1 } }, 400, /period is a whole number from 2 to 10000/)
  await refused({ params: { period: 30 } }, 400, /holt_winters needs two periods, 60 points; there are 40/)
  await refused({ measurement: 'none' }, 404, /there is no measurement "none"/)
  await refused({ field: 'none' }, 404, /has no field "none"; it has "load", "note"/)
  await refused({ field: 'note' }, 400, /holds string/)
  await refused({ tags: {} }, 400, /several series of "cpu" have these tags: .*"host":"a".*; name tags that one series has/)
  await refused({ tags: { host: 'zz' } }, 404, /no series of "cpu" has these tags/)
  await refused({ range: { end: 1_796_101_440 } }, 404, /in the range; its end 1796101440 is in nanoseconds, and so in or about 1970: check its unit$/)
  await refused({ tags: { host: 'd' }, model_type: 'ses', params: {} }, 400, /at least 2 points are needed; there are 1/)
  await refused({ range: { start: 5, end: 5 } }, 400, /its range ends at 5, not after its start 5/)
  await refused({ range: { start: 5, last_secs: 5 } }, 400, /both start and last_secs/)
  await refused({ forecast: { horizon: 9000 } }, 400, /analytics.max_forecast_horizon is 8760/)
  await refused({ forecast: { horizon: 9, target_measurement: 'cpu' } }, 400, /choose another target_measurement/)
  await refused({ name: 'a/b' }, 400, /a name is of letters/)
  await write(
    one,
    Array.from({ length: 40 }, (_, i) => `cars,model=x load=${i} ${begin + BigInt(i) * MINUTE}`),
  )
  const cars = { measurement: 'cars', field: 'load', model_type: 'ses', name: 'cars' }
  t.match(await call(one, 'POST', MODELS, { ...cars, forecast: { horizon: 3 } }), {
    status: 400,
    body: { error: /^cannot write the forecast of model "cars": its series has the tag "model", .*; rename the tag, or leave out forecast$/ },
  })
  t.equal((await call(one, 'POST', MODELS, cars)).status, 201, 'without forecasts that are written it may')
  t.equal((await call(one, 'POST', MODELS, model({ tags: { host: 'a' } }))).status, 201)
  await refused({}, 409, /there is one of this name/)
  t.match(await call(one, 'GET', '/api/v1/analytics/models/cpu/load/forecast?horizon=9000'), { status: 400, body: { error: /max_forecast_horizon/ } })
})

t.test('of models of one name whose forecasts would be the same points only one is made', async (t) => {
  const one = await node(t, { plugins: [tenants], config: { server: { multi_tenancy: true } } })
  const [red, blue] = ['red', 'blue'].map((name) => ({ authorization: `Bearer ${name}` }))
  const samples = ['cpu', 'mem', 'disk'].flatMap((measurement) =>
    ['a', 'b'].flatMap((host) => Array.from({ length: 40 }, (_, i) => line(i, season(i), host, measurement))),
  )
  for (const who of [red, blue]) await write(one, samples, who)
  const forecast = { horizon: 3, target_measurement: 'ahead' }
  const create = (measurement: string, more: object = {}, who = red) =>
    call(one, 'POST', MODELS, model({ measurement, tags: { host: 'a' }, forecast, ...more }), who)
  const refusal =
    /^cannot create model "load" on "\w+": that of the name on "\w+" has forecasts of series with the same tags written into "ahead", too; choose another name or target_measurement$/
  const both = (await Promise.all([create('cpu'), create('mem')])).sort((a, b) => a.status - b.status)
  t.match(both, [{ status: 201 }, { status: 409, body: { code: 'CONFLICT', error: refusal } }])
  t.match(await create('disk'), { status: 409, body: { error: refusal } })
  t.equal((await call(one, 'GET', MODELS, undefined, red)).body.count, 1)
  t.equal((await create('disk', { name: 'other' })).status, 201)
  t.equal((await create('disk', { forecast: { horizon: 3 } })).status, 201, 'into another measurement')
  t.equal((await create(both[1].body.error.match(/model "load" on "(\w+)"/)[1], { tags: { host: 'b' } })).status, 201, 'of another series')
  t.equal((await create('disk', {}, blue)).status, 201, 'of another tenant')
})

t.test('every kind that is documented, by its name or as it is listed', async (t) => {
  const one = await node(t, { analytics: { compute_threads: 0 } })
  await write(one, lines(0, 120))
  const kinds = {
    ses: 'Ses',
    holt: 'HoltLinear',
    holt_winters: 'HoltWinters',
    arima: 'Arima',
    sarima: 'Sarima',
    linear_regression: 'LinearRegression',
    auto: 'Auto',
  }
  for (const [name, kind] of Object.entries(kinds)) {
    const params = name === 'holt_winters' || name === 'sarima' ? { period: 12 } : {}
    const made = await call(one, 'POST', MODELS, model({ name, model_type: name === 'ses' ? 'Ses' : name, params }))
    t.match(made, { status: 201, body: { model_type: kind } }, `${name}: ${JSON.stringify(made.body).slice(0, 200)}`)
    const asked = await call(one, 'GET', `/api/v1/analytics/models/cpu/${name}/forecast?horizon=3`)
    t.ok(
      asked.body.values.every((v: number) => Number.isFinite(v) && v > 20 && v < 80),
      `${name}: ${asked.body.values}`,
    )
    if (name === 'auto') {
      t.ok(made.body.versions[0].candidates.length > 5, 'the choice names its candidates')
      t.ok(
        made.body.versions[0].candidates.slice(1).every(({ reason }: { reason?: string }) => reason !== undefined),
        'and why the others were not chosen',
      )
    }
  }
})

t.test('models outlive a restart, and what was changed under them is seen', async (t) => {
  const dataDir = temporaryFolder(t)
  const first = await node(t, { dataDir })
  await write(first, lines(0, 100))
  const made = (await call(first, 'POST', MODELS, model())).body
  await first.stop()
  const second = await node(t, { dataDir })
  t.same((await call(second, 'GET', `${MODELS}/cpu/load`)).body, made)
  const state = second.storage.state('analytics')
  const [{ key, value }] = await state.list<string>({ prefix: 'state/' })
  t.equal(createHash('sha256').update(value).digest('hex'), made.versions[0].checksum)
  await state.transaction((tx) => tx.put(key, value.replace('"alpha":0', '"alpha":1')))
  const refused = await call(second, 'GET', '/api/v1/analytics/models/cpu/load/forecast')
  t.match(refused, { status: 500 })
  t.equal((await call(second, 'GET', `${MODELS}/cpu/load`)).body.parameters, null)
})

t.test('max_models of a quota is kept to, also by requests at a time', async (t) => {
  const one = await node(t, { plugins: ['namespaces'] })
  await one.inject({ method: 'PUT', url: '/api/v1/namespaces/default/quota', payload: { max_models: 2 } })
  await write(one, lines(0, 40))
  const answers = await Promise.all(['a', 'b', 'c', 'd'].map((name) => call(one, 'POST', MODELS, model({ name, model_type: 'ses', params: {} }))))
  t.same(answers.map(({ status }) => status).sort(), [201, 201, 429, 429])
  const refused = answers.find(({ status }) => status === 429)
  t.match(refused?.body, {
    code: 'RATE_LIMITED',
    error: /max_models of 2 is reached; delete one, or have it raised with PUT \/api\/v1\/namespaces\/default\/quota/,
  })
  const [{ name }] = (await call(one, 'GET', MODELS)).body.models
  await call(one, 'DELETE', `${MODELS}/cpu/${name}`)
  t.equal((await call(one, 'POST', MODELS, model({ name: 'e', model_type: 'ses', params: {} }))).status, 201, 'one that is deleted makes room')
})

t.test('models of one tenant leave room for those of another', async (t) => {
  const one = await node(t, { plugins: ['namespaces', tenants], config: { server: { multi_tenancy: true } }, analytics: { max_models: 4 } })
  const [red, blue] = ['red', 'blue'].map((name) => ({ authorization: `Bearer ${name}` }))
  for (const headers of [red, blue]) await write(one, lines(0, 40), headers)
  const create = (name: string, headers: object) => call(one, 'POST', MODELS, model({ name, model_type: 'linear_regression', params: {} }), headers)
  const answers = await Promise.all(['a', 'b', 'c', 'd', 'e'].map((name) => create(name, red)))
  t.same(answers.map(({ status }) => status).sort(), [201, 201, 201, 429, 429])
  t.match(answers.find(({ status }) => status === 429)?.body, { error: /one namespace has at most three quarters, 3, of analytics.max_models = 4; delete one/ })
  t.equal((await create('a', blue)).status, 201)
  t.match((await create('b', blue)).body, { error: /the server has 4 models/ })
})

t.test('tenants see their own models and series only', async (t) => {
  const one = await node(t, { plugins: ['namespaces', tenants], config: { server: { multi_tenancy: true } } })
  const [red, blue] = ['red', 'blue'].map((name) => ({ authorization: `Bearer ${name}` }))
  await write(one, lines(0, 60), red)
  await write(
    one,
    lines(0, 60, (i) => 1000 + i),
    blue,
  )
  const simple = model({ model_type: 'linear_regression', params: {} })
  const [ofRed, ofBlue] = await Promise.all([call(one, 'POST', MODELS, simple, red), call(one, 'POST', MODELS, simple, blue)])
  t.equal(ofRed.status, 201, JSON.stringify(ofRed.body))
  t.ok(ofRed.body.parameters.intercept < 100)
  t.ok(Math.abs(ofBlue.body.parameters.intercept - 1000) < 1e-6)
  await call(one, 'DELETE', `${MODELS}/cpu/load`, undefined, blue)
  t.same((await call(one, 'GET', MODELS, undefined, blue)).body, { models: [], count: 0 })
  t.equal((await call(one, 'GET', `${MODELS}/cpu/load`, undefined, blue)).status, 404)
  t.equal((await call(one, 'GET', '/api/v1/analytics/models/cpu/load/forecast', undefined, blue)).status, 404)
  t.match((await call(one, 'POST', '/api/v1/admin/analytics/retrain', { measurement: 'cpu' }, blue)).body, { accepted: false })
  t.equal((await call(one, 'GET', MODELS, undefined, red)).body.count, 1)
  await write(one, [line(0, 5, 'x', 'secret')], red)
  const body = { measurement: 'secret', field: 'load' }
  t.match(await call(one, 'POST', '/api/v1/analytics/anomalies', body, blue), { status: 404, body: { error: /there is no measurement "secret"/ } })
  t.match(await call(one, 'POST', MODELS, model({ measurement: 'secret' }), blue), { status: 404 })
})

t.test('kinds of models that a plugin brings', async (t) => {
  const brings = (name: string, module: string) =>
    definePlugin({
      id: `brings_${name}`,
      summary: 'Registers a kind of models',
      stability: 'experimental',
      requires: [MODEL_KINDS],
      setup(svc) {
        svc.use<ModelKinds>(MODEL_KINDS).register(name, new URL(module, import.meta.url))
      },
    })
  const one = await node(t, { plugins: [brings('naive', './testing-kind.ts')] })
  await write(one, lines(0, 60))
  const made = await call(one, 'POST', MODELS, model({ model_type: 'naive', params: { season: 12 } }))
  t.match(made, {
    status: 201,
    body: { model_type: 'Custom(naive)', parameters: { season: 12 }, versions: [{ kind: 'Custom(naive)', hyperparameters: { season: '12' } }] },
  })
  await write(one, lines(60, 65))
  const asked = await call(one, 'GET', '/api/v1/analytics/models/cpu/load/forecast?horizon=2')
  t.same(asked.body.values, [season(53), season(54)], 'from the newest sample on')
  t.match(await call(one, 'POST', MODELS, model({ name: 'b', model_type: 'naive', params: { season: 0 } })), {
    status: 400,
    body: { error: /naive: a season is at least 1/ },
  })
  t.match(await call(one, 'POST', MODELS, model({ name: 'b', model_type: 'nave' })), { status: 400, body: { error: /auto, naive$/ } })
  for (const [name, text] of [
    ['ses', /there is one of this name/],
    ['Bad', /a name is lower case/],
  ] as const) {
    const wrong = definePlugin({
      id: 'brings_wrong',
      summary: 'Registers a name that it may not',
      stability: 'experimental',
      requires: [MODEL_KINDS],
      setup: (svc) => svc.use<ModelKinds>(MODEL_KINDS).register(name, new URL('./testing-kind.ts', import.meta.url)),
    })
    await t.rejects(boot({ plugins: ['sql', wrong], storage: 'embedded' }), text)
  }
})

t.test('a training that does not end is ended, by its time limit and by the node', async (t) => {
  const endless = definePlugin({
    id: 'brings_endless',
    summary: 'Registers a kind that never ends',
    stability: 'experimental',
    requires: [MODEL_KINDS],
    setup(svc) {
      svc.use<ModelKinds>(MODEL_KINDS).register('endless', new URL('./testing-endless.ts', import.meta.url))
    },
  })
  const one = await node(t, { plugins: [endless], analytics: { training_timeout_secs: 10 } })
  await write(one, lines(0, 60))
  const late = await call(one, 'POST', MODELS, model({ model_type: 'endless', params: {} }))
  t.match(late.body.error, / 10 s; .*analytics.training_timeout_secs/)
  t.match(await call(one, 'POST', MODELS, model()), { status: 201 }, 'the next one has another thread')
  t.same((await call(one, 'GET', MODELS)).body.count, 1)
  const other = await node(t, { plugins: [endless] })
  await write(other, lines(0, 60))
  const hanging = call(other, 'POST', MODELS, model({ model_type: 'endless', params: {} }))
  await lookUntil(
    async () => (await other.inject('/metrics')).body,
    (text) => /^svc_model_compute_running 1$/m.test(text),
  )
  await other.stop()
  t.not((await hanging).status, 201)
})

t.test('anomalies of one field, and of several together', async (t) => {
  const one = await node(t)
  const two = (i: number, load: number, heat: number) => `cpu,host=a load=${load},heat=${heat} ${begin + BigInt(i) * MINUTE}`
  await write(
    one,
    Array.from({ length: 200 }, (_, i) => two(i, season(i), i === 150 ? 10 : 2 * season(i) + (i % 3) / 10)),
  )
  await write(one, [line(77, 400)])
  const path = '/api/v1/analytics/anomalies'
  const single = await call(one, 'POST', path, { measurement: 'cpu', field: 'load' })
  t.match(single, { status: 200, body: { detector: 'zscore', threshold: 3, points: 200, anomaly_count: 1, truncated: false, tags: { host: 'a' } } })
  t.match(single.body.anomalies, [{ timestamp: Number(begin + 77n * MINUTE), values: [400] }])
  const both = await call(one, 'POST', path, { measurement: 'cpu', fields: ['load', 'heat'], limit: 1 })
  t.match(both, { status: 200, body: { detector: 'mahalanobis', truncated: true, anomalies: [{ timestamp: Number(begin + 150n * MINUTE) }] } })
  t.equal(both.body.correlations.length, 2)
  t.match(await call(one, 'POST', path, { measurement: 'cpu', field: 'load', detector: 'x' }), {
    status: 400,
    body: { error: /there is no detector "x"; use one of zscore/ },
  })
  t.match(await call(one, 'POST', path, { measurement: 'cpu' }), { status: 400, body: { error: /give either field/ } })
  t.match(await call(one, 'POST', path, { measurement: 'cpu', field: 'load', end: String(begin + 2n * MINUTE) }), {
    status: 400,
    body: { error: /zscore needs 3 points; there are 2/ },
  })
})

t.test('odd data comes to what the guide says', async (t) => {
  const one = await node(t, { analytics: { max_training_points: 50 } })
  const at = (seconds: number): bigint => begin + BigInt(seconds) * 1_000_000_000n
  const series: Record<string, string[]> = {
    gaps: [0, 1, 2, 6, 7, 8, 9].map((i) => `gaps load=${10 + i} ${at(60 * i)}`),
    none: [0, 1, 2, 3, 4].map((i) => (i === 2 ? `none other=1 ${at(60 * i)}` : `none load=${10 + i} ${at(60 * i)}`)),
    uneven: [0, 61, 118, 180, 245, 300].map((seconds) => `uneven load=${seconds} ${at(seconds)}`),
    constant: Array.from({ length: 30 }, (_, i) => `constant load=7 ${at(60 * i)}`),
    two: [0, 1].map((i) => `two load=${i} ${at(60 * i)}`),
    integers: [0, 1, 2, 3].map((i) => `integers load=${i}i ${at(60 * i)}`),
    long: Array.from({ length: 80 }, (_, i) => `long load=${i} ${at(60 * i)}`),
  }
  await write(one, Object.values(series).flat())
  const trained = async (measurement: string, model_type = 'linear_regression') => {
    const made = await call(one, 'POST', MODELS, { name: model_type, measurement, field: 'load', model_type })
    const asked = made.status === 201 ? await call(one, 'GET', `/api/v1/analytics/models/${measurement}/${model_type}/forecast?horizon=2`) : undefined
    return { status: made.status, error: made.body.error, version: made.body.versions?.[0], forecast: asked?.body }
  }
  const near = (found: number, wanted: number): boolean => Math.abs(found - wanted) < 1e-6 * Math.abs(wanted)
  const gaps = await trained('gaps')
  t.match(gaps.version, { training_points: 7, bridged_points: 3, left_out_points: 0, sampled: false })
  t.ok(near(gaps.forecast.values[0], 20), `a line through a gap goes on: ${gaps.forecast.values}`)
  t.match((await trained('none')).version, { training_points: 4, bridged_points: 1 }, 'a row without the field is a missing step')
  const uneven = await trained('uneven')
  t.equal(uneven.version.interval_ns, 61_000_000_000, 'a step is the median distance')
  t.ok(Math.abs(uneven.forecast.values[0] - 361) < 5)
  const constant = await trained('constant', 'auto')
  t.match(constant.forecast, { values: [7, 7], confidence_lower: [7, 7], confidence_upper: [7, 7] })
  const none = await call(one, 'POST', '/api/v1/analytics/anomalies', { measurement: 'constant', field: 'load' })
  t.match(none.body, { anomaly_count: 0, anomalies: [] })
  for (const [kind, values] of Object.entries({ ses: 2, holt: 2, linear_regression: [2, 3] })) {
    const two = await trained('two', kind)
    t.equal(two.status, 201, kind)
    if (Array.isArray(values)) t.ok(values.every((v, i) => near(two.forecast.values[i], v)))
  }
  t.match(await trained('two', 'arima'), { status: 400, error: /needs \d+ points; there are 2/ })
  t.match(await trained('two', 'auto'), { status: 400, error: /needs 2 \* horizon \+ 4 = 28 points; there are 2/ })
  t.ok(near((await trained('integers')).forecast.values[0], 4))
  const long = await trained('long')
  t.match(long.version, { training_points: 50, sampled: true }, 'the newest')
  t.ok(long.version.left_out_points > 0 && long.version.left_out_points <= 30, `${long.version.left_out_points} were seen to be left out`)
  t.ok(near(long.forecast.values[0], 80))
  t.match((await call(one, 'POST', '/api/v1/analytics/anomalies', { measurement: 'long', field: 'load' })).body, { points: 50, sampled: true })
})
