/** Drops and what undoes them, retention, and the clock that both go by. */
import { becomes, type Life, type LifeRule, seen } from './life.ts'
import { f64, fill, HOUR, lines, NOW, NOW_MS, str, type TestPoint, write } from './points.ts'

const HOUR_MS = 3_600_000
const YEAR_MS = 365 * 24 * HOUR_MS
const DAY = 24n * HOUR
const NS_PER_MS = 1_000_000n

/** Configurations that the tables below expect. */
export const dropConfig = { soft_delete_ttl_secs: 86_400, max_series_cardinality: 6 }
export const finalDropConfig = { max_series_cardinality: 6 }
export const retentionConfig = { maintenance_interval_secs: 1, retention_secs: 4 * 3600, retention: { brief: 2 * 3600 } }
export const keepSomeConfig = { maintenance_interval_secs: 1, retention_secs: 4 * 3600, retention: { audit: 0, brief: 2 * 3600 } }

const point = (time: bigint, value: number | string, host = 'a', measurement = 'cpu'): TestPoint => ({
  measurement,
  tags: { host },
  time,
  fields: { v: typeof value === 'string' ? str(value) : f64(value) },
})
const row = (time: bigint, value: number | string, host = 'a'): string =>
  `${JSON.stringify({ host })} ${time} v=${typeof value === 'string' ? `string:${JSON.stringify(value)}` : `float64:${value}`}`
const drop = (life: Life, measurement = 'cpu', namespace = 'default') => life.engine.drop(namespace, measurement)
const restore = (life: Life, measurement = 'cpu', namespace = 'default') => life.engine.restore(namespace, measurement)
const names = async (life: Life) => (await life.engine.measurements('default')).map((m) => m.name)

/** Sets the clock and writes a point of that time elsewhere, so that the newest time held follows. */
async function advance(life: Life, toMs: number): Promise<void> {
  life.clock.ms = toMs
  await write(life.engine, [point(BigInt(toMs) * NS_PER_MS, 0, 'a', 'clock')], { namespace: 'elsewhere' })
}

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
    'rows of a batch that was begun before a drop are refused, or start the measurement anew',
    async (t, life) => {
      await write(life.engine, [point(NOW, 1)])
      const { batch } = fill(life.engine, [point(NOW + 1n, 2), point(NOW + 1n, 3, 'b', 'mem')])
      await drop(life)
      const { written, rejected, rejections } = await life.engine.write(batch)
      t.equal(written + rejected, 2)
      for (const { code, position } of rejections) t.same({ code, position }, { code: 'CONFLICT', position: 0 })
      await life.between()
      t.same(await seen(life, 'cpu'), written === 2 ? [row(NOW + 1n, 2)] : 'NOT_FOUND')
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

export const retentionRules: LifeRule[] = [
  [
    'retention removes whole shards by the lesser of the clock and the newest time',
    async (t, life) => {
      const old = NOW - 4n * HOUR
      await write(life.engine, [point(old - 1n, 1), point(old, 2), point(NOW - 1n, 3), point(old - 1n, 4, 'b')])
      await life.between()
      t.equal((await seen(life, 'cpu')).length, 4, 'the newest time held is short of the hour')
      life.clock.ms = NOW_MS + 10 * YEAR_MS
      await life.between()
      t.equal((await seen(life, 'cpu')).length, 4, 'a clock ten years ahead alone removes nothing')
      t.equal((await life.engine.admission('default', 'cpu')).keptFrom, old - HOUR, 'the newest point is a moment short of the hour')
      t.equal((await life.engine.admission('default', 'brief')).keptFrom, NOW - 3n * HOUR)
      await advance(life, NOW_MS + HOUR_MS / 2)
      t.equal((await life.engine.admission('default', 'cpu')).keptFrom, old)
      const left = [row(old, 2), row(NOW - 1n, 3)]
      for (let round = 0; round < 3; round++) {
        await becomes(t, life, 'cpu', left)
        t.same(await lines(life.engine, { measurement: 'cpu', end: old }), [])
        await life.between()
      }
      await advance(life, NOW_MS + HOUR_MS)
      await life.between()
      await becomes(t, life, 'cpu', [row(NOW - 1n, 3)])
      await advance(life, NOW_MS + 5 * HOUR_MS)
      await life.between()
      await becomes(t, life, 'cpu', [])
      t.same(await names(life), ['cpu'], 'the measurement and its types stay')
      t.match(await write(life.engine, [point(NOW + HOUR, 5)], { backfill: true }), { written: 1 })
      await life.between()
      t.same(await seen(life, 'cpu'), [row(NOW + HOUR, 5)])
    },
  ],
  [
    'a write, backfill included, may not carry what retention removes',
    async (t, life) => {
      const old = NOW - 4n * HOUR
      t.match(await write(life.engine, [point(NOW - 100n * HOUR, 1)]), { written: 1 }, 'nothing is old while nothing is held')
      await write(life.engine, [point(NOW, 1)])
      await life.between()
      const refused = await write(life.engine, [point(old - 1n, 2), point(old, 3)], { backfill: true })
      t.match(refused, { written: 1, rejected: 1, rejections: [{ code: 'PARTIAL_WRITE', position: 0 }] })
      for (const part of [String(old - 1n), String(old), 'retention_secs']) t.ok(refused.rejections[0].message.includes(part), part)
      t.match((await write(life.engine, [point(old - 1n, 2)])).rejections[0].message, /retention_secs/, 'backfill would not help')
      await life.between()
      await becomes(t, life, 'cpu', [row(old, 3), row(NOW, 1)])
    },
  ],
  [
    'a measurement may have a shorter retention of its own',
    async (t, life) => {
      const both = (time: bigint, value: number) => [point(time, value, 'a', 'brief'), point(time, value)]
      await write(life.engine, [...both(NOW - 3n * HOUR, 1), ...both(NOW - 2n * HOUR, 2), ...both(NOW, 3)])
      await life.between()
      const brief = [row(NOW - 2n * HOUR, 2), row(NOW, 3)]
      await becomes(t, life, 'brief', brief)
      t.equal((await seen(life, 'cpu')).length, 3)
      // Rows that are too old, of one table and of rows of several measurements side by side.
      for (const mixed of [false, true]) {
        const rows = [...both(NOW - 4n * HOUR, 4), ...both(NOW - 2n * HOUR, 2)].map((row) => ({ ...row, mixed }))
        const result = await write(life.engine, rows, { backfill: true })
        t.match(result, { written: 3, rejected: 1, rejections: [{ code: 'PARTIAL_WRITE', position: 0 }] })
        for (const part of [String(NOW - 4n * HOUR), String(NOW - 2n * HOUR), '[database] retention."brief" = 7200'])
          t.ok(result.rejections[0].message.includes(part), part)
        await life.between()
      }
      t.match((await write(life.engine, both(NOW - 5n * HOUR, 5))).rejections[1].message, /retention_secs = 14400/)
      await becomes(t, life, 'brief', brief)
      t.equal((await seen(life, 'cpu')).length, 4)
    },
  ],
  [
    'what retention has taken is known from then on',
    async (t, life) => {
      if (!life.engine.capabilities.has('changes')) return
      const taken = async (measurement: string) => (await life.engine.admission('default', measurement)).takenBefore
      const both = (time: bigint, value: number) => [point(time, value), point(time, value, 'a', 'mem'), point(time, value, 'a', 'brief')]
      t.equal(await taken('cpu'), undefined, 'a measurement that is not there')
      await write(life.engine, [...both(NOW - 6n * HOUR, 1), ...both(NOW - 5n * HOUR, 2)])
      t.equal(await taken('cpu'), undefined)
      const release = life.engine.holdRetention((_, measurement) => (measurement === 'cpu' ? NOW - 5n * HOUR : undefined))
      await write(life.engine, both(NOW, 3))
      for (const [measurement, left] of [
        ['cpu', [row(NOW - 5n * HOUR, 2), row(NOW, 3)]],
        ['mem', [row(NOW, 3)]],
        ['brief', [row(NOW, 3)]],
      ] as const)
        await becomes(t, life, measurement, [...left])
      const known = { cpu: NOW - 5n * HOUR, mem: NOW - 4n * HOUR, brief: NOW - 2n * HOUR }
      for (const [measurement, time] of Object.entries(known)) t.equal(await taken(measurement), time, measurement)
      await life.engine.flush()
      for (const [measurement, time] of Object.entries(known)) t.equal(await taken(measurement), time, `${measurement}, after a flush`)
      release()
      await becomes(t, life, 'cpu', [row(NOW, 3)])
      for (let round = 0; round < 2; round++) {
        for (const [measurement, time] of Object.entries({ ...known, cpu: NOW - 4n * HOUR })) t.equal(await taken(measurement), time, measurement)
        await life.between()
      }
    },
  ],
  [
    'a hold keeps the raw data that somebody needs',
    async (t, life) => {
      await write(life.engine, [point(NOW - 6n * HOUR, 1), point(NOW - 5n * HOUR, 2), point(NOW - HOUR, 3), point(NOW - 6n * HOUR, 1, 'a', 'mem')])
      const release = life.engine.holdRetention((_, measurement) => (measurement === 'cpu' ? NOW - 5n * HOUR + 1n : undefined))
      const other = life.engine.holdRetention(() => undefined)
      await write(life.engine, [point(NOW, 4)])
      await becomes(t, life, 'cpu', [row(NOW - 5n * HOUR, 2), row(NOW - HOUR, 3), row(NOW, 4)], 'by whole shards')
      await becomes(t, life, 'mem', [])
      await life.engine.flush()
      t.equal((await seen(life, 'cpu')).length, 3)
      release()
      other()
      await becomes(t, life, 'cpu', [row(NOW - HOUR, 3), row(NOW, 4)])
      await life.between()
      t.same(await seen(life, 'cpu'), [row(NOW - HOUR, 3), row(NOW, 4)])
    },
  ],
]

export const keepSomeRules: LifeRule[] = [
  [
    'a measurement may be kept longer than the rest',
    async (t, life) => {
      const all = (time: bigint, value: number) => ['audit', 'brief', 'cpu'].map((name) => point(time, value, 'a', name))
      await write(life.engine, [...all(NOW - 900n * HOUR, 1), ...all(NOW - 3n * HOUR, 2), ...all(NOW, 3)])
      await life.between()
      t.match(await write(life.engine, [point(NOW - 1000n * HOUR, 4, 'a', 'audit')], { backfill: true }), { written: 1, rejected: 0 })
      for (let round = 0; round < 2; round++) {
        t.same((await seen(life, 'audit')).length, 4)
        await becomes(t, life, 'brief', [row(NOW, 3)])
        await becomes(t, life, 'cpu', [row(NOW - 3n * HOUR, 2), row(NOW, 3)])
        await life.between()
      }
    },
  ],
]
