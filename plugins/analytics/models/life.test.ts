/** Models beside the rest of a node: backups, triggers, limits, requests that go away, namespaces. */
import { join } from 'node:path'
import { definePlugin, MODEL_KINDS, type ModelKinds } from 'svcdb'
import type { TestNode } from 'svcdb/testkit'
import t from 'tap'
import { lookUntil } from '../../../test/support/until.ts'
import { DETECTOR_NAMES, namesOfOne, namesOfSeveral } from '../detect/detectors.ts'
import { tenants } from '../testing-tenants.ts'
import { begin, call, line, lines, MINUTE, MODELS, model, node, season, write } from './testing.ts'

const ANOMALIES = '/api/v1/analytics/anomalies'
const kinds = definePlugin({
  id: 'brings_kinds',
  summary: 'Registers kinds for the test',
  stability: 'experimental',
  requires: [MODEL_KINDS],
  setup(svc) {
    for (const name of ['endless', 'heavy']) svc.use<ModelKinds>(MODEL_KINDS).register(name, new URL(`./testing-${name}.ts`, import.meta.url))
  },
})
const root = definePlugin({
  id: 'test_root',
  summary: 'Lets an admin of all namespaces in',
  stability: 'experimental',
  setup(svc) {
    svc.auth.authenticator(({ header }) =>
      header('x-root') === undefined ? undefined : { principal: 'root', method: 'test', claims: {}, namespaces: [], admin: true },
    )
  },
})
const figure = async (one: TestNode, name: string): Promise<number> =>
  Number(new RegExp(`^svc_${name} (\\d+)`, 'm').exec((await one.inject({ url: '/metrics', headers: { 'x-root': '1' } })).body)?.[1] ?? Number.NaN)
const computing = (one: TestNode, count: number) =>
  lookUntil(
    () => figure(one, 'model_compute_running'),
    (found) => found === count,
  )

t.test('models are in backups, with their versions', async (t) => {
  const one = await node(t, { plugins: ['backup'] })
  await write(one, lines(0, 100))
  t.equal((await call(one, 'POST', MODELS, model())).status, 201)
  await call(one, 'POST', '/api/v1/admin/analytics/retrain', { measurement: 'cpu' })
  const shown = (of: TestNode) => call(of, 'GET', `${MODELS}/cpu/load`)
  const before = await lookUntil(
    () => shown(one),
    ({ body }) => body.versions.length === 2 && body.status === 'ready',
  )
  t.equal(before.body.versions.length, 2)
  const ahead = (of: TestNode) => call(of, 'GET', '/api/v1/analytics/models/cpu/load/forecast?horizon=5')
  const forecast = await ahead(one)
  t.equal((await call(one, 'POST', '/api/v1/admin/backup', { target_dir: 'b' })).status, 200)
  t.equal((await call(one, 'DELETE', `${MODELS}/cpu/load`)).status, 200)
  t.equal((await call(one, 'POST', '/api/v1/admin/restore', { backup_dir: 'b', target_dir: 'r' })).status, 200)
  const two = await node(t, { dataDir: join(one.dataDir, 'backups', 'r') })
  t.same(await shown(two), before)
  t.same(await ahead(two), forecast)
  t.equal((await shown(one)).status, 404)
})

t.test('a trigger fires on the scores that a scheduled forecast writes', async (t) => {
  const one = await node(t, { plugins: ['triggers'], config: { triggers: {} }, analytics: { watch_interval_secs: 1 } })
  await write(one, lines(0, 398))
  const forecast = { horizon: 4, every_secs: 1, target_measurement: 'cpu_ahead' }
  t.equal((await call(one, 'POST', MODELS, model({ forecast }))).status, 201)
  const query = "CREATE TRIGGER odd ON cpu_ahead WHEN score > 8 AND model = 'load' COOLDOWN INTERVAL '1s'"
  t.equal((await call(one, 'POST', '/api/v1/triggers', { query })).status, 200)
  // One that is usual, and one that is not.
  await write(one, [line(398, season(398)), line(399, 500)])
  const { body } = await lookUntil(
    () => call(one, 'GET', '/api/v1/signals'),
    ({ body: found }) => found.length > 0,
  )
  t.equal(body.length, 1)
  t.match(body[0], { trigger_name: 'odd', measurement: 'cpu_ahead', tags: { host: 'a', model: 'load' }, timestamp: Number(begin + 399n * MINUTE) })
  t.ok(body[0].value > 8)
})

t.test('a training that takes too much memory is refused, and so are requests beyond those that may wait', async (t) => {
  const one = await node(t, { plugins: [kinds], analytics: { compute_memory_mb: 48, max_waiting: 1 } })
  await write(one, lines(0, 60))
  for (const where of ['objects', 'buffers']) {
    const heavy = await call(one, 'POST', MODELS, model({ model_type: 'heavy', params: { where, megabytes: 300 } }))
    t.match(
      heavy,
      { status: 503, body: { code: 'OVERLOADED', error: /^cannot create model "load" on "cpu": .* 48 MiB of analytics.compute_memory_mb/ } },
      where,
    )
  }
  t.equal((await call(one, 'POST', MODELS, model({ name: 'next' }))).status, 201, 'the next one has another thread')

  const gone = new AbortController()
  const busy = request(one, gone.signal)
  await computing(one, 1)
  const waits = call(one, 'POST', ANOMALIES, { measurement: 'cpu', field: 'load' })
  await lookUntil(
    () => figure(one, 'model_compute_waiting'),
    (found) => found === 1,
  )
  const refused = await one.inject({ method: 'POST', url: ANOMALIES, payload: { measurement: 'cpu', field: 'load' } })
  t.equal(refused.statusCode, 429)
  t.match(refused.json().error, /1 requests wait for a thread, which is analytics.max_waiting/)
  t.equal(refused.headers['retry-after'], '5')
  gone.abort()
  await t.rejects(busy)
  t.equal((await waits).status, 200, 'who waited has the thread of who has gone')
})

t.test('requests of one tenant that wait for a thread leave room for those of another', async (t) => {
  const most = 4
  const one = await node(t, { plugins: [kinds, tenants, root], config: { server: { multi_tenancy: true } }, analytics: { max_waiting: most } })
  const [red, blue] = ['red', 'blue'].map((name) => ({ authorization: `Bearer ${name}` }))
  for (const headers of [red, blue]) await write(one, lines(0, 60), headers)
  const waiting = async (count: number) => {
    const found = await lookUntil(
      () => figure(one, 'model_compute_waiting'),
      (waits) => waits >= count,
    )
    t.equal(found, count)
  }
  const asks = (headers: Record<string, string>) => call(one, 'POST', ANOMALIES, { measurement: 'cpu', field: 'load' }, headers)
  const gone = new AbortController()
  const busy = request(one, gone.signal, red)
  await computing(one, 1)
  const reds: ReturnType<typeof asks>[] = []
  for (let i = 1; i <= most; i++) {
    reds.push(asks(red))
    await waiting(i)
  }
  const tooMany = { status: 429, body: { code: 'RATE_LIMITED', error: /4 requests wait for a thread, which is analytics.max_waiting/ } }
  t.match(await asks(red), tooMany, 'alone it has all of the room')
  const blues = [asks(blue), asks(blue)]
  t.match(await Promise.all(reds.splice(2)), [tooMany, tooMany], 'those that came last give way')
  await waiting(most)
  for (const headers of [red, blue]) t.match(await asks(headers), tooMany, 'each has its half')
  gone.abort()
  await t.rejects(busy)
  for (const each of [...blues, ...reds]) t.equal((await each).status, 200)
})

/** A training that does not end, over a socket. */
function request(one: TestNode, signal: AbortSignal, headers = {}): Promise<Response> {
  const body = JSON.stringify(model({ model_type: 'endless', params: {} }))
  return fetch(one.url + MODELS, { method: 'POST', headers: { 'content-type': 'application/json', ...headers }, body, signal })
}

t.test('a training ends when nobody waits for it any more, and when its model is deleted', async (t) => {
  const one = await node(t, { plugins: [kinds] })
  await write(one, lines(0, 60))
  const gone = new AbortController()
  const hanging = request(one, gone.signal)
  t.equal(await computing(one, 1), 1)
  gone.abort()
  await t.rejects(hanging)
  t.equal(await computing(one, 0), 0, 'its thread is free')
  t.same((await call(one, 'GET', MODELS)).body, { models: [], count: 0 })

  // Of the samples that there are it is trained, of more it is not.
  t.equal((await call(one, 'POST', MODELS, model({ model_type: 'endless', params: { from: 61 } }))).status, 201)
  await write(one, lines(60, 80))
  t.equal((await call(one, 'POST', '/api/v1/admin/analytics/retrain', { measurement: 'cpu' })).status, 202)
  t.equal(await computing(one, 1), 1)
  t.equal((await call(one, 'GET', `${MODELS}/cpu/load`)).body.status, 'training')
  t.equal((await call(one, 'DELETE', `${MODELS}/cpu/load`)).status, 200)
  t.equal(await computing(one, 0), 0)
  t.equal((await call(one, 'GET', `${MODELS}/cpu/load`)).status, 404)
  t.same(await one.storage.state('analytics').list(), [], 'nothing is kept of it')
})

t.test('models and derived series of a namespace go with it', async (t) => {
  const config = { server: { multi_tenancy: true } }
  const one = await node(t, { plugins: ['namespaces', tenants, root], config })
  const [red, blue] = ['red', 'blue'].map((name) => ({ authorization: `Bearer ${name}` }))
  for (const who of [red, blue]) {
    await write(one, lines(0, 60), who)
    for (const name of ['a', 'b']) t.equal((await call(one, 'POST', MODELS, model({ name }), who)).status, 201)
    const query = 'SELECT _time, load FROM cpu WHERE _time >= $1 AND _time < $2'
    t.equal((await call(one, 'POST', '/api/v1/analytics/derived', { name: 'copy', query }, who)).status, 201)
  }
  const kept = async (): Promise<string[]> => (await one.storage.state('analytics').list()).map(({ key }) => key)
  t.equal((await kept()).length, 10)
  const deleted = await one.inject({ method: 'DELETE', url: '/api/v1/namespaces/red', headers: { 'x-root': 'yes' } })
  t.ok(deleted.statusCode < 300, deleted.body)
  const left = await lookUntil(kept, (keys) => keys.length === 5)
  t.equal(left.length, 5)
  t.notOk(
    left.some((key) => key.includes('red')),
    `${left}`,
  )
  t.equal((await call(one, 'GET', MODELS, undefined, blue)).body.count, 2)
})

t.test('all detectors by name, over HTTP and in SQL', async (t) => {
  const one = await node(t)
  const odd = 150
  const point = (i: number): string => {
    const v = season(i) + (i === odd ? 60 : 0)
    return `two,host=a x=${v},w=${season(i)},y=${2 * season(i) + (((i * 31) % 7) - 3) / 10 - (i === odd ? 40 : 0)} ${begin + BigInt(i) * MINUTE}`
  }
  await write(
    one,
    Array.from({ length: 200 }, (_, i) => point(i)),
  )
  const time = Number(begin + BigInt(odd) * MINUTE)
  t.equal(DETECTOR_NAMES.length, 11)
  const found = async (body: object): Promise<number[]> => {
    const answer = await call(one, 'POST', ANOMALIES, { measurement: 'two', ...body })
    t.equal(answer.status, 200, JSON.stringify(answer.body))
    t.equal(answer.body.points, 200)
    return answer.body.anomalies.map(({ timestamp }: { timestamp: number }) => timestamp)
  }
  const sql = async (expression: string): Promise<unknown[][]> => {
    const query = `SELECT _time FROM (SELECT _time, ${expression} AS odd FROM two) WHERE odd ORDER BY _time`
    const answer = await call(one, 'POST', '/api/v1/svc/sql', { query })
    t.equal(answer.status, 200, `${expression}: ${JSON.stringify(answer.body).slice(0, 300)}`)
    return answer.body.rows
  }
  for (const detector of namesOfOne()) {
    const times = await found({ field: 'x', detector })
    t.ok(times.includes(time), `${detector} over HTTP`)
    t.ok(times.length < 100, `${detector}: ${times.length}`)
    const rows = await sql(`detect_anomalies(x, '${detector}') OVER (ORDER BY _time)`)
    t.equal(rows.length, times.length, `${detector} in SQL finds the same`)
  }
  for (const detector of namesOfSeveral()) {
    const answer = await call(one, 'POST', ANOMALIES, { measurement: 'two', fields: ['w', 'y'], detector })
    const times = answer.body.anomalies.map(({ timestamp }: { timestamp: number }) => timestamp)
    t.ok(times.includes(time), `${detector} of two over HTTP`)
    t.ok(times.length < 100, `${detector}: ${times.length}`)
    const rows = await sql(`multivariate_anomaly(w, y, ${answer.body.threshold}, '${detector}') OVER (ORDER BY _time) > 1`)
    t.equal(rows.length, times.length, `${detector} of two in SQL finds the same`)
  }
})
