/** What a point is, who it merges with, and how it is read. */

import type { StorageEngine } from 'svcdb'
import type { Test } from 'tap'
import { INT64_MIN } from '../common/time.ts'
import { bool, dec, f64, HOUR, hist, i64, lines, MINUTE, NOW, str, type TestPoint, u64, write } from './points.ts'

export type Rule = [name: string, body: (t: Test, engine: StorageEngine) => Promise<void>]

const point = (host: string, time: bigint, fields: TestPoint['fields'], measurement = 'cpu'): TestPoint => ({ measurement, tags: { host }, time, fields })
const shownZero = (v: number): string => (Object.is(v, -0) ? '-0' : '0')

export const pointRules: Rule[] = [
  [
    'every type comes back bit for bit',
    async (t, engine) => {
      const nines = '9'.repeat(38)
      const values: TestPoint['fields'][] = [
        {
          f: f64(-0),
          i: i64(2n ** 63n - 1n),
          u: u64(2n ** 64n - 1n),
          b: bool(true),
          s: str(''),
          d: dec(`${nines.slice(0, 34)}.9999`),
          h: hist(Uint8Array.of()),
        },
        {
          f: f64(5e-324),
          i: i64(INT64_MIN),
          u: u64(0n),
          b: bool(false),
          s: str('ünïcødé 😀 "\\\n\u0000'),
          d: dec('-0.0001'),
          h: hist(Uint8Array.of(0, 255, 1)),
        },
        {
          f: f64(Number.MAX_VALUE),
          i: i64(2n ** 53n + 1n),
          u: u64(2n ** 63n),
          b: bool(true),
          s: str('x'.repeat(65_536)),
          d: dec('0'),
          h: hist(new Uint8Array(1000).fill(7)),
        },
        {
          f: f64(0.1 + 0.2),
          i: i64(-1n),
          u: u64(2n ** 53n + 1n),
          b: bool(false),
          s: str('a'),
          d: dec(`-${nines.slice(0, 34)}.0001`),
          h: hist(Uint8Array.of(1)),
        },
      ]
      t.match(
        await write(
          engine,
          values.map((fields, i) => point('a', NOW + BigInt(i), fields)),
        ),
        { written: 4, rejected: 0, rejections: [] },
      )
      const shown = (v: TestPoint['fields']) => [
        `b=bool:${v.b.value}`.replace('true', '1').replace('false', '0'),
        `d=decimal:${v.d.value === '0' ? '0.0000' : v.d.value}`,
        `f=float64:${Object.is(v.f.value, -0) ? '-0' : v.f.value}`,
        `h=histogram:${Buffer.from(v.h.value as Uint8Array).toString('hex')}`,
        `i=int64:${v.i.value}`,
        `s=string:${JSON.stringify(v.s.value)}`,
        `u=uint64:${v.u.value}`,
      ]
      const expected = values.map((v, i) => `{"host":"a"} ${NOW + BigInt(i)} ${shown(v).join(' ')}`)
      t.same(await lines(engine, { measurement: 'cpu' }), expected)
      await engine.flush()
      t.same(await lines(engine, { measurement: 'cpu' }), expected, 'after a flush')
    },
  ],
  [
    'points of one write that each set few of very many fields: the last one of a time wins, a type that differs is refused, a new decimal has the most digits',
    async (t, engine) => {
      const [count, fields, times] = [3000, 400, 500]
      const points: TestPoint[] = []
      const expected = new Map<number, Map<string, string>>()
      for (let i = 0; i < count; i++) {
        const time = (i * 7) % times
        const name = `f${(i * i) % fields}`
        points.push(point('a', NOW + BigInt(time), { [name]: f64(i), common: f64(i) }))
        const row = expected.get(time) ?? new Map()
        expected.set(time, row.set(name, `${name}=float64:${i}`).set('common', `common=float64:${i}`))
      }
      points.push(point('a', NOW + BigInt(times), { f1: i64(1n) }), point('b', NOW, { d: dec('1.5') }))
      for (let i = 0; i < count; i++) points.push(point('c', NOW + BigInt(i), { [`f${i % fields}`]: f64(i) }))
      points.push(point('b', NOW + 1n, { d: dec('1.125') }))
      const { written, rejections } = await write(engine, points)
      t.same([written, rejections.map(({ code, position }) => [code, position])], [2 * count + 2, [['SCHEMA_ERROR', count]]])
      const of = (row: Map<string, string>): string =>
        [...row.keys()]
          .sort()
          .map((name) => row.get(name))
          .join(' ')
      const wanted = [...expected.keys()]
        .sort((a, b) => a - b)
        .map((time) => `{"host":"a"} ${NOW + BigInt(time)} ${of(expected.get(time) as Map<string, string>)}`)
      for (const state of ['fresh', 'flushed']) {
        const found = await lines(engine, { measurement: 'cpu' })
        t.same(found.slice(0, wanted.length), wanted, state)
        t.same(found.slice(wanted.length, wanted.length + 2), [`{"host":"b"} ${NOW} d=decimal:1.500`, `{"host":"b"} ${NOW + 1n} d=decimal:1.125`], state)
        t.equal(found.length, wanted.length + 2 + count, state)
        await engine.flush()
      }
    },
  ],
  [
    'zero keeps its sign',
    async (t, engine) => {
      // Equal numbers with different bits: a dictionary of values takes them for one. Enough rows that a dictionary pays.
      const zeros = Array.from({ length: 3000 }, (_, i) => [0, -0, 1.5, -0][i % 4])
      await write(
        engine,
        zeros.map((v, i) => point('a', NOW + BigInt(i), { v: f64(v) })),
      )
      for (const state of ['fresh', 'flushed']) {
        const wrong = (await lines(engine, { measurement: 'cpu' })).filter((line, i) => line.split(':').at(-1) !== ['0', '-0', '1.5', '-0'][i % 4])
        t.same([wrong.length, wrong[0]], [0, undefined], state)
        await engine.flush()
      }
    },
  ],
  [
    'zero keeps its sign where there is nothing but zeros',
    async (t, engine) => {
      // They are one value to whoever counts values by comparing them. In a table with another field, in a shared one, and beside rows without a value.
      const signs = [0, -0, -0, 0]
      const rows = signs.flatMap((v, i): TestPoint[] => [
        point('a', NOW + BigInt(i), { v: f64(v), s: str('x') }),
        { measurement: 'alone', tags: {}, time: NOW + BigInt(i), fields: { v: f64(-v) } },
        point('b', NOW + BigInt(i), i % 2 === 0 ? { v: f64(-v) } : { s: str('y') }),
      ])
      await write(engine, rows)
      const own = signs.map((v, i) => `{"host":"a"} ${NOW + BigInt(i)} s=string:"x" v=float64:${shownZero(v)}`)
      const other = signs.map((v, i) => `{"host":"b"} ${NOW + BigInt(i)} ${i % 2 === 0 ? `v=float64:${shownZero(-v)}` : 's=string:"y"'}`)
      const alone = signs.map((v, i) => `{} ${NOW + BigInt(i)} v=float64:${shownZero(-v)}`)
      for (const state of ['fresh', 'flushed']) {
        t.same(await lines(engine, { measurement: 'cpu' }), [...own, ...other], state)
        t.same(await lines(engine, { measurement: 'alone' }), alone, `${state}, the only field`)
        await engine.flush()
      }
    },
  ],
  [
    'a series is the measurement and the set of tags',
    async (t, engine) => {
      const fields = { v: f64(1) }
      await write(engine, [
        { measurement: 'm', tags: { a: '1', b: '2' }, time: NOW, fields },
        { measurement: 'm', tags: { b: '2', a: '1', c: '' }, time: NOW + 1n, fields },
        { measurement: 'm', tags: { a: '1' }, time: NOW, fields },
        { measurement: 'm', time: NOW, fields },
        { measurement: 'other', tags: { a: '1', b: '2' }, time: NOW, fields },
        { measurement: 'm', tags: { ab: '12' }, time: NOW, fields },
      ])
      t.same(await lines(engine, { measurement: 'm' }), [
        `{"a":"1","b":"2"} ${NOW} v=float64:1`,
        `{"a":"1","b":"2"} ${NOW + 1n} v=float64:1`,
        `{"a":"1"} ${NOW} v=float64:1`,
        `{"ab":"12"} ${NOW} v=float64:1`,
        `{} ${NOW} v=float64:1`,
      ])
      t.same(
        (await engine.measurements('default')).map((m) => [m.name, m.tags]),
        [
          ['m', ['a', 'ab', 'b']],
          ['other', ['a', 'b']],
        ],
      )
      t.same(
        (await engine.measurements('default', 'other')).map((m) => [m.name, m.tags]),
        [['other', ['a', 'b']]],
        'one by its name',
      )
      t.same(await engine.measurements('default', 'none'), [])
      const ref = engine.resolver.measurement('default', 'm')
      t.equal(engine.resolver.series(ref, ['b', '2', 'a', '1']), engine.resolver.series(ref, ['a', '1', 'x', '', 'b', '2']))
      t.equal(engine.resolver.measurement('default', 'm'), ref)
    },
  ],
  [
    'fields of the same series and time merge, the last write wins',
    async (t, engine) => {
      const merged = [`{"host":"a"} ${NOW} x=float64:3 y=float64:2 z=float64:4`]
      t.match(await write(engine, [point('a', NOW, { x: f64(1), y: f64(2) }), point('a', NOW, { x: f64(3) })]), { written: 2, rejected: 0 })
      await write(engine, [point('a', NOW, { z: f64(4) })])
      t.same(await lines(engine, { measurement: 'cpu' }), merged)
      await engine.flush()
      t.same(await lines(engine, { measurement: 'cpu' }), merged, 'after a flush')
      await write(engine, [point('a', NOW, { y: f64(9) })])
      const rewritten = [`{"host":"a"} ${NOW} x=float64:3 y=float64:9 z=float64:4`]
      t.same(await lines(engine, { measurement: 'cpu' }), rewritten, 'across flushed and fresh')
      await engine.flush()
      t.same(await lines(engine, { measurement: 'cpu' }), rewritten, 'across two flushes')
    },
  ],
  [
    'points in any order are read in order, each time once',
    async (t, engine) => {
      const offsets = [5n, 1n, 9n, 1n, -4n, 5n, 0n, 3n]
      for (const [i, offset] of offsets.entries()) {
        await write(engine, [point('a', NOW + offset, { v: i64(BigInt(i)) })])
        if (i % 3 === 2) await engine.flush()
      }
      t.same(
        await lines(engine, { measurement: 'cpu' }),
        [
          [-4n, 4],
          [0n, 6],
          [1n, 3],
          [3n, 7],
          [5n, 5],
          [9n, 2],
        ].map(([offset, v]) => `{"host":"a"} ${NOW + BigInt(offset)} v=int64:${v}`),
      )
    },
  ],
  [
    'a scan narrows by tags, fields and a half-open range',
    async (t, engine) => {
      const host = ['a', 'b', 'ab', 'c\nd']
      await write(engine, [
        ...host.map((h, i) => point(h, NOW + BigInt(i), { v: i64(BigInt(i)), ...(i % 2 === 0 ? { even: bool(true) } : {}) })),
        { measurement: 'cpu', time: NOW, fields: { v: i64(9n) } },
      ])
      const hosts = async (request: Parameters<typeof lines>[1]) =>
        (await lines(engine, request)).map((line) => JSON.parse(line.slice(0, line.indexOf('}') + 1)).host ?? '')
      const by = (op: '=' | '!=' | '=~' | '!~', value: string) => hosts({ measurement: 'cpu', matchers: [{ tag: 'host', op, value }] })
      t.same(await by('=', 'a'), ['a'])
      t.same(await by('=', ''), [''], 'an absent tag is the empty string')
      t.same(await by('!=', ''), ['a', 'ab', 'b', 'c\nd'])
      t.same(await by('=~', 'a'), ['a'], 'anchored')
      t.same(await by('=~', 'a.*'), ['a', 'ab'])
      t.same(await by('=~', 'c.d'), ['c\nd'], 'the dot matches newline')
      t.same(await by('=~', '.*'), ['a', 'ab', 'b', 'c\nd', ''])
      t.same(await by('!~', 'a|b'), ['ab', 'c\nd', ''])
      t.same(await hosts({ measurement: 'cpu', matchers: [{ tag: 'none', op: '=', value: 'x' }] }), [])
      t.same(
        await hosts({
          measurement: 'cpu',
          matchers: [
            { tag: 'host', op: '!=', value: 'a' },
            { tag: 'host', op: '=~', value: 'a.*' },
          ],
        }),
        ['ab'],
      )
      t.same(await hosts({ measurement: 'cpu', start: NOW + 1n, end: NOW + 2n }), ['b'])
      t.same(await hosts({ measurement: 'cpu', start: NOW + 2n, end: NOW + 2n }), [])
      t.same(await lines(engine, { measurement: 'cpu', fields: ['even', 'unknown'], end: NOW + 1n }), [`{"host":"a"} ${NOW} even=bool:1`])
      t.same(await hosts({ measurement: 'cpu', fields: ['even'] }), ['a', 'ab'], 'rows without any of the fields are left out')
      t.same(await hosts({ measurement: 'cpu', fields: ['unknown'] }), [])
      await t.rejects(lines(engine, { measurement: 'nope' }), { code: 'NOT_FOUND', message: /^cannot read measurement "nope": / })
      await t.rejects(lines(engine, { measurement: 'cpu', namespace: 'other' }), { code: 'NOT_FOUND' })
      await t.rejects(by('=~', '('), { code: 'BAD_REQUEST', message: /"\("/ })
    },
  ],
  [
    'a long series comes in bounded chunks',
    async (t, engine) => {
      const rows = 20_000
      const points = Array.from({ length: rows }, (_, i) => point('a', NOW - BigInt(rows - i), { v: i64(BigInt(i)) }))
      await write(engine, points.slice(rows / 2))
      await engine.flush()
      await write(engine, points.slice(0, rows / 2))
      const read = await lines(engine, { measurement: 'cpu' })
      t.equal(read.length, rows)
      t.ok(read.every((line, i) => line === `{"host":"a"} ${NOW - BigInt(rows - i)} v=int64:${i}`))
      let chunks = 0
      for await (const chunk of engine.scan({ namespace: 'default', measurement: 'cpu' })) {
        chunks++
        t.ok(chunk.times.length <= 65_536)
      }
      t.ok(chunks >= 1)
      const plan = await engine.explain({ namespace: 'default', measurement: 'cpu', start: NOW - 100n, end: NOW })
      t.match(plan, { measurement: 'cpu', series: 1, time: { start: String(NOW - 100n), end: String(NOW) } })
    },
  ],
  [
    'a scan under way does not see later writes',
    async (t, engine) => {
      await write(engine, [point('a', NOW, { v: f64(1) }), point('b', NOW, { v: f64(2) })])
      const seen: string[] = []
      for await (const { tags, times } of engine.scan({ namespace: 'default', measurement: 'cpu' })) {
        seen.push(`${tags.host} ${times.length}`)
        if (seen.length === 1) await write(engine, [point('b', NOW + 1n, { v: f64(3) }), point('b', NOW, { w: f64(4) }), point('c', NOW, { v: f64(5) })])
      }
      t.same(seen.sort(), ['a 1', 'b 1'])
      t.equal((await lines(engine, { measurement: 'cpu' })).length, 4)
    },
  ],
  [
    'namespaces do not see one another',
    async (t, engine) => {
      await write(engine, [point('a', NOW, { v: f64(1) })], { namespace: 'one' })
      await write(engine, [point('a', NOW, { v: str('text') })], { namespace: 'two' })
      t.same(await lines(engine, { namespace: 'one', measurement: 'cpu' }), [`{"host":"a"} ${NOW} v=float64:1`])
      t.same(await lines(engine, { namespace: 'two', measurement: 'cpu' }), [`{"host":"a"} ${NOW} v=string:"text"`])
      t.same(await engine.measurements('three'), [])
      const old = [point('a', NOW - 200n * HOUR, { v: f64(1) }, 'old')]
      t.match(await write(engine, old, { namespace: 'one' }), { written: 0, rejected: 1 })
      t.match(await write(engine, old, { namespace: 'three' }), { written: 1 }, 'each has a window of its own')
    },
  ],
  [
    'mixed tables carry rows of many measurements',
    async (t, engine) => {
      const mixed = (measurement: string, time: bigint, value: number): TestPoint => ({
        measurement,
        tags: { job: 'j' },
        time,
        fields: { value: f64(value) },
        mixed: true,
      })
      await write(engine, [{ measurement: 'text', time: NOW, fields: { value: str('s') } }])
      const result = await write(engine, [mixed('up', NOW, 1), mixed('down', NOW, 2), mixed('text', NOW, 3), mixed('up', NOW + MINUTE, 4)])
      t.match(result, { written: 3, rejected: 1, rejections: [{ code: 'SCHEMA_ERROR', position: 2 }] })
      t.same(await lines(engine, { measurement: 'up' }), [`{"job":"j"} ${NOW} value=float64:1`, `{"job":"j"} ${NOW + MINUTE} value=float64:4`])
      t.same(await lines(engine, { measurement: 'down' }), [`{"job":"j"} ${NOW} value=float64:2`])
      t.same(await lines(engine, { measurement: 'text' }), [`{} ${NOW} value=string:"s"`])
    },
  ],
  [
    'a regular expression that tries again for ever is refused when its time is up',
    async (t, engine) => {
      const hosts = ['aaa', `${'a'.repeat(60)}b`]
      await write(
        engine,
        hosts.map((host) => point(host, NOW, { v: f64(1) })),
      )
      const request = { namespace: 'default', measurement: 'cpu', matchers: [{ tag: 'host', op: '=~' as const, value: '(a+)+' }] }
      const refused = { code: 'BAD_REQUEST', message: /^cannot evaluate regular expression "\(a\+\)\+": it takes too long/ }
      await t.rejects(lines(engine, request), refused)
      await t.rejects(engine.delete(request), refused)
      t.equal((await lines(engine, { measurement: 'cpu' })).length, 2, 'nothing else is')
    },
  ],
]
