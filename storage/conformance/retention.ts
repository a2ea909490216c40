/** Retention: what it takes, and when. */
import { becomes, type LifeRule, seen } from './life.ts'
import { advance, HOUR_MS, names, point, row, YEAR_MS } from './one-field.ts'
import { HOUR, lines, NOW, NOW_MS, write } from './points.ts'

/** Configurations that the tables below expect. */
export const retentionConfig = { maintenance_interval_secs: 1, retention_secs: 4 * 3600, retention: { brief: 2 * 3600 } }
export const keepSomeConfig = { maintenance_interval_secs: 1, retention_secs: 4 * 3600, retention: { audit: 0, brief: 2 * 3600 } }

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
