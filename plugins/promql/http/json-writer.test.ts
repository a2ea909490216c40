import t from 'tap'
import { floatText, JsonWriter } from './json-writer.ts'

function written(write: (writer: JsonWriter) => void): string {
  const writer = new JsonWriter()
  write(writer)
  return Buffer.from(writer.take()).toString()
}

t.test('floats in the form of the Prometheus API', async (t) => {
  for (const [value, text] of [
    [0, '0'],
    [-0, '-0'],
    [1, '1'],
    [-42, '-42'],
    [0.1, '0.1'],
    [-1.05, '-1.05'],
    [0.001, '0.001'],
    [99999999999.5, '99999999999.5'],
    [12345678901.125, '12345678901.125'],
    [0.0001, '0.0001'],
    [-0.31666666666666665, '-0.31666666666666665'],
    [1e-6, '0.000001'],
    [9.99e-7, '9.99e-07'],
    [5e-324, '5e-324'],
    [1e-10, '1e-10'],
    [999_999_999, '999999999'],
    [1e9, '1000000000'],
    [1_000_000_001, '1000000001'],
    [1e15, '1000000000000000'],
    [2 ** 53, '9007199254740992'],
    [123456789012345680000, '123456789012345680000'],
    [1e21, '1e+21'],
    [1.5e300, '1.5e+300'],
    [Number.NaN, 'NaN'],
    [Number.POSITIVE_INFINITY, '+Inf'],
    [Number.NEGATIVE_INFINITY, '-Inf'],
  ] as const) {
    t.equal(floatText(value), text)
    t.equal(
      written((writer) => writer.point(0, value)),
      `[0,"${text}"]`,
    )
  }
})

t.test('numbers of all sizes read back as themselves', async (t) => {
  let seed = 7
  const random = (): number => (seed = (seed * 48271) % 2147483647) / 2147483647
  const values: number[] = []
  for (let i = 0; i < 3000; i++)
    values.push(
      Math.round(random() * 1e9) / 10 ** Math.floor(random() * 9),
      (random() - 0.5) * 10 ** Math.floor(random() * 40 - 15),
      Math.round(random() * 10 ** Math.floor(random() * 16)),
    )
  const points = JSON.parse(`[${values.map((value, i) => written((writer) => writer.point(i, value))).join(',')}]`) as [number, string][]
  t.same(
    points.map(([, text]) => Number(text)),
    values,
  )
  for (const [i, value] of values.entries()) if (points[i][1] !== floatText(value)) t.fail(`${points[i][1]} is not the shortest form of ${value}`)
})

t.test('times have as many decimals as they need', async (t) => {
  for (const [ms, text] of [
    [0, '0'],
    [1435781451781, '1435781451.781'],
    [1435781451000, '1435781451'],
    [1435781451010, '1435781451.010'],
    [7, '0.007'],
    [-1500, '-1.500'],
    [-60_000, '-60'],
    [9_007_199_254_740_991, '9007199254740.991'],
  ] as const)
    t.equal(
      written((writer) => writer.point(ms, 1)),
      `[${text},"1"]`,
    )
})

t.test('strings are JSON whatever they hold', async (t) => {
  for (const text of ['', 'plain', 'a"b\\c', 'tab\tnew\nline', 'größe ☃ 💧', '\u007f\u0000', 'x'.repeat(40_000), '💧'.repeat(20_000)])
    t.equal(JSON.parse(written((writer) => writer.string(text))), text)
})

t.test('what was taken is counted, and nothing of it is written over', async (t) => {
  const writer = new JsonWriter()
  writer.raw('first')
  const first = writer.take()
  writer.raw('second one')
  t.equal(Buffer.from(first).toString(), 'first')
  t.equal(first.buffer.byteLength, 5, 'a buffer of its own, which can change threads')
  t.equal(writer.length, 10)
  t.equal(writer.total, 15)
})

t.test('times in seconds, in any order', async (t) => {
  const seed = Math.floor(Math.random() * 2 ** 31)
  t.comment(`seed ${seed}`)
  let state = seed
  const random = (below: number) => (state = (Math.imul(state, 1103515245) + 12345) >>> 0) % below
  const times = [0, 1, -1, 999, 1000, 9_999_999, 10_000_000, 10_000_001, 99_999_999_999, -1_700_000_000_123, 253_402_300_799_999]
  for (let i = 0, time = 1_699_999_990_000; i < 2000; i++) times.push((time += random(4) === 0 ? random(30_000_000) : random(3) * 5000))
  const text = written((writer) => {
    for (const time of times) {
      writer.room(40)
      writer.time(time)
      writer.raw('\n')
    }
  })
  t.same(
    text.trimEnd().split('\n'),
    times.map((time) => (time % 1000 === 0 ? String(time / 1000) : (time / 1000).toFixed(3))),
  )
})

t.test('a buffer that was left is not written to by two', async (t) => {
  const first = new JsonWriter()
  first.raw('first')
  const taken = first.take()
  first.close()
  const [second, third] = [new JsonWriter(), new JsonWriter()]
  second.raw('second')
  third.raw('third')
  const text = (bytes: Uint8Array) => Buffer.from(bytes).toString()
  t.same([text(taken), text(second.take()), text(third.take())], ['first', 'second', 'third'])
})
