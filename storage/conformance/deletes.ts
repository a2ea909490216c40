/** What a delete removes, what it leaves, and that it does not reach what is written after it. */
import type { DeleteRequest, DeleteResult, Matcher } from 'svcdb'
import { INT64_MIN } from '../common/time.ts'
import { type Life, type LifeRule, seen } from './life.ts'
import { dec, f64, fill, HOUR, hist, isStored, lines, MINUTE, NOW, str, type TestPoint, write } from './points.ts'

/** Configuration that `deleteRules` expects. */
export const deleteConfig = { max_series_cardinality: 6 }

const point = (time: bigint, fields: Record<string, number>, host = 'a', measurement = 'cpu'): TestPoint => ({
  measurement,
  tags: host === '' ? {} : { host },
  time,
  fields: Object.fromEntries(Object.entries(fields).map(([name, value]) => [name, f64(value)])),
})
const row = (time: bigint, fields: Record<string, number>, host = 'a'): string =>
  `${host === '' ? '{}' : JSON.stringify({ host })} ${time} ${Object.entries(fields)
    .map(([name, value]) => `${name}=float64:${value}`)
    .join(' ')}`
const remove = (life: Life, request: Partial<DeleteRequest> = {}): Promise<DeleteResult> =>
  life.engine.delete({ namespace: 'default', measurement: 'cpu', ...request })
const host = (value: string, op: Matcher['op'] = '='): { matchers: Matcher[] } => ({ matchers: [{ tag: 'host', op, value }] })
const range = (from: bigint, to: bigint): bigint[] => Array.from({ length: Number(to - from) }, (_, i) => from + BigInt(i))

export const deleteRules: LifeRule[] = [
  [
    'a range begins with its start and ends before its end; either may be open',
    async (t, life) => {
      const times = range(NOW, NOW + 10n)
      await write(
        life.engine,
        times.flatMap((time) => [point(time, { v: 1 }), point(time, { v: 2 }, 'b')]),
      )
      await life.between()
      const left = async () => (await lines(life.engine, { measurement: 'cpu', ...host('a') })).map((line) => Number(BigInt(line.split(' ')[1]) - NOW))
      t.same(await remove(life, { ...host('a'), start: NOW + 3n, end: NOW + 5n }), { series: 1, segmentsSkipped: 0 })
      await life.between()
      t.same(await left(), [0, 1, 2, 5, 6, 7, 8, 9])
      await remove(life, { ...host('a'), end: NOW + 1n })
      t.same(await left(), [1, 2, 5, 6, 7, 8, 9])
      await life.between()
      await remove(life, { ...host('a'), start: NOW + 8n })
      t.same(await left(), [1, 2, 5, 6, 7])
      for (const end of [NOW + 6n, NOW + 5n]) {
        t.same(await remove(life, { ...host('a'), start: NOW + 6n, end }), { series: 0, segmentsSkipped: 0 }, 'an empty range holds nothing')
      }
      await life.between()
      t.same(await left(), [1, 2, 5, 6, 7])
      t.equal((await lines(life.engine, { measurement: 'cpu', ...host('b') })).length, 10, 'another series is not touched')
    },
  ],
  [
    'what is written after a delete stays',
    async (t, life) => {
      for (let round = 0; round < 4; round++) {
        await write(life.engine, [point(NOW, { v: round }), point(NOW + 1n, { v: round })])
        await life.between()
        t.same(await seen(life, 'cpu'), [row(NOW, { v: round }), row(NOW + 1n, { v: round })])
        await remove(life, round % 2 === 0 ? { start: NOW, end: NOW + 1n } : host('a'))
        if (round % 2 === 1) await life.between()
        t.same(await seen(life, 'cpu'), round % 2 === 0 ? [row(NOW + 1n, { v: round })] : [])
      }
      await write(life.engine, [point(NOW, { v: 9 })])
      await life.between()
      t.same(await seen(life, 'cpu'), [row(NOW, { v: 9 })])
    },
  ],
  [
    'fields of a deleted point do not come back with a later write of some of them',
    async (t, life) => {
      await write(life.engine, [point(NOW, { a: 1, b: 2 }), point(NOW + 1n, { a: 1, b: 2 })])
      await life.between()
      await remove(life, { start: NOW, end: NOW + 1n })
      await life.between()
      await write(life.engine, [point(NOW, { a: 3 }), point(NOW + 1n, { a: 3 })])
      const merged = [row(NOW, { a: 3 }), row(NOW + 1n, { a: 3, b: 2 })]
      t.same(await seen(life, 'cpu'), merged)
      await life.between()
      t.same(await seen(life, 'cpu'), merged)
      await remove(life)
      await write(life.engine, [point(NOW + 1n, { b: 4 })])
      await life.between()
      t.same(await seen(life, 'cpu'), [row(NOW + 1n, { b: 4 })])
      await write(life.engine, [point(NOW, { a: 5 })])
      await life.between()
      t.same(await seen(life, 'cpu'), [row(NOW, { a: 5 }), row(NOW + 1n, { b: 4 })])
    },
  ],
  [
    'one delete reaches rows of several writes, before and after a flush',
    async (t, life) => {
      for (let i = 0n; i < 6n; i++) {
        await write(life.engine, [point(NOW + i, { v: Number(i) }), point(NOW + i, { v: Number(i) }, 'b')])
        if (i % 2n === 0n) await life.between()
      }
      t.same(await remove(life, { ...host('a'), start: NOW + 1n, end: NOW + 5n }), { series: 1, segmentsSkipped: 0 })
      await write(life.engine, [point(NOW + 3n, { w: 1 })])
      const left = [row(NOW, { v: 0 }), row(NOW + 3n, { w: 1 }), row(NOW + 5n, { v: 5 }), ...range(0n, 6n).map((i) => row(NOW + i, { v: Number(i) }, 'b'))]
      t.same(await seen(life, 'cpu'), left)
      await life.between()
      t.same(await seen(life, 'cpu'), left)
    },
  ],
  [
    'rows out of order, twice written and backfilled go alike',
    async (t, life) => {
      await write(life.engine, [point(NOW, { v: 1 }), point(NOW - MINUTE, { v: 2 }), point(NOW, { w: 3 })])
      await life.between()
      await write(life.engine, [point(NOW - MINUTE, { v: 4 }), point(NOW - 2n * MINUTE, { v: 5 }), point(NOW, { v: 6 })])
      await write(life.engine, [point(NOW - 30n * HOUR, { v: 7 }), point(INT64_MIN + 2n, { v: 8 }), point(NOW - MINUTE, { w: 9 })], { backfill: true })
      await remove(life, { start: NOW - MINUTE, end: NOW + 1n })
      await life.between()
      const older = [row(INT64_MIN + 2n, { v: 8 }), row(NOW - 30n * HOUR, { v: 7 })]
      t.same(new Set(await seen(life, 'cpu')), new Set([...older, row(NOW - 2n * MINUTE, { v: 5 })]))
      await remove(life, { end: NOW - 2n * MINUTE })
      t.same(await seen(life, 'cpu'), [row(NOW - 2n * MINUTE, { v: 5 })])
      await write(life.engine, [point(NOW - MINUTE, { w: 10 })])
      await life.between()
      t.same(await seen(life, 'cpu'), [row(NOW - 2n * MINUTE, { v: 5 }), row(NOW - MINUTE, { w: 10 })])
    },
  ],
  [
    'matchers of all four kinds choose the series',
    async (t, life) => {
      const hosts = ['a', 'ab', 'b', 'c\nd', '']
      const fresh = () =>
        write(
          life.engine,
          hosts.map((h) => point(NOW, { v: 1 }, h)),
        )
      const left = async () => ((await seen(life, 'cpu')) as string[]).map((line) => JSON.parse(line.slice(0, line.indexOf('}') + 1)).host ?? '')
      const cases: [Matcher['op'], string, string[]][] = [
        ['=', 'a', ['a']],
        ['=', '', ['']],
        ['!=', 'a', ['ab', 'b', 'c\nd', '']],
        ['!=', '', ['a', 'ab', 'b', 'c\nd']],
        ['=~', 'a.*', ['a', 'ab']],
        ['=~', 'c.d', ['c\nd']],
        ['=~', '.*', hosts],
        ['!~', 'a|b', ['ab', 'c\nd', '']],
        ['=', 'nobody', []],
      ]
      for (const [i, [op, value, gone]] of cases.entries()) {
        await fresh()
        const before = i % 4 < 2
        if (before) await life.between()
        // With a range and without: the second gives the series back.
        const result = await remove(life, { ...host(value, op), ...(i % 2 === 0 ? {} : { start: NOW, end: NOW + 1n }) })
        t.same(result, { series: gone.length, segmentsSkipped: 0 }, `${op} ${value}`)
        if (!before) await life.between()
        t.same((await left()).sort(), hosts.filter((h) => !gone.includes(h)).sort(), `${op} ${value}`)
      }
      await fresh()
      const both = [...host('a', '!=').matchers, ...host('a.*', '=~').matchers]
      t.equal((await remove(life, { matchers: both })).series, 1)
      t.notOk((await left()).includes('ab'))
      t.equal((await remove(life, { matchers: [{ tag: 'none', op: '=', value: 'x' }] })).series, 0)
      await t.rejects(remove(life, host('(', '=~')), { code: 'BAD_REQUEST', message: /"\("/ })
      t.equal((await left()).length, 4)
    },
  ],
  [
    'a delete of all series leaves the measurement and its types',
    async (t, life) => {
      await write(life.engine, [point(NOW, { v: 1 }), point(NOW, { v: 2 }, 'b'), point(NOW, { v: 3 }, '')])
      await write(life.engine, [point(NOW, { v: 4 }, 'a', 'mem')])
      await write(life.engine, [point(NOW, { v: 5 })], { namespace: 'other' })
      await life.between()
      t.same(await remove(life), { series: 3, segmentsSkipped: 0 })
      t.same(await remove(life), { series: 0, segmentsSkipped: 0 }, 'what is gone is not counted again')
      await life.between()
      t.same(await seen(life, 'cpu'), [])
      t.match(await life.engine.measurements('default'), [
        { name: 'cpu', tags: [], fields: [{ name: 'v', type: 'float64' }] },
        { name: 'mem', tags: ['host'] },
      ])
      t.same(await seen(life, 'mem'), [row(NOW, { v: 4 })])
      t.same(await seen(life, 'cpu', 'other'), [row(NOW, { v: 5 })])
      const other = await write(life.engine, [{ measurement: 'cpu', tags: { host: 'a' }, time: NOW, fields: { v: str('x') } }])
      t.match(other, { written: 0, rejections: [{ code: 'SCHEMA_ERROR' }] })
      t.match(await write(life.engine, [point(NOW, { v: 6 })]), { written: 1 })
      await life.between()
      t.same(await seen(life, 'cpu'), [row(NOW, { v: 6 })])
    },
  ],
  [
    'a series deleted without a range is released: its budget is free, its number is not used again',
    async (t, life) => {
      const six = ['a', 'b', 'c', 'd', 'e', 'f'].map((h) => point(NOW, { v: 1 }, h))
      const number = () => life.engine.resolver.series(life.engine.resolver.measurement('default', 'cpu'), ['host', 'a'])
      await write(life.engine, six)
      await life.between()
      t.match(await write(life.engine, [point(NOW, { v: 1 }, 'g')]), { written: 0, rejections: [{ code: 'CARDINALITY_EXCEEDED' }] })
      await remove(life, { ...host('b'), start: NOW, end: NOW + 1n })
      t.match(await write(life.engine, [point(NOW, { v: 1 }, 'g')]), { written: 0, rejections: [{ code: 'CARDINALITY_EXCEEDED' }] }, 'a range does not release')
      const before = { number: number(), epoch: life.engine.resolver.epoch }
      await remove(life, host('a|c', '=~'))
      t.ok(life.engine.resolver.epoch > before.epoch, 'numbers that were given back are called in')
      t.match(await write(life.engine, [point(NOW, { v: 2 }, 'g'), point(NOW, { v: 2 })]), { written: 2 })
      await life.between()
      t.ok(number() > before.number)
      t.match(await write(life.engine, [point(NOW, { v: 1 }, 'h')]), { written: 0, rejections: [{ code: 'CARDINALITY_EXCEEDED' }] })
      t.same(await seen(life, 'cpu'), [row(NOW, { v: 2 }), ...['d', 'e', 'f'].map((h) => row(NOW, { v: 1 }, h)), row(NOW, { v: 2 }, 'g')])
    },
  ],
  [
    'a batch that was begun before a delete is stored, or is to come again: no row of it is lost',
    async (t, life) => {
      await write(life.engine, [point(NOW, { v: 1 }), point(NOW, { v: 1 }, 'b')])
      const points = [point(NOW + 1n, { v: 2 }), point(NOW + 1n, { v: 2 }, 'b')]
      const { batch } = fill(life.engine, points)
      await remove(life, host('a'))
      if (!(await isStored(life.engine.write(batch)))) {
        t.same(await seen(life, 'cpu'), [row(NOW, { v: 1 }, 'b')])
        t.match(await write(life.engine, points), { written: 2, rejected: 0 })
      }
      await life.between()
      t.same(await seen(life, 'cpu'), [row(NOW + 1n, { v: 2 }), row(NOW, { v: 1 }, 'b'), row(NOW + 1n, { v: 2 }, 'b')])
    },
  ],
  [
    'deletes and writes that overlap all end, and rows outside of the deleted ranges stay',
    async (t, life) => {
      await write(life.engine, [point(NOW, { v: 0 })])
      await life.between()
      const times = range(NOW + 1n, NOW + 7n)
      const removing = () => remove(life, { end: NOW + 1n })
      const results = await Promise.all(times.flatMap((time) => [removing(), write(life.engine, [point(time, { v: 1 })])]))
      t.match(
        results.filter((_, i) => i % 2 === 1),
        times.map(() => ({ written: 1, rejected: 0 })),
      )
      await life.between()
      t.same(
        await seen(life, 'cpu'),
        times.map((time) => row(time, { v: 1 })),
      )
    },
  ],
  [
    'many deletes of one series, every type of field, and rows in tables of many measurements',
    async (t, life) => {
      const rich = (time: bigint): TestPoint => ({
        measurement: 'cpu',
        tags: { host: 'a' },
        time,
        fields: { d: dec('1.5'), s: str('ä'), h: hist(Uint8Array.of(1, 2)) },
      })
      const mixed = (measurement: string, time: bigint): TestPoint => ({ measurement, time, fields: { value: f64(1) }, mixed: true })
      const times = range(NOW, NOW + 200n)
      await write(life.engine, times.map(rich))
      await write(life.engine, [mixed('up', NOW), mixed('down', NOW), mixed('up', NOW + 1n)])
      await life.between()
      for (const time of times) if (time % 3n !== 0n) await remove(life, { start: time, end: time + 1n })
      await life.between()
      t.same(
        await seen(life, 'cpu'),
        times.filter((time) => time % 3n === 0n).map((time) => `{"host":"a"} ${time} d=decimal:1.5 h=histogram:0102 s=string:"ä"`),
      )
      await remove(life, { measurement: 'up', end: NOW + 1n })
      await life.between()
      t.same(await seen(life, 'up'), [`{} ${NOW + 1n} value=float64:1`])
      t.same(await seen(life, 'down'), [`{} ${NOW} value=float64:1`])
    },
  ],
  [
    'a scan under way keeps what it began with',
    async (t, life) => {
      await write(life.engine, [point(NOW, { v: 1 }), point(NOW, { v: 2 }, 'b')])
      await life.between()
      const hosts: string[] = []
      for await (const { tags, times } of life.engine.scan({ namespace: 'default', measurement: 'cpu' })) {
        hosts.push(`${tags.host} ${times.length}`)
        if (hosts.length === 1) await remove(life)
      }
      t.same(hosts.sort(), ['a 1', 'b 1'])
      t.same(await seen(life, 'cpu'), [])
    },
  ],
  [
    'deletes that are refused',
    async (t, life) => {
      await write(life.engine, [point(NOW, { v: 1 })])
      await write(life.engine, [point(NOW, { v: Number.NaN }, 'a', 'refused')])
      for (const measurement of ['unknown', 'refused']) {
        await t.rejects(remove(life, { measurement }), { code: 'NOT_FOUND', message: new RegExp(`^cannot delete from measurement "${measurement}": `) })
      }
      await t.rejects(remove(life, { namespace: 'other' }), { code: 'NOT_FOUND' })
      await life.engine.close()
      await t.rejects(remove(life), { code: 'DATABASE_CLOSED' })
    },
  ],
]
