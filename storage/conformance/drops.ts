/** Drops, and what undoes them. */
import { type Life, type LifeRule, seen } from './life.ts'
import { advance, HOUR_MS, names, point, row, YEAR_MS } from './one-field.ts'
import { f64, fill, HOUR, isStored, NOW, NOW_MS, type TestPoint, write } from './points.ts'

const DAY = 24n * HOUR

/** Configurations that the tables below expect. */
export const dropConfig = { soft_delete_ttl_secs: 86_400, max_series_cardinality: 6 }
export const finalDropConfig = { max_series_cardinality: 6 }

const drop = (life: Life, measurement = 'cpu', namespace = 'default') => life.engine.drop(namespace, measurement)
const restore = (life: Life, measurement = 'cpu', namespace = 'default') => life.engine.restore(namespace, measurement)

export const dropRules: LifeRule[] = [
  [
    'a dropped measurement is gone for every reader, and comes back whole',
    async (t, life) => {
      await write(life.engine, [point(NOW, 1), point(NOW, 2, 'b'), point(NOW, 3, 'a', 'mem')])
      await write(life.engine, [point(NOW, 4)], { namespace: 'other' })
      await life.between()
      const before = { schema: await life.engine.measurements('default'), rows: await seen(life, 'cpu') }
      await drop(life)
      for (let round = 0; round < 2; round++) {
        t.same(await names(life), ['mem'])
        t.equal(await seen(life, 'cpu'), 'NOT_FOUND')
        await t.rejects(life.engine.explain({ namespace: 'default', measurement: 'cpu' }), { code: 'NOT_FOUND' })
        await t.rejects(life.engine.delete({ namespace: 'default', measurement: 'cpu' }), { code: 'NOT_FOUND' })
        await t.rejects(drop(life), { code: 'NOT_FOUND', message: /^cannot drop measurement "cpu": / })
        t.same(await seen(life, 'cpu', 'other'), [row(NOW, 4)])
        await life.between()
      }
      await restore(life)
      t.same(await life.engine.measurements('default'), before.schema)
      t.same(await seen(life, 'cpu'), before.rows)
      await life.between()
      t.match(await write(life.engine, [point(NOW + 1n, 5), point(NOW, 6, 'b'), point(NOW, 'x', 'c')]), { written: 2, rejections: [{ code: 'SCHEMA_ERROR' }] })
      const after = [row(NOW, 1), row(NOW + 1n, 5), row(NOW, 6, 'b')]
      t.same(await seen(life, 'cpu'), after)
      await life.between()
      t.same(await seen(life, 'cpu'), after)
    },
  ],
  [
    'a write to the name of a pending drop starts another measurement',
    async (t, life) => {
      await write(life.engine, [point(NOW, 1)])
      await life.between()
      await drop(life)
      await life.between()
      t.match(await write(life.engine, [point(NOW, 'text')]), { written: 1, rejected: 0 }, 'with fields of its own')
      await life.between()
      t.same(await seen(life, 'cpu'), [row(NOW, 'text')])
      await t.rejects(restore(life), { code: 'CONFLICT', message: /^cannot restore measurement "cpu": the name is in use/ })
      await drop(life)
      t.equal(await seen(life, 'cpu'), 'NOT_FOUND')
      await life.between()
      await restore(life)
      t.same(await seen(life, 'cpu'), [row(NOW, 'text')], 'of two pending drops the newer one is undone')
      await t.rejects(restore(life), { code: 'CONFLICT' }, 'the older one is still pending')
      await life.between()
      await t.rejects(restore(life), { code: 'CONFLICT' })
      t.same(await seen(life, 'cpu'), [row(NOW, 'text')])
    },
  ],
  [
    'a refused row does not take a dropped name',
    async (t, life) => {
      await write(life.engine, [point(NOW, 1)])
      await drop(life)
      t.match(await write(life.engine, [point(NOW, Number.NaN)]), { written: 0, rejected: 1 })
      await life.between()
      await restore(life)
      t.same(await seen(life, 'cpu'), [row(NOW, 1)])
    },
  ],
  [
    'a batch that was begun before a drop starts the measurement anew, or does so when it comes again',
    async (t, life) => {
      await write(life.engine, [point(NOW, 1)])
      const points = [point(NOW + 1n, 2), point(NOW + 1n, 3, 'b', 'mem')]
      const { batch } = fill(life.engine, points)
      await drop(life)
      if (!(await isStored(life.engine.write(batch)))) {
        t.same(await seen(life, 'cpu'), 'NOT_FOUND')
        t.match(await write(life.engine, points), { written: 2, rejected: 0 })
      }
      await life.between()
      t.same(await seen(life, 'cpu'), [row(NOW + 1n, 2)])
      t.same(await seen(life, 'mem'), [row(NOW + 1n, 3, 'b')])
    },
  ],
  [
    'declared fields and rows in tables of many measurements come back',
    async (t, life) => {
      const mixed = (measurement: string): TestPoint => ({ measurement, time: NOW, fields: { value: f64(1) }, mixed: true })
      await life.engine.declareField('default', 'declared', { name: 'd', type: 'decimal', scale: 3 })
      await write(life.engine, [mixed('up'), mixed('down')])
      await life.between()
      for (const name of ['declared', 'up']) await drop(life, name)
      await life.between()
      t.same(await names(life), ['down'])
      for (const name of ['declared', 'up']) await restore(life, name)
      await life.between()
      t.match(await life.engine.measurements('default'), [{ name: 'declared', fields: [{ name: 'd', scale: 3 }] }, { name: 'down' }, { name: 'up' }])
      t.same(await seen(life, 'up'), [`{} ${NOW} value=float64:1`])
    },
  ],
  [
    'the series of a pending drop count until it is final',
    async (t, life) => {
      const hosts = (letters: string, measurement = 'cpu') => [...letters].map((h) => point(NOW, 1, h, measurement))
      await write(life.engine, hosts('abcd'))
      await life.between()
      await drop(life)
      await life.between()
      t.match(await write(life.engine, hosts('abc', 'mem')), { written: 2, rejections: [{ code: 'CARDINALITY_EXCEEDED', position: 2 }] })
      await restore(life)
      await life.engine.drop('default', 'cpu', { final: true })
      t.match(await write(life.engine, hosts('cdef', 'mem')), { written: 4, rejected: 0 })
      await life.between()
      t.match(await write(life.engine, hosts('g', 'mem')), { written: 0, rejections: [{ code: 'CARDINALITY_EXCEEDED' }] })
    },
  ],
  [
    'the deadline is reached when both the clock and the data have passed it',
    async (t, life) => {
      await write(life.engine, [point(NOW, 1), point(NOW, 1, 'a', 'mem'), point(NOW, 1, 'a', 'disk')])
      for (const name of ['cpu', 'mem', 'disk']) await drop(life, name)
      await life.between()
      life.clock.ms = NOW_MS + 10 * YEAR_MS
      await life.between()
      await restore(life, 'mem')
      t.same(await seen(life, 'mem'), [row(NOW, 1)], 'a clock ten years ahead alone ends nothing')
      await advance(life, NOW_MS + 24 * HOUR_MS - 1)
      await life.between()
      await restore(life, 'disk')
      t.same(await seen(life, 'disk'), [row(NOW, 1)], 'just before the deadline')
      await advance(life, NOW_MS + 24 * HOUR_MS)
      for (let round = 0; round < 2; round++) {
        await t.rejects(restore(life), { code: 'NOT_FOUND', message: /^cannot restore measurement "cpu": its grace period has passed/ })
        t.same(await names(life), ['disk', 'mem'])
        await life.between()
      }
      t.match(await write(life.engine, [point(NOW + DAY, 'text')]), { written: 1 })
      await life.between()
      t.same(await seen(life, 'cpu'), [row(NOW + DAY, 'text')])
    },
  ],
  [
    'the deadline counts from the newest time held when the clock is behind it',
    async (t, life) => {
      await write(life.engine, [point(NOW, 1)])
      life.clock.ms = NOW_MS - HOUR_MS
      await drop(life)
      await life.between()
      await advance(life, NOW_MS + 23 * HOUR_MS)
      await write(life.engine, [point(NOW + DAY, 0, 'a', 'clock')], { namespace: 'elsewhere' })
      await restore(life)
      t.same(await seen(life, 'cpu'), [row(NOW, 1)], 'a day after the drop by the clock, not by the data')
      await life.between()
      await drop(life)
      await advance(life, NOW_MS + 48 * HOUR_MS - 1)
      await life.between()
      await restore(life)
      await drop(life)
      await advance(life, NOW_MS + 72 * HOUR_MS)
      await life.between()
      await t.rejects(restore(life), { code: 'NOT_FOUND', message: /grace period/ })
    },
  ],
  [
    'a clock that is set back an hour keeps a drop pending',
    async (t, life) => {
      await write(life.engine, [point(NOW, 1)])
      await drop(life)
      await advance(life, NOW_MS + 24 * HOUR_MS - 1)
      life.clock.ms -= HOUR_MS
      await life.between()
      await write(life.engine, [point(NOW + DAY - 1n, 0, 'a', 'clock')], { namespace: 'elsewhere' })
      await restore(life)
      t.same(await seen(life, 'cpu'), [row(NOW, 1)])
    },
  ],
  [
    'a restore that has nothing to undo says why',
    async (t, life) => {
      await write(life.engine, [point(NOW, 1), point(NOW, 1, 'a', 'mem')])
      await drop(life)
      await life.engine.drop('default', 'mem', { final: true })
      await life.between()
      await write(life.engine, [point(NOW, 1, 'a', 'live')])
      for (const name of ['unknown', 'live']) await t.rejects(restore(life, name), { code: 'NOT_FOUND', message: /it was never dropped/ })
      await t.rejects(restore(life, 'cpu', 'other'), { code: 'NOT_FOUND', message: /it was never dropped/ })
      await t.rejects(restore(life, 'mem'), { code: 'NOT_FOUND', message: /its grace period has passed/ })
      await restore(life)
      await t.rejects(restore(life), { code: 'NOT_FOUND', message: /it was never dropped/ }, 'what was undone counts no more')
      await life.engine.close()
      await t.rejects(drop(life), { code: 'DATABASE_CLOSED' })
      await t.rejects(restore(life), { code: 'DATABASE_CLOSED' })
    },
  ],
]

export const finalDropRules: LifeRule[] = [
  [
    'without soft_delete_ttl_secs a drop is final',
    async (t, life) => {
      const hosts = (letters: string, value: number | string) => [...letters].map((h) => point(NOW, value, h))
      await write(life.engine, hosts('abcdef', 1))
      const { epoch } = life.engine.resolver
      await life.between()
      await drop(life)
      if (epoch === life.engine.resolver.epoch) t.fail('numbers that were given back are called in')
      await life.between()
      t.same(await names(life), [])
      for (const name of ['cpu', 'unknown']) await t.rejects(restore(life, name), { code: 'NOT_FOUND', message: /soft_delete_ttl_secs is unset/ })
      t.match(await write(life.engine, hosts('ghijkl', 'text')), { written: 6, rejected: 0 }, 'the budget is free')
      await life.between()
      t.same(
        await seen(life, 'cpu'),
        [...'ghijkl'].map((h) => row(NOW, 'text', h)),
      )
      await drop(life)
      await write(life.engine, hosts('a', 2))
      await life.between()
      t.same(await seen(life, 'cpu'), [row(NOW, 2)], 'nothing of either comes back')
    },
  ],
  [
    'a namespace that has lost its last measurement takes any history again',
    async (t, life) => {
      const old = (measurement: string) => write(life.engine, [point(NOW - 400n * HOUR, 1, 'a', measurement)])
      const isEmpty = async () => (await life.engine.admission('default', 'cpu')).liveFrom === undefined
      await write(life.engine, [point(NOW, 1), point(NOW, 1, 'a', 'other')])
      await life.between()
      await drop(life)
      t.match(await old('cpu'), { written: 0 }, 'one is left')
      t.notOk(await isEmpty())
      await drop(life, 'other')
      t.ok(await isEmpty())
      await life.between()
      t.ok(await isEmpty())
      t.match(await old('cpu'), { written: 1 })
    },
  ],
]
