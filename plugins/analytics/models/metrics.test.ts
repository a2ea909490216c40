/** Each documented metric of analytics moves when what it is about happens. */
import t from 'tap'
import { lookUntil } from '../../../test/support/until.ts'
import { begin, call, lines, MINUTE, MODELS, model, node, season, write } from './testing.ts'

t.test('each documented metric is there from the start, and moves', async (t) => {
  const one = await node(t, {
    plugins: ['triggers'],
    config: { triggers: {} },
    analytics: { watch_interval_secs: 1, derived_interval_secs: 1, drift_points: 12 },
  })
  const metrics = async (): Promise<Map<string, number>> =>
    new Map([...(await one.inject('/metrics')).body.matchAll(/^svc_(\w+?)(_count)? ([0-9.e+-]+)$/gm)].map(([, name, , value]) => [name, Number(value)]))
  const counters = [
    ...['forecast_fit_duration_seconds', 'forecast_predict_duration_seconds', 'anomaly_fit_duration_seconds', 'anomaly_detect_duration_seconds'],
    ...['preprocess_duration_seconds', 'compute_parallel_fit_duration_seconds', 'correlation_compute_duration_seconds'],
    ...['multivariate_anomaly_detect_duration_seconds', 'derived_series_eval_duration_seconds', 'anomaly_detected_total', 'clock_drift_corrections_total'],
    ...['compute_batch_operations_total', 'model_drift_detected_total', 'model_refit_total', 'composite_signal_fired_total'],
  ]
  const gauges = [
    'model_drift_score',
    'model_accuracy_mape',
    'model_accuracy_rmse',
    'model_age_seconds',
    'model_ab_test_champion_mape',
    'model_ab_test_challenger_mape',
  ]
  const before = await metrics()
  for (const name of [...counters, ...gauges]) t.equal(before.get(name), 0, `${name} is there`)

  // A sample two seconds off its step.
  await write(one, [...lines(0, 100), `cpu,host=a load=50 ${begin + 100n * MINUTE + 2_000_000_000n}`])
  t.equal((await call(one, 'POST', MODELS, model())).status, 201)
  t.equal((await call(one, 'POST', '/api/v1/admin/analytics/retrain', { measurement: 'cpu' })).status, 202)
  await lookUntil(
    async () => (await call(one, 'GET', `${MODELS}/cpu/load`)).body,
    ({ versions, status }) => versions.length === 2 && status === 'ready',
  )
  await write(one, lines(101, 108))
  const tested = await lookUntil(metrics, (found) => (found.get('model_ab_test_challenger_mape') as number) > 0)
  for (const name of gauges) t.ok((tested.get(name) as number) > 0, `${name} is ${tested.get(name)}`)

  await write(
    one,
    lines(108, 200, (i) => 3 * season(i)),
  )
  const body = { measurement: 'cpu', field: 'load', detector: 'iqr', threshold: 0.1 }
  t.ok((await call(one, 'POST', '/api/v1/analytics/anomalies', body)).body.anomaly_count > 0)
  await write(
    one,
    Array.from({ length: 20 }, (_, i) => `two,host=a x=${i},y=${(i * 7) % 5} ${begin + BigInt(i) * MINUTE}`),
  )
  t.equal((await call(one, 'POST', '/api/v1/analytics/anomalies', { measurement: 'two', fields: ['x', 'y'] })).status, 200)
  const query = 'SELECT _time, x + y AS z FROM two WHERE _time >= $1 AND _time < $2'
  t.equal((await call(one, 'POST', '/api/v1/analytics/derived', { name: 'sum', query, every_secs: 1 })).status, 201)
  for (const statement of ['TRIGGER a ON fire WHEN v > 1', 'TRIGGER b ON fire WHEN v > 2', "TRIGGER c ON SIGNALS (a, b) WITHIN INTERVAL '1m'"])
    t.equal((await call(one, 'POST', '/api/v1/triggers', { query: `CREATE ${statement}` })).status, 200)
  await write(one, [`fire v=3 ${begin}`])
  const after = await lookUntil(metrics, (found) => counters.every((name) => (found.get(name) as number) > 0))
  for (const name of counters) t.ok((after.get(name) as number) > 0, `${name} is ${after.get(name)}`)
})
