import t from 'tap'
import type { SqlChunk, SqlColumn } from './chunk.ts'
import { JsonRowEncoder, jsonEncoderOf } from './json.ts'
import { JsonRowBytes } from './json-row-bytes.ts'

t.test('values by type', (t) => {
  for (const [type, value, json] of [
    ['Int64', 9_223_372_036_854_775_807n, '9223372036854775807'],
    ['Int64', -9_007_199_254_740_993n, '-9007199254740993'],
    ['UInt64', 18_446_744_073_709_551_615n, '18446744073709551615'],
    ['Int8', -1, '-1'],
    ['Float64', 0.1, '0.1'],
    ['Float64', 1e21, '1e+21'],
    ['Float64', -0, '-0.0'],
    ['Float64', Number.NaN, 'null'],
    ['Float64', Number.NEGATIVE_INFINITY, 'null'],
    ['Float32', Math.fround(0.1), '0.1'],
    ['Float32', Math.fround(16_777_217), '16777216'],
    ['Boolean', 1, 'true'],
    ['Boolean', false, 'false'],
    ['Utf8', 'a"\n\u2028é', JSON.stringify('a"\n\u2028é')],
    ['decimal(38, 4)', 12_345n, '"1.2345"'],
    ['decimal(38, 4)', -5n, '"-0.0005"'],
    ['decimal(38, 0)', 170_141_183_460_469_231_731n, '"170141183460469231731"'],
    ['Timestamp(ns)', 1_704_067_200_123_456_789n, '1704067200123456789'],
    ['Timestamp(us, UTC)', -1n, '-1'],
    ['Date32', 19_723, '19723'],
    ['Time64(us)', 5n, '5'],
    ['Interval', { months: 1, days: -2, nanoseconds: 3_000n }, '{"months":1,"days":-2,"nanoseconds":3000}'],
    ['Binary', Uint8Array.from([1, 2, 255]), '"AQL/"'],
    ['List(Int64)', [1n, null, 3n], '[1,null,3]'],
    ['List(List(Float64))', [[1.5, Number.NaN], []], '[[1.5,null],[]]'],
    ['Struct("a": Int32, "b, \\"c\\"": List(decimal(5, 2)))', { a: 1, 'b, "c"': [123n] }, '{"a":1,"b, \\"c\\"":["1.23"]}'],
    ['Map(Utf8, Int64)', [{ key: 'k', value: null }], '[{"key":"k","value":null}]'],
    ['Null', 0, 'null'],
  ] as const) {
    t.equal(jsonEncoderOf(type)(value), json, type)
    t.equal(bytesOf([{ name: 'c', type }], { rows: 2, columns: [{ values: [value, null] }] }), `[${json}],[null]`, `${type} as bytes`)
  }
  for (const bad of ['', 'Int65', 'List(Int64', 'decimal(x)', 'Struct(a: Int64)', 'Int64)'])
    t.throws(() => jsonEncoderOf(bad), /not the name of a result type/, bad)
  t.end()
})

t.test('columns are written as their values one by one', (t) => {
  const seed = Number(process.env.SVC_SEED ?? Date.now() % 1e9)
  const random = randomOf(seed)
  const below = (n: number): number => Math.floor(random() * n)
  const integers = Array.from({ length: 3000 }, (_, i) => {
    const near = [
      0n,
      2n ** 31n,
      2n ** 32n,
      2n ** 53n,
      2n ** 63n - 1n,
      -(2n ** 31n),
      -(2n ** 63n),
      1_000_000_000n * BigInt(below(2 ** 33)),
      1_700_000_000_000_000_000n,
    ]
    return BigInt.asIntN(64, near[i % near.length] + BigInt(below(5) - 2) * 10n ** BigInt(below(12)))
  })
  const doubles = integers.map(
    (_, i) => [random() * 10 ** (below(40) - 20), below(1e6) / 10 ** below(5), -below(1000) / 100, below(3) - 1, Number.NaN, -0, 5e-324][i % 7],
  )
  const letters = [
    'a',
    'Z',
    ' ',
    '!',
    '"',
    '#',
    '[',
    '\\',
    ']',
    '/',
    '\0',
    '\n',
    '\u001f',
    '\u007f',
    'é',
    '\u2028',
    '\ud7ff',
    '\ud800',
    '\udfff',
    '\ue000',
    '\uffff',
    '😀',
  ]
  const plain = Array.from({ length: 500 }, () => Array.from({ length: below(5) }, () => letters[below(letters.length)]).join(''))
  const texts = [...integers.map((_, i) => (i % 50 === 0 ? null : `a"${below(3000)}é`.repeat(i % 70 === 0 ? 30 : 1))), ...plain]
  for (const [type, values] of [
    ['Timestamp(ns)', BigInt64Array.from(integers)],
    ['Float64', Float64Array.from(doubles)],
    ['Utf8', texts],
  ] as const) {
    const one = jsonEncoderOf(type)
    const wanted = Array.from(values as ArrayLike<unknown>, (value) => `[${value === null ? 'null' : one(value)}]`).join(',')
    const found = new JsonRowEncoder([{ name: 'c', type }]).rows({ rows: values.length, columns: [{ values }] }, 0, values.length)
    t.equal(found, wanted, `${type}, SVC_SEED=${seed}`)
    t.equal(bytesOf([{ name: 'c', type }], { rows: values.length, columns: [{ values }] }), wanted, `${type} as bytes, SVC_SEED=${seed}`)
  }
  const parts = texts.map((text) => Buffer.from(text ?? ''))
  const ends = new Int32Array(texts.length + 1)
  for (const [i, part] of parts.entries()) ends[i + 1] = ends[i] + part.length
  const validity = Uint8Array.from(texts, (text) => (text === null ? 0 : 1))
  // A surrogate that stands alone has no bytes.
  const whole = texts.map((text) => (text === null ? null : Buffer.from(text).toString()))
  const dictionary = [...new Set(texts)].filter((text) => text !== null)
  for (const [name, vector, expected] of [
    ['bytes', { values: ends, bytes: Buffer.concat(parts), validity }, whole],
    ['a dictionary', { values: Int32Array.from(texts, (text) => (text === null ? 7e6 : dictionary.indexOf(text))), dictionary, validity }, texts],
  ] as const) {
    const wanted = expected.map((text) => `[${JSON.stringify(text)}]`).join(',')
    t.equal(bytesOf([{ name: 'c', type: 'Utf8' }], { rows: texts.length, columns: [vector] }), wanted, `text by ${name}, SVC_SEED=${seed}`)
  }
  const finite = doubles.filter((value) => Number.isFinite(value))
  const read = JSON.parse(
    `[${new JsonRowEncoder([{ name: 'c', type: 'Float64' }]).rows({ rows: finite.length, columns: [{ values: Float64Array.from(finite) }] }, 0, finite.length)}]`,
  )
  t.ok(
    finite.every((value, i) => Object.is(read[i][0], value)),
    `the numbers read back are those written, SVC_SEED=${seed}`,
  )
  t.end()
})

function bytesOf(columns: readonly SqlColumn[], chunk: SqlChunk, from = 0, to = chunk.rows): string {
  const out = new JsonRowBytes(columns)
  out.rows(chunk, from, to)
  const bytes = out.take()
  out.close()
  return Buffer.from(bytes).toString()
}

function randomOf(seed: number): () => number {
  let state = seed
  return () => {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4294967296
  }
}

t.test('rows, with missing values by validity or as null', (t) => {
  const columns: SqlColumn[] = [
    { name: 'a', type: 'Int64' },
    { name: 'b', type: 'Utf8' },
  ]
  const chunk: SqlChunk = {
    rows: 3,
    columns: [{ values: BigInt64Array.from([1n, 2n, 3n]), validity: Uint8Array.from([1, 0, 1]) }, { values: ['x', null, 'z'] }],
  }
  const encoder = new JsonRowEncoder(columns)
  t.equal(encoder.rows(chunk, 0, 3), '[1,"x"],[null,null],[3,"z"]')
  t.equal(encoder.rows(chunk, 2, 3), '[3,"z"]')
  t.equal(bytesOf(columns, chunk), '[1,"x"],[null,null],[3,"z"]')
  t.equal(bytesOf(columns, chunk, 2, 3), '[3,"z"]')
  t.end()
})
