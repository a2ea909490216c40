/** The change cursor: order, filters, places, and what a reader that was away is told. */
import { setTimeout } from 'node:timers/promises'
import type { Change } from 'svcdb'
import { follow, textOf } from './follow.ts'
import type { LifeRule } from './life.ts'
import { dec, f64, NOW, str, type TestPoint, write } from './points.ts'
import type { Rule } from './rules.ts'

const point = (measurement: string, time: bigint, value: number, host = 'a'): TestPoint => ({
  measurement,
  tags: { host },
  time,
  fields: { v: f64(value), w: f64(value) },
})
/** Of a measurement with one field, which shares a table with others. */
const single = (measurement: string, time: bigint, value: number): TestPoint => ({
  measurement,
  tags: { host: 'a' },
  time,
  fields: { value: f64(value) },
  mixed: true,
})

export const changeRules: Rule[] = [
  [
    'rows are told after they are visible, in columns, as they were admitted',
    async (t, engine) => {
      const follower = follow(engine)
      await write(engine, [
        { measurement: 'm', tags: { h: 'x' }, time: NOW, fields: { d: dec('1.5'), s: str('ä') } },
        { measurement: 'm', tags: { h: 'x' }, time: NOW + 1n, fields: { d: dec('0.25') } },
        { measurement: 'm', tags: { h: 'x' }, time: NOW, fields: { s: f64(1) } },
      ])
      await write(engine, [{ measurement: 'm', time: NOW, fields: { v: f64(Number.NaN) } }])
      await write(engine, [{ measurement: 'm', time: NOW - 1n, fields: { v: f64(1) } }], { backfill: true })
      const told = await follower.stop()
      t.equal(told.length, 2, 'a write with nothing admitted is no change')
      const [change, second] = told
      if (change.kind !== 'rows') throw new Error('a write is told as rows')
      t.match(change, { namespace: 'default', measurement: 'm', backfill: false })
      t.same(
        change.rows.sort((a, b) => (a.time < b.time ? -1 : 1)),
        [
          {
            measurement: 'm',
            tags: { h: 'x' },
            time: NOW,
            fields: [
              { name: 'd', type: 'decimal', scale: 2, value: 150n },
              { name: 's', type: 'string', value: 'ä' },
            ],
          },
          { measurement: 'm', tags: { h: 'x' }, time: NOW + 1n, fields: [{ name: 'd', type: 'decimal', scale: 2, value: 25n }] },
        ],
      )
      t.match(second, { kind: 'rows', backfill: true })
      t.ok(second.sequence > change.sequence && second.position > change.position, 'sequences and places rise')
    },
  ],
  [
    'a cursor that comes later is told what nobody wanted when it was written',
    async (t, engine) => {
      const first = engine.changes()
      const before = await first.position()
      const other = engine.changes({ measurements: ['x'] })
      first.close()
      await write(engine, [single('x', NOW, 1)])
      await write(engine, [single('y', NOW, 2)])
      await write(engine, [single('x', NOW + 1n, 3)])
      const rows = ['x', 'y', 'x'].map((name, i) => `default/${name} {"host":"a"} ${NOW + (i === 2 ? 1n : 0n)} value=${i + 1}`)
      t.same(textOf(await follow(engine, { after: before }).stop()), rows)
      other.close()
    },
  ],
  [
    'measurements that share a table are told apart, and each cursor has what it asked for',
    async (t, engine) => {
      const all = follow(engine)
      const one = follow(engine, { measurements: ['two'] })
      const asked: string[] = []
      const chosen = follow(engine, { measurements: (name) => asked.push(name) > 0 && name === 'one' })
      const elsewhere = follow(engine, { namespace: 'other' })
      const drops = follow(engine, { kinds: ['measurement_dropped'] })
      const rows = [single('one', NOW, 1), single('two', NOW, 2), single('one', NOW + 1n, 3), point('own', NOW, 4), single('two', NOW + 1n, 5)]
      await write(engine, rows)
      await write(engine, [single('two', NOW + 2n, 6)], { namespace: 'other' })
      await engine.drop('default', 'two')
      const two = [`default/two {"host":"a"} ${NOW} value=2`, `default/two {"host":"a"} ${NOW + 1n} value=5`]
      t.same(textOf(await one.stop()), [...two, `other/two {"host":"a"} ${NOW + 2n} value=6`, 'measurement_dropped default/two'])
      t.same(textOf(await chosen.stop()), [`default/one {"host":"a"} ${NOW} value=1`, `default/one {"host":"a"} ${NOW + 1n} value=3`])
      t.same([...new Set(asked)].sort(), ['one', 'own', 'two'])
      t.same(textOf(await elsewhere.stop()), [`other/two {"host":"a"} ${NOW + 2n} value=6`])
      t.same(textOf(await drops.stop()), ['measurement_dropped default/two'])
      const told = await all.stop()
      t.equal(textOf(told).length, 7)
      t.same(
        told.map(({ position }) => position),
        told.map(({ position }) => position).sort(),
        'places rise within a write',
      )
      t.equal(new Set(told.map(({ position }) => position)).size, told.length)
    },
  ],
  [
    'a cursor goes on behind any place, within a write too, and asks anew for another choice',
    async (t, engine) => {
      const before = await engine.changes().position()
      await write(engine, [single('one', NOW, 1), single('two', NOW, 2), point('own', NOW, 3)])
      await write(engine, [single('one', NOW + 1n, 4)])
      const all = await follow(engine, { after: before }).until(4)
      t.equal(all.length, 4)
      for (const [i, { position }] of all.entries()) {
        const rest = await follow(engine, { after: position }).stop()
        t.same(textOf(rest), textOf(all.slice(i + 1)), `behind change ${i}`)
      }
      const cursor = engine.changes({ after: before, measurements: ['two'] })
      t.match(await cursor.next(), { done: false, value: { kind: 'rows', measurement: 'two' } })
      cursor.select(['one'])
      const { value } = await cursor.next()
      t.match(value, { kind: 'rows', measurement: 'one' })
      cursor.close()
      t.same(await cursor.next(), { done: true, value: undefined })
    },
  ],
  [
    'a place moves on over what is not wanted; one that is none is refused, and one of another database is a gap',
    async (t, engine) => {
      const cursor = engine.changes({ measurements: ['wanted'] })
      const first = await cursor.position()
      const waiting = cursor.next()
      await write(engine, [point('other', NOW, 1)])
      for (const end = Date.now() + 5000; (await cursor.position()) <= first && Date.now() < end; ) await setTimeout(5)
      t.ok((await cursor.position()) > first)
      await write(engine, [point('wanted', NOW, 1)])
      t.match(await waiting, { value: { kind: 'rows', measurement: 'wanted' } })
      cursor.close()
      for (const after of ['', 'x', `${first}0`, first.slice(0, -1), `${first.slice(0, 17)}fffffffffffff${first.slice(30)}`])
        t.throws(() => engine.changes({ after }), { code: 'INVALID_REQUEST', message: /cannot read changes from place/ }, after)
      const foreign = `${'0'.repeat(16)}${first.slice(16)}`
      const [gap] = await follow(engine, { after: foreign }).until(1)
      t.match(gap, { kind: 'gap', cause: 'other_history', from: foreign })
      const [ahead] = await follow(engine, { after: `${first.slice(0, 17)}00ffffffffffff${first.slice(31)}` }).until(1)
      t.match(ahead, { kind: 'gap', cause: 'other_history' }, 'one that was never reached')
    },
  ],
  [
    'deletes, drops and restores come in the order of writes',
    async (t, engine) => {
      const follower = follow(engine)
      await write(engine, [point('m', NOW, 1), point('m', NOW, 2, 'b')])
      await engine.delete({ namespace: 'default', measurement: 'm', matchers: [{ tag: 'host', op: '=', value: 'a' }], start: NOW, end: NOW + 1n })
      await write(engine, [point('m', NOW, 3)])
      await engine.delete({ namespace: 'default', measurement: 'm' })
      await engine.delete({ namespace: 'default', measurement: 'm', matchers: [{ tag: 'host', op: '=', value: 'nobody' }] })
      await write(engine, [point('m', NOW, 4)])
      await engine.drop('default', 'm', { final: true })
      await write(engine, [point('m', NOW, 5)])
      t.same(textOf(await follower.stop()), [
        `default/m {"host":"a"} ${NOW} v=1 w=1`,
        `default/m {"host":"b"} ${NOW} v=2 w=2`,
        `series_deleted default/m ${NOW}..${NOW + 1n} {"host":"a"}`,
        `default/m {"host":"a"} ${NOW} v=3 w=3`,
        'series_deleted default/m .. all',
        `default/m {"host":"a"} ${NOW} v=4 w=4`,
        'measurement_dropped default/m',
        `default/m {"host":"a"} ${NOW} v=5 w=5`,
      ])
    },
  ],
  [
    'cursors end when they are closed, by their signal, and with the engine',
    async (t, engine) => {
      const ends: Promise<IteratorResult<Change, undefined>>[] = []
      const closed = engine.changes()
      ends.push(closed.next())
      closed.close()
      const abort = new AbortController()
      ends.push(engine.changes({ signal: abort.signal }).next())
      abort.abort()
      ends.push(engine.changes({ signal: abort.signal }).next())
      ends.push(engine.changes().next())
      await setTimeout(20)
      await engine.close()
      for (const end of ends) t.same(await end, { done: true, value: undefined })
      t.throws(() => engine.changes(), { code: 'DATABASE_CLOSED' })
    },
  ],
]

export const changeLifeRules: LifeRule[] = [
  [
    'a reader that was away is told all that happened meanwhile, once, in order',
    async (t, life) => {
      const cursor = life.engine.changes()
      const place = await cursor.position()
      await write(life.engine, [point('m', NOW, 1), single('s', NOW, 2)])
      const { value } = await cursor.next()
      cursor.close()
      await life.between()
      await write(life.engine, [point('m', NOW + 1n, 3), single('s', NOW + 1n, 4)], { backfill: true })
      await life.engine.delete({ namespace: 'default', measurement: 's', matchers: [{ tag: 'host', op: '=', value: 'a' }] })
      await life.between()
      await life.engine.drop('default', 'm')
      await life.engine.restore('default', 'm')
      await life.between()
      const expected = [
        `default/m {"host":"a"} ${NOW} v=1 w=1`,
        `default/s {"host":"a"} ${NOW} value=2`,
        `default/m {"host":"a"} ${NOW + 1n} v=3 w=3`,
        `default/s {"host":"a"} ${NOW + 1n} value=4`,
        'series_deleted default/s .. {"host":"a"}',
        'measurement_dropped default/m',
        'measurement_restored default/m',
      ]
      // The order of measurements within a write is the engine's.
      const told = await follow(life.engine, { after: place }).until(7)
      t.same(textOf(told).slice(0, 4).sort(), expected.slice(0, 4).sort())
      t.same(textOf(told).slice(4), expected.slice(4))
      t.same(
        told.flatMap((change) => (change.kind === 'rows' ? [change.backfill] : [])),
        [false, false, true, true],
      )
      const rest = await follow(life.engine, { after: value?.position ?? '' }).until(6)
      t.same(textOf(rest), textOf(told.slice(1)), 'behind the first change of a write')
    },
  ],
  [
    'of a namespace that is gone nothing is told: who has the name next may begin anywhere',
    async (t, life) => {
      const cursor = life.engine.changes()
      const after = await cursor.position()
      const gone = 'alpha'
      await write(life.engine, [point('m', NOW, 1), single('s', NOW, 2)], { namespace: gone })
      await write(life.engine, [single('s', NOW, 3)])
      await life.engine.delete({ namespace: gone, measurement: 's' })
      await write(life.engine, [single('s', NOW, 4)], { namespace: gone })
      await life.engine.drop(gone, 'm', { final: true })
      cursor.close()
      await life.between()
      await life.engine.drop(gone, 's', { final: true })
      life.engine.forgetChanges?.(gone)
      await life.between()
      await write(life.engine, [point('n', NOW, 5)], { namespace: gone })
      const told = await follow(life.engine, { namespace: gone, kinds: ['rows', 'series_deleted'], after }).stop()
      t.same(textOf(told), [`${gone}/n {"host":"a"} ${NOW} v=5 w=5`])
      t.same(textOf(await follow(life.engine, { namespace: 'default', after }).stop()), [`default/s {"host":"a"} ${NOW} value=3`], 'others are told of theirs')
    },
  ],
]
