/** NaN and infinities: stored where the writer says so, and no value to readers of points. */
import { follow } from './follow.ts'
import type { LifeRule } from './life.ts'
import { bits, f64, INFINITE, lines, NAN, NEGATIVE_INFINITE, NOW, STALE, str, type TestPoint, write } from './points.ts'

const point = (time: bigint, fields: TestPoint['fields'], host = 'a'): TestPoint => ({ measurement: 'm', tags: { host }, time, fields })
const single = (time: bigint, value: TestPoint['fields'][string], measurement: string): TestPoint => ({
  measurement,
  tags: { host: 'a' },
  time,
  fields: { value },
  mixed: true,
})
const admitting = { nonFinite: true }

export const nonFiniteRules: LifeRule[] = [
  [
    'they are refused unless the write admits them',
    async (t, life) => {
      for (const value of [STALE, NAN, INFINITE, NEGATIVE_INFINITE]) {
        t.match(await write(life.engine, [point(NOW, { v: bits(value) })]), { written: 0, rejections: [{ code: 'INVALID_POINT', message: /is not stored/ }] })
        t.match(await write(life.engine, [point(NOW, { v: bits(value) })], admitting), { written: 1, rejected: 0 })
      }
      await life.between()
      t.same(await lines(life.engine, { measurement: 'm' }), [])
      t.match(await life.engine.measurements('default'), [{ name: 'm', fields: [{ name: 'v', type: 'float64' }] }])
    },
  ],
  [
    'a scan leaves them out, and rows that have nothing else',
    async (t, life) => {
      const rows = [
        point(NOW, { v: f64(1), s: str('x') }),
        point(NOW + 1n, { v: bits(STALE), s: str('y') }),
        point(NOW + 2n, { v: bits(NAN) }),
        point(NOW + 3n, { v: bits(INFINITE), w: f64(-0) }),
        point(NOW + 4n, { v: bits(NEGATIVE_INFINITE) }),
        point(NOW + 5n, { v: f64(5) }),
        point(NOW, { v: bits(STALE) }, 'b'),
      ]
      t.match(await write(life.engine, rows, admitting), { written: 7 })
      await life.between()
      const of = (time: bigint, text: string) => `{"host":"a"} ${NOW + time} ${text}`
      t.same(await lines(life.engine, { measurement: 'm' }), [
        of(0n, 's=string:"x" v=float64:1'),
        of(1n, 's=string:"y"'),
        of(3n, 'w=float64:-0'),
        of(5n, 'v=float64:5'),
      ])
      t.same(await lines(life.engine, { measurement: 'm', fields: ['v'] }), [of(0n, 'v=float64:1'), of(5n, 'v=float64:5')])
    },
  ],
  [
    'the last write of a field counts, finite or not',
    async (t, life) => {
      await write(life.engine, [point(NOW, { v: f64(1), w: f64(1) }), point(NOW + 1n, { v: bits(STALE) }), point(NOW + 2n, { v: f64(2) })], admitting)
      await life.between()
      await write(life.engine, [point(NOW, { v: bits(NAN) }), point(NOW + 1n, { v: f64(3) }), point(NOW + 2n, { v: bits(STALE) })], admitting)
      const expected = [`{"host":"a"} ${NOW} w=float64:1`, `{"host":"a"} ${NOW + 1n} v=float64:3`]
      t.same(await lines(life.engine, { measurement: 'm' }), expected)
      await life.between()
      t.same(await lines(life.engine, { measurement: 'm' }), expected)
    },
  ],
  [
    'measurements that share a table do not see those of others',
    async (t, life) => {
      const rows = Array.from({ length: 20 }, (_, i) => [single(NOW + BigInt(i), f64(i), 'one'), single(NOW + BigInt(i), i % 2 ? bits(STALE) : f64(i), 'two')])
      await write(life.engine, rows.flat(), admitting)
      await life.between()
      const line = (i: number) => `{"host":"a"} ${NOW + BigInt(i)} value=float64:${i}`
      const all = Array.from({ length: 20 }, (_, i) => i)
      t.same(await lines(life.engine, { measurement: 'one' }), all.map(line))
      t.same(await lines(life.engine, { measurement: 'two' }), all.filter((i) => i % 2 === 0).map(line))
    },
  ],
  [
    'a change tells of the point without them',
    async (t, life) => {
      const follower = follow(life.engine)
      await write(life.engine, [point(NOW, { v: bits(STALE) }), point(NOW + 1n, { v: bits(INFINITE), w: f64(1) })], admitting)
      const points = (await follower.stop()).flatMap((change) => (change.kind === 'rows' ? change.rows : []))
      t.same(
        points.map(({ time, fields }) => [time, fields.map(({ name, value }) => [name, value])]),
        [
          [NOW, []],
          [NOW + 1n, [['w', 1]]],
        ],
      )
    },
  ],
]
