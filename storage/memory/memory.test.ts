import t from 'tap'
import { conformance, testContext } from '../conformance/index.ts'
import { f64, NOW_MS, type TestPoint, write } from '../conformance/points.ts'
import { createEngine } from './index.ts'

conformance('memory', async (config, now) => {
  const engine = createEngine(testContext(config, now))
  await engine.open()
  return { engine, dispose: () => engine.close() }
})

// Other engines release these series when their maintenance comes by; this one at once.
t.test('series whose data has ended no longer count', async (t) => {
  const clock = { ms: NOW_MS }
  const config = { max_series_cardinality: 2, soft_delete_ttl_secs: 3600, retention_secs: 7200 }
  const engine = createEngine(testContext(config, () => clock.ms))
  await engine.open()
  t.teardown(() => engine.close())
  const point = (measurement: string): TestPoint => ({ measurement, time: BigInt(clock.ms) * 1_000_000n, fields: { v: f64(1) } })
  const refused = { written: 0, rejections: [{ code: 'CARDINALITY_EXCEEDED' }] }

  await write(engine, [point('old'), point('dropped')])
  await engine.drop('default', 'dropped')
  t.match(await write(engine, [point('new')]), refused)
  clock.ms += 3_600_000
  await write(engine, [point('old')])
  t.match(await write(engine, [point('new')]), { written: 1 }, 'the grace period has passed')
  t.match(await write(engine, [point('newer')]), refused)
  clock.ms += 4 * 3_600_000
  const { epoch } = engine.resolver
  await write(engine, [point('new')])
  t.match(await write(engine, [point('newer')]), { written: 1 }, 'nothing of the oldest is left')
  t.ok(engine.resolver.epoch > epoch)
  t.same(
    (await engine.measurements('default')).map(({ name }) => name),
    ['new', 'newer', 'old'],
  )
})

t.test('many state transactions at one time are all committed, each as if it were alone', async (t) => {
  const engine = createEngine(testContext({}, () => NOW_MS))
  const state = engine.state('one')
  const count = 1500
  const turns = async (n: number): Promise<void> => {
    for (let rest = n; rest > 0; rest--) await undefined
  }
  await Promise.all(
    Array.from({ length: count }, (_, i) =>
      state.transaction(async (tx) => {
        const n = (await tx.get<number>('n')) ?? 0
        await turns(i % 7)
        tx.put('n', n + 1)
        tx.put(`own/${i}`, i)
      }),
    ),
  )
  t.equal(await state.get('n'), count)
  t.equal((await state.list({ prefix: 'own/' })).length, count)
})
