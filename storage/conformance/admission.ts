/** Which rows are refused, with which code, and that the others are stored. */
import { INT64_MAX, INT64_MIN } from '../common/time.ts'
import { dec, f64, fill, HOUR, i64, lines, NOW, str, type TestPoint, write } from './points.ts'
import type { Rule } from './rules.ts'

const point = (time: bigint, fields: TestPoint['fields'], tags: Record<string, string> = {}, measurement = 'm'): TestPoint => ({
  measurement,
  tags,
  time,
  fields,
})

/** Configuration that `admissionRules` expects. */
export const admissionConfig = {
  ooo_shard_tolerance: 2,
  max_series_cardinality: 5,
  max_fields_per_measurement: 4,
  max_fields: 12,
  max_tags_per_series: 3,
  max_tags_per_measurement: 4,
  max_string_bytes: 100,
  max_name_bytes: 20,
}

export const admissionRules: Rule[] = [
  [
    'the out-of-order window and the future bound',
    async (t, engine) => {
      const one = (time: bigint, backfill?: boolean) => write(engine, [point(time, { v: f64(1) })], backfill === undefined ? {} : { backfill })
      t.match(await one(NOW - 100n * HOUR), { written: 1 }, 'an empty namespace takes any history')
      t.match(await one(NOW), { written: 1 })
      t.match(await one(NOW - 2n * HOUR), { written: 1 })
      const old = await one(NOW - 2n * HOUR - 1n)
      t.match(old, { written: 0, rejected: 1, rejections: [{ code: 'PARTIAL_WRITE', position: 0 }] })
      for (const part of [String(NOW - 2n * HOUR - 1n), String(NOW - 2n * HOUR), '2024-01-01T10:00:00Z', '2 shards', 'backfill=true']) {
        t.ok(old.rejections[0].message.includes(part), part)
      }
      t.match(await one(NOW - 2n * HOUR - 1n, true), { written: 1 })
      t.match(await one(NOW + HOUR), { written: 1 })
      for (const backfill of [true, false]) {
        t.match(await one(NOW + HOUR + 1n, backfill), { written: 0, rejections: [{ code: 'FUTURE_TIMESTAMP' }] })
        for (const sentinel of [INT64_MAX, INT64_MIN, -INT64_MAX])
          t.match(await one(sentinel, backfill), { written: 0, rejections: [{ code: 'INVALID_POINT' }] })
      }
      t.match(await one(NOW - 2n * HOUR), { written: 1 }, 'a sender ahead of the server clock shuts out nobody')
      t.match(await one(INT64_MIN + 2n, true), { written: 1 })
      t.match(await one(NOW), { written: 1 }, 'a backfilled point does not move it back')
      t.match(await write(engine, [point(NOW + HOUR, {}), point(NOW, { v: f64(1) })]), {
        written: 1,
        rejected: 1,
        rejections: [{ code: 'INVALID_POINT', position: 0 }],
      })
    },
  ],
  [
    'admission says what the window and the future bound are',
    async (t, engine) => {
      t.same(await engine.admission('default', 'm'), { newest: NOW + HOUR }, 'an empty namespace takes any history')
      await write(engine, [point(NOW - 3n * HOUR, { v: f64(1) })])
      t.same(await engine.admission('default', 'm'), { liveFrom: NOW - 5n * HOUR, newest: NOW + HOUR })
      await write(engine, [point(NOW + 1n, { v: f64(1) })])
      const { liveFrom } = await engine.admission('default', 'other')
      t.equal(liveFrom, NOW - 2n * HOUR)
      t.match(await write(engine, [point(NOW - 2n * HOUR - 1n, { v: f64(1) })]), { written: 0 })
      t.match(await write(engine, [point(NOW - 2n * HOUR, { v: f64(1) })]), { written: 1 })
      t.same(await engine.admission('elsewhere', 'm'), { newest: NOW + HOUR })
    },
  ],
  [
    'all rows of a write are judged by the window before it',
    async (t, engine) => {
      await write(engine, [point(NOW - 10n * HOUR, { v: f64(1) })])
      const rows = [point(NOW, { v: f64(2) }), point(NOW - 11n * HOUR, { v: f64(3) })]
      t.match(await write(engine, rows), { written: 2, rejected: 0 })
      t.match(await write(engine, rows), { written: 1, rejected: 1, rejections: [{ position: 1 }] })
    },
  ],
  [
    'a refused row does not move the window',
    async (t, engine) => {
      await write(engine, [point(NOW - 10n * HOUR, { v: f64(1) })])
      t.match(await write(engine, [point(NOW, { v: str('x') })]), { written: 0, rejections: [{ code: 'SCHEMA_ERROR' }] })
      t.match(await write(engine, [point(NOW - 10n * HOUR, { v: f64(1) })]), { written: 1 })
    },
  ],
  [
    'a type conflict names the field, both types and the measurement; the rest is stored',
    async (t, engine) => {
      await write(engine, [point(NOW, { v: f64(1) })])
      const result = await write(engine, [point(NOW + 1n, { w: i64(1n) }), point(NOW + 2n, { v: i64(2n), w: i64(2n) }), point(NOW + 3n, { v: f64(3) })])
      t.match(result, { written: 2, rejected: 1, rejections: [{ code: 'SCHEMA_ERROR', position: 1 }] })
      for (const part of ['"v"', 'float64', 'int64', '"m"']) t.ok(result.rejections[0].message.includes(part), part)
      t.same(await lines(engine, { measurement: 'm' }), [`{} ${NOW} v=float64:1`, `{} ${NOW + 1n} w=int64:1`, `{} ${NOW + 3n} v=float64:3`])
    },
  ],
  [
    'two writes under way with two types for a new field: the first stands',
    async (t, engine) => {
      const first = fill(engine, [point(NOW, { v: f64(1) })])
      const second = fill(engine, [point(NOW + 1n, { v: i64(1n) }), point(NOW + 1n, { w: i64(1n) })])
      const [a, b] = await Promise.all([engine.write(first.batch), engine.write(second.batch)])
      t.match(a, { written: 1, rejected: 0 })
      t.equal(b.written, 1)
      t.match([...second.refused, ...b.rejections], [{ code: 'SCHEMA_ERROR', position: 0 }])
      t.same(await lines(engine, { measurement: 'm' }), [`{} ${NOW} v=float64:1`, `{} ${NOW + 1n} w=int64:1`])
    },
  ],
  [
    'a decimal column keeps the scale of its first write',
    async (t, engine) => {
      t.match(await write(engine, [point(NOW, { d: dec('1.5') }), point(NOW + 1n, { d: dec('-2.25') }), point(NOW + HOUR + 1n, { d: dec('0.12345') })]), {
        written: 2,
        rejected: 1,
      })
      t.match(await engine.measurements('default'), [{ fields: [{ name: 'd', type: 'decimal', scale: 2 }] }])
      const result = await write(engine, [point(NOW + 2n, { d: dec('7') }), point(NOW + 3n, { d: dec('0.125') }), point(NOW + 4n, { d: dec('9'.repeat(37)) })])
      t.match(result, {
        written: 1,
        rejected: 2,
        rejections: [
          { code: 'INVALID_POINT', position: 1 },
          { code: 'INVALID_POINT', position: 2 },
        ],
      })
      t.match(result.rejections[0].message, /3 .*2/, 'names both scales')
      t.same(await lines(engine, { measurement: 'm' }), [`{} ${NOW} d=decimal:1.50`, `{} ${NOW + 1n} d=decimal:-2.25`, `{} ${NOW + 2n} d=decimal:7.00`])
    },
  ],
  [
    'declared fields',
    async (t, engine) => {
      t.match(await engine.declareField('default', 'm', { name: 'd', type: 'decimal', scale: 4 }), {
        name: 'm',
        tags: [],
        fields: [{ name: 'd', type: 'decimal', scale: 4 }],
      })
      t.match(await engine.declareField('default', 'm', { name: 'd', type: 'decimal', scale: 4 }), { fields: [{ name: 'd' }] }, 'again')
      t.match(await engine.measurements('default'), [{ name: 'm' }])
      t.same(await lines(engine, { measurement: 'm' }), [])
      await t.rejects(engine.declareField('default', 'm', { name: 'd', type: 'decimal', scale: 3 }), { code: 'SCHEMA_ERROR' })
      await t.rejects(engine.declareField('default', 'm', { name: 'd', type: 'float64' }), { code: 'SCHEMA_ERROR' })
      for (const field of [
        { name: '_time', type: 'float64' },
        { name: '', type: 'float64' },
        { name: 'x', type: 'decimal' },
        { name: 'x', type: 'decimal', scale: 39 },
      ] as const) {
        await t.rejects(engine.declareField('default', 'm', field), { code: 'INVALID_POINT' }, JSON.stringify(field))
      }
      await t.rejects(engine.declareField('default', 'a\0b', { name: 'x', type: 'float64' }), { code: 'INVALID_POINT' })
      await write(engine, [point(NOW, { d: dec('1.5') })])
      t.same(await lines(engine, { measurement: 'm' }), [`{} ${NOW} d=decimal:1.5000`])
      for (const name of ['a', 'b', 'c']) await engine.declareField('default', 'm', { name, type: 'bool' })
      await t.rejects(engine.declareField('default', 'm', { name: 'e', type: 'bool' }), { code: 'INVALID_POINT', message: /max_fields_per_measurement/ })
    },
  ],
  [
    'fields of all measurements together are bounded: rows that bring another are refused, in order of arrival, and those of known fields are stored',
    async (t, engine) => {
      const rows = (first: number, count: number): TestPoint[] =>
        Array.from({ length: count }, (_, i) => point(NOW + BigInt(i), { a: f64(i), b: f64(i) }, {}, `m${first + i}`))
      t.match(await write(engine, rows(0, 4)), { written: 4 })
      t.match(await write(engine, [point(NOW, { a: f64(1), c: f64(1), d: f64(1) }, {}, 'm0'), point(NOW + 1n, { c: f64(1), d: f64(1) }, {}, 'm1')]), {
        written: 2,
      })
      const refusal = {
        code: 'CARDINALITY_EXCEEDED',
        message: /^cannot add field "(v|a|e)" to measurement "(m2|next)": all measurements together have 12 fields of at most \[database\] max_fields = 12;/,
      }
      t.match(await write(engine, [point(NOW + 2n, { a: f64(1), e: f64(1) }, {}, 'm2'), point(NOW + 3n, { b: f64(7) }, {}, 'm2')]), {
        written: 1,
        rejected: 1,
        rejections: [{ ...refusal, position: 0 }],
      })
      t.match(await write(engine, [point(NOW, { v: f64(1) }, {}, 'next')]), { written: 0, rejections: [refusal] })
      await t.rejects(engine.declareField('default', 'm2', { name: 'e', type: 'bool' }), refusal)
      t.same(await lines(engine, { measurement: 'm2' }), [`{} ${NOW + 2n} a=float64:2 b=float64:2`, `{} ${NOW + 3n} b=float64:7`])
      t.same(
        (await engine.measurements('default')).map(({ name }) => name),
        ['m0', 'm1', 'm2', 'm3'],
      )
      await engine.drop('default', 'm3')
      t.match(await write(engine, [point(NOW, { v: f64(1), w: f64(1) }, {}, 'next'), point(NOW, { v: f64(1), x: f64(1) }, {}, 'next')]), {
        written: 1,
        rejected: 1,
      })
    },
  ],
  [
    'values and names that are refused',
    async (t, engine) => {
      const bad: TestPoint[] = [
        point(NOW, { v: f64(Number.NaN) }),
        point(NOW, { v: f64(Number.POSITIVE_INFINITY) }),
        point(NOW, { v: f64(1), w: f64(Number.NEGATIVE_INFINITY) }),
        point(NOW, {}),
        point(NOW, { s: str('ä'.repeat(51)) }),
        point(NOW, { _time: f64(1) }),
        point(NOW, { _series: f64(1) }),
        point(NOW, { 'a\0b': f64(1) }),
        point(NOW, { ['x'.repeat(21)]: f64(1) }),
        point(NOW, { v: f64(1) }, { 'a\x01': 'b' }),
        point(NOW, { v: f64(1) }, { a: 'b\0' }),
        point(NOW, { v: f64(1) }, { _measurement: 'b' }),
        point(NOW, { v: f64(1) }, { a: '1', b: '1', c: '1', d: '1' }),
        point(NOW, { v: f64(1) }, {}, 'x'.repeat(21)),
        point(NOW, { v: f64(1) }, {}, ''),
        point(NOW, { a: f64(1), b: f64(1), c: f64(1), d: f64(1), e: f64(1) }),
      ]
      for (const [i, p] of bad.entries()) {
        const result = await write(engine, [p])
        t.match(result, { written: 0, rejected: 1, rejections: [{ code: 'INVALID_POINT', position: 0 }] }, `point ${i}`)
        t.match(result.rejections[0].message, /^cannot /)
      }
      t.same(await engine.measurements('default'), [], 'a refused row creates nothing')
      await t.rejects(lines(engine, { measurement: 'm' }), { code: 'NOT_FOUND' })
      const all = await write(engine, [...bad, point(NOW, { s: str('ä'.repeat(50)) }, { a: '1', b: '1', c: '1', d: '' })])
      t.match(all, { written: 1, rejected: bad.length })
      t.same(
        all.rejections.map((r) => r.position),
        bad.map((_, i) => i),
      )
    },
  ],
  [
    'at most 16 refusals are told, the first ones',
    async (t, engine) => {
      const result = await write(
        engine,
        Array.from({ length: 40 }, (_, i) => point(NOW, { v: f64(i % 2 === 0 ? 1 : Number.NaN) })),
      )
      t.match(result, { written: 20, rejected: 20 })
      t.same(
        result.rejections.map((r) => r.position),
        Array.from({ length: 16 }, (_, i) => 2 * i + 1),
      )
    },
  ],
  [
    'the cardinality budget counts live series; refused rows give theirs back',
    async (t, engine) => {
      const of = (host: string, value = 1) => point(NOW, { v: f64(value) }, { host })
      t.match(
        await write(
          engine,
          ['a', 'b', 'c'].map((h) => of(h)),
        ),
        { written: 3 },
      )
      const before = engine.resolver.epoch
      t.match(await write(engine, [of('d', Number.NaN), of('e', Number.NaN), of('f')]), {
        written: 0,
        rejected: 3,
        rejections: [{}, {}, { code: 'CARDINALITY_EXCEEDED', position: 2 }],
      })
      t.ok(engine.resolver.epoch > before, 'numbers that were given back are called in')
      const result = await write(engine, [of('f'), of('g'), of('h'), of('a')])
      t.match(result, { written: 3, rejected: 1, rejections: [{ code: 'CARDINALITY_EXCEEDED', position: 2 }] })
      t.match(result.rejections[0].message, /max_series_cardinality/)

      const unused = fill(engine, [of('a', 2)])
      engine.recycle(unused.batch)
      t.match(await write(engine, [of('a', 3), of('i')]), { written: 1, rejected: 1 })
      t.equal((await lines(engine, { measurement: 'm', matchers: [{ tag: 'host', op: '=', value: 'a' }] }))[0], `{"host":"a"} ${NOW} v=float64:3`)
    },
  ],
  [
    'the tag keys of a measurement are bounded: a row whose series would bring one more is refused',
    async (t, engine) => {
      const of = (tags: Record<string, string>, measurement = 'm') => point(NOW, { v: f64(1) }, tags, measurement)
      const result = await write(engine, [of({ a: '1', b: '1', c: '1' }), of({ d: '1' }), of({ e: '1' }), of({ a: '2', d: '2' }), of({ e: '1' }, 'n')])
      t.match(result, { written: 4, rejected: 1, rejections: [{ code: 'INVALID_POINT', position: 2 }] })
      for (const part of ['"e"', '"m"', 'max_tags_per_measurement', '5', '4']) t.ok(result.rejections[0].message.includes(part), part)
      t.match(await write(engine, [of({ a: '1', e: '1' }), of({ a: '2', d: '2' }), of({ e: '1' }, 'n')]), {
        written: 2,
        rejected: 1,
        rejections: [{ position: 0 }],
      })
      t.match(await engine.measurements('default'), [{ tags: ['a', 'b', 'c', 'd'] }, { tags: ['e'] }])
    },
  ],
  [
    'a row that is refused brings no tag key',
    async (t, engine) => {
      const of = (key: string, value = 1) => point(NOW, { v: f64(value) }, { [key]: '1' })
      t.match(await write(engine, [of('a', Number.NaN), of('b'), of('c'), of('d'), of('e')]), { written: 4, rejected: 1, rejections: [{ position: 0 }] })
      t.match(await write(engine, [of('a'), of('b')]), { written: 1, rejected: 1, rejections: [{ position: 0, message: /max_tags_per_measurement/ }] })
    },
  ],
  [
    'a series that another open batch holds is not given back',
    async (t, engine) => {
      const held = fill(engine, [point(NOW, { v: f64(1) }, { host: 'x' })])
      t.match(await write(engine, [point(NOW, { v: f64(Number.NaN) }, { host: 'x' })]), { written: 0 })
      t.match(await engine.write(held.batch), { written: 1, rejected: 0 })
      t.same(await lines(engine, { measurement: 'm' }), [`{"host":"x"} ${NOW} v=float64:1`])
    },
  ],
]
