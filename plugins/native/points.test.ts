import { WriteBatch } from 'svcdb/lib/columns'
import { SvcError } from 'svcdb/lib/errors'
import { atOnce } from 'svcdb/lib/event-loop'
import { type DecodedPoint, FakeResolver, pointsOf } from 'svcdb/testkit'
import t from 'tap'
import { fuzz } from './points.fuzz.ts'
import { PointsParser } from './points.ts'

const OPTIONS = { now: 42n, maxPoints: 100, maxFields: 100 }

function parse(body: string | Uint8Array, resolver = new FakeResolver(), options = OPTIONS): DecodedPoint[] {
  const batch = new WriteBatch(resolver)
  const bytes = typeof body === 'string' ? Buffer.from(body) : body
  atOnce(new PointsParser(resolver, 'default', 1 << 20, 1).parse(bytes, batch, options))
  return pointsOf(batch, resolver)
}

function refusal(body: string | Uint8Array, resolver = new FakeResolver(), options = OPTIONS): SvcError {
  try {
    parse(body, resolver, options)
  } catch (error) {
    if (error instanceof SvcError) return error
    throw error
  }
  throw new Error(`was not refused: ${body}`)
}

const field = (text: string, resolver?: FakeResolver) => parse(`[{"measurement":"m","fields":{"v":${text}}}]`, resolver)[0].fields.v

t.test('members in any order, time and tags optional', async (t) => {
  const expected = { position: 0, measurement: 'cpu', tags: { host: 'a' }, time: 5n, fields: { v: 1.5, ok: true, s: 'x' } }
  const members = ['"measurement":"cpu"', '"tags":{"host":"a"}', '"fields":{"v":1.5,"ok":true,"s":"x"}', '"timestamp":5']
  for (const order of [
    [0, 1, 2, 3],
    [3, 2, 1, 0],
    [2, 0, 3, 1],
    [0, 2, 3, 1],
  ])
    t.same(parse(`[{${order.map((i) => members[i]).join(' , ')}}]`), [expected])
  t.same(parse('[{"measurement":"m","fields":{"v":1}}]'), [{ position: 0, measurement: 'm', tags: {}, time: 42n, fields: { v: 1 } }])
  t.same(parse('[]'), [])
})

t.test('times and integers keep every bit', async (t) => {
  const at = (text: string) => parse(`[{"measurement":"m","timestamp":${text},"fields":{"v":1}}]`)[0].time
  t.equal(at('9223372036854775807'), 9223372036854775807n)
  t.equal(at('-9223372036854775808'), -9223372036854775808n)
  t.equal(at('1700000000123456789'), 1700000000123456789n)
  t.equal(field('9007199254740993'), 9007199254740993n, 'a new field whose value no double holds is an integer')
  t.equal(field('-9223372036854775808'), -9223372036854775808n, 'as the positive one beside it, though a double could hold it')
  t.equal(field('9223372036854775807'), 9223372036854775807n)
  t.equal(field('9223372036854775808'), 9223372036854775808n)
  t.equal(field('18446744073709551615'), 18446744073709551615n)
  t.equal(field('18446744073709551617'), 2 ** 64, 'beyond 64 bits only a float is left')
  t.equal(field('9007199254740992'), 9007199254740992)
  t.equal(field('-9007199254740993'), -9007199254740993n)
  t.equal(field('9007199254740993.0'), 9007199254740992, 'a point asks for a float')
  t.equal(field('1'), 1)
  t.ok(Object.is(field('-0'), -0))
})

t.test('a field that exists decides how a number is read', async (t) => {
  const resolver = new FakeResolver()
  const fields = resolver.measurement('default', 'm').fields
  fields.set('v', { name: 'v', type: 'int64' })
  t.equal(field('9007199254740993', resolver), 9007199254740993n)
  t.equal(field('1', resolver), 1n)
  t.match(refusal('[{"measurement":"m","fields":{"v":1.5}}]', resolver), { code: 'SCHEMA_ERROR', message: /points\[0\]\.fields\.v: .*int64.*float64/ })
  t.match(refusal('[{"measurement":"m","fields":{"v":9223372036854775808}}]', resolver).message, /out of the range of int64/)
  fields.set('v', { name: 'v', type: 'uint64' })
  t.equal(field('18446744073709551615', resolver), 18446744073709551615n)
  t.match(refusal('[{"measurement":"m","fields":{"v":-1}}]', resolver).message, /out of the range of uint64/)
})

t.test('an integer that no double stands for is not rounded into a float field', async (t) => {
  const resolver = new FakeResolver()
  resolver.measurement('default', 'm').fields.set('v', { name: 'v', type: 'float64' })
  const both = (value: string) => `[{"measurement":"m","fields":{"v":1.5}},{"measurement":"m","fields":{"v":${value}}}]`
  for (const text of ['9007199254740993', '-9007199254740993', '1152921504606846977', '100000000000000000000001']) {
    const message = new RegExp(`fields\\.v: cannot store the integer ${text}.* as a float64: the nearest is .*; write it with a point`)
    t.match(refusal(`[{"measurement":"m","fields":{"v":${text}}}]`, resolver), { code: 'INVALID_POINT', message }, text)
    t.match(refusal(both(text), resolver), { code: 'INVALID_POINT', message: /points\[1\]/ }, 'as a second value of the column, too')
  }
  for (const text of ['9007199254740994', '1152921504606846976', '1e18', '9007199254740993.0', '9007199254740993e0', '-0', '100000000000000000000'])
    t.equal(field(text, resolver), Number(text), text)
  for (const value of [2 ** 60, 1e17 + 16, 123456789012345680000, -(2 ** 63)])
    t.equal(field(JSON.stringify(value), resolver), value, `${JSON.stringify(value)}: a double as JSON.stringify writes it`)
})

t.test('decimals are digits in a string', async (t) => {
  t.same(field('{"decimal":"12.340"}'), { decimal: '12.340' })
  for (const [text, stored] of [
    ['+.5', '0.5'],
    ['.5', '0.5'],
    ['-.50', '-0.50'],
    ['+5.', '5'],
    ['+0', '0'],
  ])
    t.same(field(`{"decimal":"${text}"}`), { decimal: stored }, text)
  t.same(field('{"decimal":"-99999999999999999999999999999999999999"}'), { decimal: '-99999999999999999999999999999999999999' })
  for (const [text, reason] of [
    ['{"decimal":12.34}', /a string of digits, not a number/],
    ['{"decimal":"1e5"}', /"1e5" is not a decimal/],
    ['{"decimal":""}', /is not a decimal/],
    ['{"decimal":"+"}', /is not a decimal/],
    ['{"decimal":"+-1"}', /is not a decimal/],
    ['{"decimal":"+."}', /is not a decimal/],
    ['{"decimal":"100000000000000000000000000000000000000"}', /at most 38 digits/],
    ['{"decimal":"1","x":1}', /expected "}"/],
    ['{"value":"1"}', /an object here is/],
    ['{}', /an object here is/],
  ] as const) {
    t.match(refusal(`[{"measurement":"m","fields":{"v":${text}}}]`).message, reason, text)
  }
})

t.test('the first fault refuses the whole batch and names its place', async (t) => {
  const good = '{"measurement":"m","fields":{"usage":1}}'
  const cases: [body: string, code: string, message: RegExp][] = [
    [`[${good},{"measurement":"m","fields":{"usage":nope}}]`, 'INVALID_POINT', /points\[1\]\.fields\.usage: expected a number, a boolean, a string or/],
    [`[${good},{"measurement":"m","fields":{"usage":"x"}}]`, 'SCHEMA_ERROR', /^points\[1\]\.fields\.usage: cannot write field "usage"/],
    [`[${good},{"measurement":"m","fields":{"usage":null}}]`, 'INVALID_POINT', /points\[1\]\.fields\.usage: expected a number/],
    [`[${good},{"measurement":"m","fields":{"a":1e400}}]`, 'INVALID_POINT', /points\[1\]\.fields\.a: the number is out of the range/],
    [`[${good},{"measurement":"m","fields":{"a":NaN}}]`, 'INVALID_POINT', /points\[1\]\.fields\.a: expected a number/],
    [`[${good},{"measurement":"m","fields":{"a":01}}]`, 'INVALID_POINT', /points\[1\]\.fields\.a: bad number/],
    [`[${good},{"measurement":"m","fields":{"a":1,"a":2}}]`, 'INVALID_POINT', /points\[1\]\.fields\.a: the field occurs twice/],
    [`[${good},{"measurement":"m","fields":{"_time":1}}]`, 'INVALID_POINT', /"_time" is the name of the time column/],
    [`[${good},{"measurement":"m","fields":{}}]`, 'INVALID_POINT', /points\[1\]\.fields: there is no field/],
    [`[${good},{"measurement":"m"}]`, 'INVALID_POINT', /points\[1\]: member "fields" is missing/],
    [`[${good},{"fields":{"a":1}}]`, 'INVALID_POINT', /points\[1\]: member "measurement" is missing/],
    [`[${good},{"measurement":1,"fields":{"a":1}}]`, 'INVALID_POINT', /points\[1\]\.measurement: expected a string/],
    [`[${good},{"measurement":"m","tags":{"a":1},"fields":{"a":1}}]`, 'INVALID_POINT', /points\[1\]\.tags\.a: expected a string/],
    [`[${good},{"measurement":"m","tags":{"a":"1","a":"2"},"fields":{"a":1}}]`, 'INVALID_POINT', /points\[1\]\.tags\.a: the tag occurs twice/],
    [`[${good},{"measurement":"m","tags":[],"fields":{"a":1}}]`, 'INVALID_POINT', /points\[1\]\.tags: expected an object of strings/],
    [`[${good},{"measurement":"m","timestamp":1.5,"fields":{"a":1}}]`, 'INVALID_POINT', /points\[1\]\.timestamp: 1\.5 is not an integer/],
    [`[${good},{"measurement":"m","timestamp":9223372036854775808,"fields":{"a":1}}]`, 'INVALID_POINT', /points\[1\]\.timestamp: the time is outside/],
    [`[${good},{"measurement":"m","time":1,"fields":{"a":1}}]`, 'INVALID_POINT', /points\[1\]: unknown member "time"/],
    [`[${good},{"measurement":"m","measurement":"n","fields":{"a":1}}]`, 'INVALID_POINT', /points\[1\]\.measurement: the member occurs twice/],
    [`[${good},7]`, 'INVALID_POINT', /points\[1\]: expected an object, found "7"/],
    [`[${good},]`, 'INVALID_POINT', /points\[1\]: expected an object, found "\]"/],
    [`[${good}`, 'BAD_REQUEST', /found the end of the body/],
    [`[${good}] x`, 'BAD_REQUEST', /expected the end of the body, found "x"/],
    [good, 'BAD_REQUEST', /^cannot read body: expected "\[", found "\{" at byte 0; points are written as an array, \[\{\.\.\.\}\]$/],
    ['', 'BAD_REQUEST', /found the end of the body/],
  ]
  for (const [body, code, message] of cases) {
    const error = refusal(body)
    t.equal(error.code, code, body)
    t.match(error.message, message, body)
  }
  t.match(refusal(Buffer.from([0x5b, 0xff, 0x5d])).message, /the body is not UTF-8/)
  t.match(refusal('[{"measurement":"m","fields":{"v":"\\ud800"}}]').message, /half a surrogate pair/)
  t.match(refusal(`[${good},${good}]`, new FakeResolver(), { ...OPTIONS, maxPoints: 1 }), { code: 'BAD_REQUEST', message: /max_write_batch_size is 1/ })
  t.match(
    refusal('[{"measurement":"m","fields":{"a":1,"b":2}}]', new FakeResolver(), { ...OPTIONS, maxFields: 1 }).message,
    /more than 1 fields, native\.max_fields_per_point/,
  )
  t.match(refusal(`[{"measurement":"m","tags":${'['.repeat(10_000)}`).message, /nested more than/)
})

t.test('a series that there is no room for costs its points only', async (t) => {
  const resolver = new FakeResolver(1)
  const batch = new WriteBatch(resolver)
  const one = (host: string, fieldsFirst: boolean) => {
    const [tags, fields] = [`"tags":{"h":"${host}"}`, '"fields":{"v":1}']
    return `{"measurement":"m",${fieldsFirst ? `${fields},${tags}` : `${tags},${fields}`}}`
  }
  const body = `[${one('a', true)},${one('b', true)},${one('c', false)},${one('a', false)}]`
  const parsed = atOnce(new PointsParser(resolver, 'default', 1 << 20, 1).parse(Buffer.from(body), batch, OPTIONS))
  t.match(parsed, { points: 4, rejected: 2 })
  t.same(
    parsed.rejections.map(({ code, position }) => [code, position]),
    [
      ['CARDINALITY_EXCEEDED', 1],
      ['CARDINALITY_EXCEEDED', 2],
    ],
  )
  t.same(
    pointsOf(batch, resolver).map(({ position, tags }) => [position, tags.h]),
    [
      [0, 'a'],
      [3, 'a'],
    ],
  )
})

t.test('the same tags of two measurements are two series, and are recognised by their bytes', async (t) => {
  const resolver = new FakeResolver()
  const one = (measurement: string) => `{"measurement":"${measurement}","tags":{"h":"a"},"fields":{"v":1}}`
  const points = parse(`[${[one('a'), one('b'), one('a'), one('b')].join(',')}]`, resolver)
  t.same(
    points.map((p) => p.measurement),
    ['a', 'b', 'a', 'b'],
  )
  t.equal(resolver.calls, 2)
})

t.test('fuzz against JSON.parse', async (t) => {
  const seed = Number(process.env.FUZZ_SEED ?? Date.now() % 1e9)
  t.comment(`seed ${seed}`)
  t.ok(fuzz(seed, (bodies) => bodies < 1500) >= 1500)
})
