import { SvcError } from 'svcdb'
import { WriteBatch } from 'svcdb/lib/columns'
import { atOnce } from 'svcdb/lib/event-loop'
import { emptyHistogram } from 'svcdb/lib/histogram'
import { decimal, type FieldValue, histogram, PointBuffer, uint64 } from 'svcdb/lib/points'
import { boot, FakeResolver, pointsOf } from 'svcdb/testkit'
import t, { type Test } from 'tap'
import type { CallContext } from '../auth/auth.ts'
import { definePlugin, type Svc } from '../plugin.ts'

const NOW = 1_700_000_000_000_000_000n

async function setUp(t: Test, fail: () => Error | undefined = () => undefined) {
  let svc!: Svc
  const plugin = definePlugin({
    id: 'writer',
    summary: 'Writes points',
    stability: 'beta',
    capabilities: ['points'],
    setup(given) {
      svc = given
      given.ingest.admit(() => {
        const error = fail()
        if (error !== undefined) throw error
      })
    },
  })
  const node = await boot({ plugins: [plugin] })
  t.teardown(() => node.stop())
  const context: CallContext = {
    principal: 'test',
    method: 'none',
    claims: {},
    roles: [],
    namespaces: [],
    admin: false,
    namespace: 'default',
    dataNamespace: '',
    requestId: '',
    address: undefined,
  }
  const rows = async (measurement: string) => {
    const found: Record<string, unknown>[] = []
    for await (const chunk of node.storage.scan({ namespace: '', measurement }))
      for (let row = 0; row < chunk.times.length; row++) {
        const has = chunk.columns.filter(({ validity }) => validity === undefined || validity[row] === 1)
        found.push({ ...chunk.tags, time: chunk.times[row], ...Object.fromEntries(has.map(({ name, type, values }) => [`${name}:${type}`, values[row]])) })
      }
    return found
  }
  return { svc, context, rows }
}

t.test('a point in one line, of every type', async (t) => {
  const { svc, context, rows } = await setUp(t)
  const points = svc.ingest.points(context)
  const latency = {
    ...emptyHistogram(),
    count: 3,
    sum: 6,
    positiveSpans: [{ offset: 0, length: 2 }],
    positiveCounts: Float64Array.of(1, 2),
  }
  points.add(
    'all',
    { host: 'a', empty: '' },
    { f: 1.5, i: -(2n ** 63n), b: true, s: 'grün', u: uint64(2n ** 64n - 1n), d: decimal('-012.50'), h: histogram(latency) },
    NOW,
  )
  points.add('all', { host: 'b' }, { f: 2 }, new Date(Number(NOW / 1_000_000n)))
  t.equal(points.length, 2)
  t.match(await points.write(), { written: 2, rejected: 0 })
  t.equal(points.length, 0)
  const [first, second] = await rows('all')
  t.match(first, {
    host: 'a',
    time: NOW,
    'f:float64': 1.5,
    'i:int64': -(2n ** 63n),
    'b:bool': 1,
    's:string': 'grün',
    'u:uint64': 2n ** 64n - 1n,
    'd:decimal': -1250n,
  })
  t.ok((first['h:histogram'] as Uint8Array).length > 10)
  t.notOk('empty' in first)
  t.same(second, { host: 'b', time: NOW, 'f:float64': 2 })
})

t.test('a bad point is refused by name, at once, and nothing of it is kept', async (t) => {
  const { svc, context } = await setUp(t)
  const points = svc.ingest.points(context)
  points.add('cpu', {}, { v: 1 })
  const bad: [unknown, unknown, unknown, unknown, RegExp][] = [
    ['', {}, { v: 1 }, NOW, /points\[1\] of "": a measurement has a name/],
    ['cpu', { host: 1 }, { v: 1 }, NOW, /points\[1\] of "cpu": tag "host" is number; tags are strings/],
    ['cpu', {}, {}, NOW, /it has no field/],
    ['cpu', {}, { v: undefined }, NOW, /field "v" is undefined; it is a number/],
    ['cpu', {}, { v: null }, NOW, /field "v" is null/],
    ['cpu', {}, { v: {} }, NOW, /field "v" is an object/],
    ['cpu', {}, { v: Number.NaN }, NOW, /field "v" is NaN; leave it out/],
    ['cpu', {}, { v: 2n ** 63n }, NOW, /beyond int64; use uint64/],
    ['cpu', {}, { v: 1 }, 5, /its time is number/],
    ['cpu', {}, { v: 1 }, new Date('x'), /no date/],
    ['cpu', {}, { v: 1 }, 2n ** 63n, /beyond 64 bits/],
  ]
  for (const [measurement, tags, fields, time, message] of bad)
    t.throws(() => points.add(measurement as string, tags as never, fields as Record<string, FieldValue>, time as bigint), { code: 'INVALID_POINT', message })
  for (const value of [-1n, 2n ** 64n, 1.5, Number.NaN]) t.throws(() => uint64(value), { code: 'INVALID_POINT' })
  for (const text of ['', 'x', '1e5', '1'.repeat(39), `0.${'0'.repeat(38)}1`, '.']) t.throws(() => decimal(text), { code: 'INVALID_POINT' })
  for (const text of ['0', '-.5', '1'.repeat(38), `${'0'.repeat(50)}1.${'1'.repeat(37)}`]) t.doesNotThrow(() => decimal(text))
  t.equal(points.length, 1)
  t.match(await points.write(), { written: 1 })
})

t.test('it is bounded, in points and in bytes', async (t) => {
  const { svc, context } = await setUp(t)
  const few = svc.ingest.points(context, { maxPoints: 2 })
  few.add('m', {}, { v: 1 }).add('m', {}, { v: 2 })
  t.throws(() => few.add('m', {}, { v: 3 }), { code: 'PAYLOAD_TOO_LARGE', message: /points\[2\] of "m".*await write\(\) first/ })
  const small = svc.ingest.points(context, { maxBytes: 1000 })
  small.add('m', { text: 'x'.repeat(300) }, { v: 1 })
  t.throws(() => small.add('m', { text: 'x'.repeat(300) }, { v: 1 }), { code: 'PAYLOAD_TOO_LARGE' })
  small.clear()
  t.equal(small.add('m', { text: 'x'.repeat(300) }, { v: 1 }).length, 1)
})

t.test('what the schema refuses is named, all others are stored', async (t) => {
  const { svc, context, rows } = await setUp(t)
  await svc.ingest.points(context).add('mixed', { n: '0' }, { v: 1 }, NOW).write()
  const points = svc.ingest.points(context)
  points.add('mixed', { n: '1' }, { v: 1 }, NOW).add('mixed', { n: '2' }, { other: 5, v: 'text' }, NOW).add('mixed', { n: '3' }, { v: 3 }, NOW)
  await t.rejects(points.write(), {
    code: 'PARTIAL_WRITE',
    message: /2 points written, 1 rejected; first: points\[1\] of "mixed": .*type float64/,
    detail: { written: 2 },
  })
  t.equal(points.length, 0)
  t.same(
    (await rows('mixed')).map(({ n }) => n),
    ['0', '1', '3'],
  )
})

t.test('what could not be written waits for the next write, also what was added meanwhile', async (t) => {
  let full = true
  const { svc, context, rows } = await setUp(t, () => (full ? new SvcError('BACKPRESSURE', 'full') : undefined))
  const points = svc.ingest.points(context)
  points.add('kept', { n: '1' }, { v: 1 }, NOW)
  const refused = points.write()
  points.add('kept', { n: '2' }, { v: 1 }, NOW)
  await t.rejects(refused, { code: 'BACKPRESSURE' })
  t.equal(points.length, 2)
  full = false
  t.same(
    (await Promise.all([points.write(), points.write()])).map(({ written }) => written),
    [2, 0],
  )
  t.equal((await rows('kept')).length, 2)
})

t.test('points that are forgotten when their write has begun are written all the same', async (t) => {
  const resolver = new FakeResolver()
  const batch = new WriteBatch(resolver)
  const buffer = new PointBuffer({ maxPoints: 10, maxBytes: 10_000, nonFinite: false })
  buffer.add('m', {}, { v: 1 }, NOW)
  const work = buffer.fill(batch, buffer.length)
  buffer.clear()
  buffer.add('other', {}, { v: 2 }, NOW)
  t.match(atOnce(work), { rejected: 0 })
  t.match(pointsOf(batch, resolver), [{ measurement: 'm', fields: { v: 1 } }])
})
