import { readdirSync, readFileSync } from 'node:fs'
import { setImmediate } from 'node:timers/promises'
import { WriteBatch } from 'svcdb/lib/columns'
import { atOnce } from 'svcdb/lib/event-loop'
import { collect } from 'svcdb/lib/heap'
import { type DecodedPoint, FakeResolver, pointsOf } from 'svcdb/testkit'
import t from 'tap'
import { DEFAULT_LIMITS, type LineLimits } from './limits.ts'
import type { Precision } from './line-time.ts'
import type { ParseOutcome } from './outcome.ts'
import { fuzz } from './parser.fuzz.ts'
import { LineParser } from './parser.ts'

const NOW = 42n

interface Setup {
  limits?: Partial<LineLimits>
  precision?: Precision
  maxPoints?: number
  maxInternedBytes?: number
  resolver?: FakeResolver
}

function parse(body: string | Uint8Array, setup: Setup = {}): { points: DecodedPoint[]; outcome: ParseOutcome } {
  const resolver = setup.resolver ?? new FakeResolver()
  const parser = new LineParser(resolver, 'default', {
    limits: { ...DEFAULT_LIMITS, ...setup.limits },
    maxInternedBytes: setup.maxInternedBytes ?? 1 << 20,
    maxFailures: 16,
    seed: 1,
  })
  const batch = new WriteBatch(resolver)
  const bytes = typeof body === 'string' ? Buffer.from(body) : body
  const outcome = atOnce(parser.parse(bytes, batch, { precision: setup.precision ?? 'ns', now: NOW, maxPoints: setup.maxPoints ?? 1000 }))
  return { points: pointsOf(batch, resolver), outcome }
}

/** JSON with 64-bit integers as text and the sign of zero kept. */
const plain = (points: DecodedPoint[]) =>
  JSON.parse(JSON.stringify(points, (_key, value) => (typeof value === 'bigint' ? `${value}n` : Object.is(value, -0) ? '-0' : value)))

t.test('golden cases', async (t) => {
  const root = new URL('testcases/', import.meta.url)
  for (const name of readdirSync(root)) {
    const { points, outcome } = parse(readFileSync(new URL(`${name}/input.lp`, root)))
    const expected = JSON.parse(readFileSync(new URL(`${name}/expected.json`, root), 'utf8'))
    t.same({ points: plain(points), failures: outcome.failures.map((f) => `${f.line}: ${f.message}`) }, expected, name)
  }
})

t.test('names are unescaped: pairs of backslashes from the left, then what would end the name', async (t) => {
  const cases: [line: string, measurement: string, tags: Record<string, string>, field: string][] = [
    ['cpu,host=a v=1', 'cpu', { host: 'a' }, 'v'],
    ['c\\,p\\ u,ho\\,s\\=t\\ x=a\\=b\\,c\\ d v\\,\\=\\ w=1', 'c,p u', { 'ho,s=t x': 'a=b,c d' }, 'v,= w'],
    ['a=b v=1', 'a=b', {}, 'v'],
    ['a\\=b v=1', 'a\\=b', {}, 'v'],
    ['cpu,path=C:\\\\dir\\\\ v=1', 'cpu', { path: 'C:\\dir\\' }, 'v'],
    ['cpu,path=C:\\dir v=1', 'cpu', { path: 'C:\\dir' }, 'v'],
    ['cpu,a=x\\\\\\ y v=1', 'cpu', { a: 'x\\ y' }, 'v'],
    ['cpu,a=x\\\\,b=y v=1', 'cpu', { a: 'x\\', b: 'y' }, 'v'],
    ['cpu,a="x\\"" v=1', 'cpu', { a: '"x\\""' }, 'v'],
    ['温度,städt=Köln grad=1', '温度', { städt: 'Köln' }, 'grad'],
  ]
  for (const [line, measurement, tags, field] of cases) {
    const { points, outcome } = parse(line)
    t.same(outcome.failures, [], line)
    t.same([points[0]?.measurement, points[0]?.tags, Object.keys(points[0]?.fields ?? {})], [measurement, tags, [field]], line)
  }
})

t.test('values keep their type and every bit', async (t) => {
  const cases: [text: string, value: DecodedPoint['fields'][string]][] = [
    ['1', 1],
    ['-0', -0],
    ['1.', 1],
    ['.5', 0.5],
    ['-1.5e-3', -0.0015],
    ['0.1', 0.1],
    ['9007199254740993', 9007199254740992],
    ['9007199254740993.0000000000000000000001', 9007199254740994],
    ['2.2264619359999998', 2.2264619359999998],
    ['5e-324', 5e-324],
    ['1e-400', 0],
    ['1.7976931348623157e308', Number.MAX_VALUE],
    ['9223372036854775807i', 9223372036854775807n],
    ['-9223372036854775808i', -9223372036854775808n],
    ['9007199254740993i', 9007199254740993n],
    ['-4294967296i', -4294967296n],
    ['18446744073709551615u', 18446744073709551615n],
    ['0u', 0n],
    ['12.340d', { decimal: '12.340' }],
    ['-99999999999999999999999999999999999999d', { decimal: '-99999999999999999999999999999999999999' }],
    ['0.00000000000000000000000000000000000001d', { decimal: '0.00000000000000000000000000000000000001' }],
    ['+.5d', { decimal: '0.5' }],
    ['+12.d', { decimal: '12' }],
    ['-.50d', { decimal: '-0.50' }],
    ['t', true],
    ['TRUE', true],
    ['False', false],
    ['"a \\"b\\" \\\\ \\n, c=d"', 'a "b" \\ \\n, c=d'],
    ['""', ''],
    ['"line\nbreak"', 'line\nbreak'],
  ]
  for (const [text, value] of cases) {
    const { points, outcome } = parse(`m v=${text} 7`)
    t.same(outcome.failures, [], text)
    t.ok(Object.is(points[0].fields.v, value) || (typeof value === 'object' && t.same(points[0].fields.v, value)), text)
    t.equal(points[0].time, 7n, text)
  }
})

t.test('a bad line says why and leaves the others', async (t) => {
  const cases: [line: string, reason: string][] = [
    ['cpu value=', 'missing field value'],
    ['cpu value', 'invalid field format'],
    ['cpu', 'missing fields'],
    ['cpu ', 'missing fields'],
    [',a=b v=1', 'missing measurement'],
    ['cpu, v=1', 'missing tag key'],
    ['cpu,a v=1', 'missing tag value'],
    ['cpu,a= v=1', 'missing tag value'],
    ['cpu,a=b=c v=1', 'invalid tag format'],
    ['cpu,a=1,b=2,a=3 v=1', 'duplicate tags: "a"'],
    ['cpu,_time=1 v=1', 'tag key "_time" is the name of the time column'],
    ['cpu _time=1', 'field key "_time" is the name of the time column'],
    ['cpu =1', 'missing field key'],
    ['cpu v=1,', 'invalid field format'],
    ['cpu v=1x', 'invalid number'],
    ['cpu v=1e', 'invalid number'],
    ['cpu v=-', 'invalid number'],
    ['cpu v=+1', 'invalid number'],
    ['cpu v=+d', 'invalid number'],
    ['cpu v=+1.2.3d', 'invalid number'],
    ['cpu v=+-1d', 'invalid number'],
    ['cpu v=++1d', 'invalid number'],
    ['cpu v=+1dx', 'invalid number'],
    ['cpu v=0x10', 'invalid number'],
    ['cpu v=1_000', 'invalid number'],
    ['cpu v=1e999', 'invalid number: out of the range of a 64-bit float'],
    ['cpu v=NaN', 'invalid number: NaN and infinities are not stored'],
    ['cpu v=-Inf', 'invalid number'],
    ['cpu v=9223372036854775808i', 'invalid number: out of the range of int64'],
    ['cpu v=-9223372036854775809i', 'invalid number: out of the range of int64'],
    ['cpu v=18446744073709551616u', 'invalid number: out of the range of uint64'],
    ['cpu v=-1u', 'invalid number: an unsigned integer has no sign'],
    ['cpu v=1.5i', 'invalid number'],
    ['cpu v=100000000000000000000000000000000000000d', 'invalid number: a decimal has at most 38 digits'],
    ['cpu v=tRUE', 'invalid boolean'],
    ['cpu v="abc', 'unbalanced quotes'],
    ['cpu v="abc"d', 'invalid field format'],
    ['cpu v=1 abc', 'bad timestamp'],
    ['cpu v=1 1.5', 'bad timestamp'],
    ['cpu v=1 1 2', 'bad timestamp'],
    ['cpu v=1 9223372036854775808', 'bad timestamp: outside the range of 64-bit nanoseconds'],
    ['cpu,a=x\u0000 v=1', 'tag value holds a reserved control character'],
    ['c\u0001pu v=1', 'measurement holds a reserved control character'],
  ]
  for (const [line, reason] of cases) {
    const { points, outcome } = parse(`ok v=1 1\n${line}\nok v=2 2`)
    t.same(outcome.failures, [{ line: 2, code: 'INVALID_POINT', message: `unable to parse '${line}': ${reason}` }], line)
    t.same(
      points.map((p) => p.fields),
      [{ v: 1 }, { v: 2 }],
      line,
    )
  }
})

t.test('text that is not UTF-8 is refused', async (t) => {
  for (const head of ['m', 'm,a=', 'm v="', 'm ']) {
    const { points, outcome } = parse(
      Buffer.concat([Buffer.from(head), Buffer.from([0xff]), Buffer.from(head.endsWith('"') ? '" 1' : head.endsWith(' ') ? '=1' : ' v=1')]),
    )
    t.same(points, [], head)
    t.match(outcome.failures[0].message, /invalid UTF-8/, head)
  }
})

t.test('times in every precision, exact and refused beyond 64 bits', async (t) => {
  const cases: [Precision, text: string, expected: bigint | undefined][] = [
    ['ns', '9223372036854775807', 9223372036854775807n],
    ['ns', '-9223372036854775808', -9223372036854775808n],
    ['ns', '-9223372036854775809', undefined],
    ['ns', '0000000000000000000000000000000017', 17n],
    ['us', '9223372036854775', 9223372036854775000n],
    ['us', '9223372036854776', undefined],
    ['ms', '1700000000123', 1700000000123000000n],
    ['ms', '-1', -1000000n],
    ['ms', '9223372036855', undefined],
    ['s', '9223372036', 9223372036000000000n],
    ['s', '9223372037', undefined],
    ['m', '28333333', 1699999980000000000n],
    ['h', '472222', 1699999200000000000n],
    ['h', '2562048', undefined],
    ['s', '', NOW],
    ['auto', '4999999999', 4999999999000000000n],
    ['auto', '-1700000000', -1700000000000000000n],
    ['auto', '5000000000', 5000000000000000n],
    ['auto', '4999999999999', 4999999999999000000n],
    ['auto', '5000000000000', 5000000000000000n],
    ['auto', '4999999999999999', 4999999999999999000n],
    ['auto', '5000000000000000', 5000000000000000n],
    ['auto', '00001700000000123', 1700000000123000000n],
    ['auto', '-9223372036854775808', -9223372036854775808n],
    ['auto', '9223372036854775808', undefined],
    ['auto', '0', 0n],
  ]
  for (const [precision, text, expected] of cases) {
    const { points } = parse(`m v=1 ${text}`, { precision })
    t.equal(points[0]?.time, expected, `${text} ${precision}`)
  }
})

t.test('comments, blank lines, carriage returns and spaces', async (t) => {
  const { points, outcome } = parse('# note\n\n  \n\r\n cpu v=1 1\r\ncpu   v=2   2  \r\n\tcpu v=3\t\n#end')
  t.same(
    points.map((p) => p.position),
    [5, 6],
  )
  t.same(
    outcome.failures.map((f) => f.line),
    [7],
  )
  t.equal(outcome.rows, 2)
})

t.test('a newline in a string does not begin a point, in good lines nor in bad ones', async (t) => {
  const { points, outcome } = parse('m v="a\ninjected v=1\nb" 1\nm x=,v="a\ninjected v=1\nb" 2\nm v="c" 3\nm v="open\nm v="d" 4')
  t.same(
    points.map((p) => [p.position, p.measurement, p.fields.v]),
    [
      [1, 'm', 'a\ninjected v=1\nb'],
      [7, 'm', 'c'],
    ],
  )
  t.same(
    outcome.failures.map((f) => f.line),
    [4, 8],
  )
})

t.test('the lines of a string count once, whether the point is taken or refused behind it', async (t) => {
  const { points, outcome } = parse('m s="a\nb" 1\nm s="a\nb" soon\nm v=1 2\nm s="a\nb",x\nm v=oops 3\nm v=4 4')
  t.same(
    points.map((p) => p.position),
    [1, 5, 9],
  )
  t.same(
    outcome.failures.map((f) => f.line),
    [3, 6, 8],
  )
})

t.test('a quote that is never closed takes only its own line', async (t) => {
  const { points, outcome } = parse('m v="open 1\nm v=2 2')
  t.same(
    points.map((p) => p.fields),
    [{ v: 2 }],
  )
  t.same(
    outcome.failures.map((f) => [f.line, f.message]),
    [[1, "unable to parse 'm v=\"open 1': unbalanced quotes"]],
  )
})

t.test('a field of another type is a schema error, also within one body', async (t) => {
  const { points, outcome } = parse('m v=1 1\nm v=1i 2\nm v=2 3')
  t.same(
    points.map((p) => p.fields.v),
    [1, 2],
  )
  t.equal(outcome.failures[0].code, 'SCHEMA_ERROR')
  t.match(outcome.failures[0].message, /field "v" of measurement "m".*float64.*int64/)
})

t.test('a line that was taken back does not decide the type of a field', async (t) => {
  const { points, outcome } = parse('m v=1i,w=x 1\nm v=1 2\nm u=1 3\nm u=2,late=t,w=x 4\nm late=5 5')
  t.same(
    points.map((p) => p.fields),
    [{ v: 1 }, { u: 1 }, { late: 5 }],
  )
  t.equal(outcome.rejected, 2)
})

t.test('nor does it for a name that is written in two ways', async (t) => {
  const { points, outcome } = parse('m a\\b=1i,x\nm a\\\\b=2.5 1\nm a\\b=3i 2')
  t.same(
    points.map((p) => p.fields),
    [{ 'a\\b': 2.5 }],
  )
  t.same(
    outcome.failures.map((f) => [f.line, f.code]),
    [
      [1, 'INVALID_POINT'],
      [3, 'SCHEMA_ERROR'],
    ],
  )
})

t.test('fields may come in any order, be left out, and come twice', async (t) => {
  const { points } = parse('m a=1,b=2,c=3 1\nm a=1,c=3 2\nm c=1,a=2,d=9 3\nm b=5 4\nm a=1,b=2,c=3 5\nm a=1,a=2 6')
  t.same(
    points.map((p) => p.fields),
    [{ a: 1, b: 2, c: 3 }, { a: 1, c: 3 }, { a: 2, c: 1, d: 9 }, { b: 5 }, { a: 1, b: 2, c: 3 }, { a: 2 }],
  )
})

t.test('a known series is not taken apart again, until the resolver says that numbers became invalid', async (t) => {
  const resolver = new FakeResolver()
  const parser = new LineParser(resolver, 'default', { limits: DEFAULT_LIMITS, maxInternedBytes: 1 << 20, maxFailures: 1, seed: 1 })
  const batch = new WriteBatch(resolver)
  const body = Buffer.from('m,a=1 v=1\nm,a=2 v=1\nm,a=2 v=2\nm,a=1 v=2\n')
  const run = () => atOnce(parser.parse(body, batch, { precision: 'ns', now: NOW, maxPoints: 10 }))
  run()
  run()
  t.equal(resolver.calls, 2)
  resolver.epoch++
  run()
  t.equal(resolver.calls, 4)
  t.equal(batch.rows, 12)
})

t.test('also where they become so between two turns of one body', async (t) => {
  const resolver = new FakeResolver()
  const parser = new LineParser(resolver, 'default', { limits: DEFAULT_LIMITS, maxInternedBytes: 1 << 20, maxFailures: 1, seed: 1 })
  const batch = new WriteBatch(resolver)
  const work = parser.parse(Buffer.from('m,a=1 v=1\n'.repeat(200)), batch, { precision: 'ns', now: NOW, maxPoints: 1000 })
  t.notOk(work.next().done)
  t.equal(resolver.calls, 1)
  resolver.epoch++
  while (work.next().done !== true);
  t.equal(resolver.calls, 2)
  t.equal(batch.rows, 200)
})

t.test('a full table of keys is emptied and numbers stay right', async (t) => {
  const lines = Array.from({ length: 300 }, (_, i) => `m,host=h${i % 60} v=${i % 60} ${i}`).join('\n')
  const { points } = parse(lines, { maxInternedBytes: 100 })
  t.equal(points.length, 300)
  t.ok(points.every((p) => p.tags.host === `h${p.fields.v}`))
})

t.test('limits', async (t) => {
  const limited = (line: string, limits: Partial<LineLimits>) => parse(line, { limits }).outcome.failures[0]?.message
  t.match(limited('abcd v=1', { maxNameBytes: 3 }), /measurement is longer than 3 bytes/)
  t.match(limited('m v=1,abcd=2', { maxNameBytes: 3 }), /field key is longer than 3 bytes/)
  t.match(limited('m,a=bcd v=1', { maxTagValueBytes: 2 }), /tag value is longer than 2 bytes/)
  t.match(limited('m,a=1,b=2 v=1', { maxTags: 1 }), /more than 1 tags/)
  t.match(limited('m a=1,b=2 1', { maxFields: 1 }), /more than 1 fields, line_protocol\.max_fields_per_point/)
  t.match(limited('m a="abc"', { maxStringBytes: 2 }), /string is longer than 2 bytes/)
  t.equal(parse('m v=1\nm v=2\nm v=3', { maxPoints: 2 }).outcome.tooMany, true)
  t.equal(parse('m v=1\nm v=2\n# end', { maxPoints: 2 }).outcome.tooMany, false)
})

t.test('a spent series budget refuses the line with its own code', async (t) => {
  const { outcome } = parse('m,a=1 v=1\nm,a=2 v=1\nm,a=1 v=2', { resolver: new FakeResolver(1) })
  t.equal(outcome.rows, 2)
  t.same(
    outcome.failures.map((f) => [f.line, f.code]),
    [[2, 'CARDINALITY_EXCEEDED']],
  )
})

t.test('fuzz against the reference', async (t) => {
  const seed = Number(process.env.FUZZ_SEED ?? Date.now() % 1e9)
  t.comment(`seed ${seed}`)
  t.ok(fuzz(seed, (bodies) => bodies < 1500) >= 1500)
})

t.test('a small body cannot reserve much memory by naming ever new fields', async (t) => {
  const many = 'm a=1\n'.repeat(40_000)
  const wide = Array.from({ length: 1000 }, (_, i) => `f${i}=1`).join(',')
  const before = process.memoryUsage().arrayBuffers
  const { outcome } = parse(`${many}m ${wide}\nm a=2`, { maxPoints: 50_000 })
  t.equal(outcome.rows, 40_001)
  t.match(outcome.failures, [{ line: 40_001, code: 'INVALID_POINT', message: /cannot hold \d+ fields of measurement "m"/ }])
  t.ok(process.memoryUsage().arrayBuffers - before < 400e6)
})

t.test('a parser does not keep all fields that it has met, and knows those of the next line all the same', async (t) => {
  const resolver = new FakeResolver()
  const parser = new LineParser(resolver, 'default', { limits: DEFAULT_LIMITS, maxInternedBytes: 1 << 20, maxFailures: 16, seed: 1 })
  const batch = new WriteBatch(resolver)
  const [writes, measurements, fields] = [40, 10, 900]
  const write = (n: number): void => {
    const lines = Array.from({ length: measurements }, (_, m) => {
      const of = (value: number): string => Array.from({ length: fields }, (_, f) => `f${f}=${value}`).join(',')
      return `m${n}_${m} ${of(1)}\nm${n}_${m} ${of(2)}`
    })
    const outcome = atOnce(parser.parse(Buffer.from(lines.join('\n')), batch, { precision: 'ns', now: NOW, maxPoints: 1e6 }))
    t.equal(outcome.rows, 2 * measurements)
    t.equal(
      batch.tables.filter(({ rows, columns }) => rows === 2 && columns.length === fields && columns.every(({ f64 }) => f64[0] === 1 && f64[1] === 2)).length,
      measurements,
    )
    batch.reset()
  }
  write(0)
  collect()
  const before = process.memoryUsage().heapUsed
  for (let n = 1; n <= writes; n++) write(n)
  collect()
  const bytes = process.memoryUsage().heapUsed - before
  t.ok(bytes < 40e6, `${bytes} bytes for ${writes * measurements * fields} fields`)
})

t.test('a parser keeps neither the body nor the batch of a write', async (t) => {
  const resolver = new FakeResolver()
  const parser = new LineParser(resolver, 'default', { limits: DEFAULT_LIMITS, maxInternedBytes: 1 << 20, maxFailures: 16, seed: 1 })
  const write = (): WeakRef<object>[] => {
    const body = new TextEncoder().encode('m v=1 1\n')
    const batch = new WriteBatch(resolver)
    t.equal(atOnce(parser.parse(body, batch, { precision: 'ns', now: NOW, maxPoints: 10 })).rows, 1)
    return [body.buffer, batch].map((held) => new WeakRef(held))
  }
  const held = write()
  await setImmediate()
  collect()
  t.same(
    held.map((ref) => ref.deref() !== undefined),
    [false, false],
  )
  write()
})

t.test('rows that set few of very many fields lie in several tables', async (t) => {
  const resolver = new FakeResolver()
  const count = 3000
  const lines = Array.from({ length: count }, (_, i) => `m,host=h${i % 3} f${(i * 7) % 500}=${i},common=${i} ${i}\nother v=${i} ${i}`)
  const parser = new LineParser(resolver, 'default', { limits: DEFAULT_LIMITS, maxInternedBytes: 1 << 20, maxFailures: 16, seed: 1 })
  const batch = new WriteBatch(resolver)
  const outcome = atOnce(parser.parse(Buffer.from(lines.join('\n')), batch, { precision: 'ns', now: NOW, maxPoints: 1e6 }))
  t.same([outcome.rows, outcome.rejected], [2 * count, 0])
  const of = (name: string) => batch.tables.filter(({ measurement }) => measurement?.name === name)
  t.ok(of('m').length > 5, `${of('m').length} tables`)
  t.equal(of('other').length, 1)
  let n = 0
  for (const { rows, columns, position } of of('m')) {
    for (let row = 0; row < rows; row++, n++) {
      const set = columns.filter((column) => column.has(row)).map((column) => [column.name, column.f64[row]])
      const wanted = [
        [`f${(n * 7) % 500}`, n],
        ['common', n],
      ]
      if (position[row] !== 1 + 2 * n || JSON.stringify(set.sort()) !== JSON.stringify(wanted.sort())) return t.fail(`row ${n}: ${JSON.stringify(set)}`)
    }
  }
  t.equal(n, count)
})

t.test('a field that changes its type just before the table is divided goes to rows of the new table', async (t) => {
  const sparse = Array.from({ length: 255 }, (_, i) => `m,h=${i} f${i % 20}=1 ${i}`)
  // The field of the line that is taken back is replaced; with it the table is full, and mostly gaps.
  const changed = ['m,h=bad x=1,y=zz 1', 'm,h=last x=1i 255']
  const after = Array.from({ length: 10 }, (_, k) => `m,h=n${k} x=${100 + k}i,f0=1 ${256 + k}`)
  const { points } = parse([...sparse, ...changed, ...after].join('\n'))
  t.equal(points.length, 266)
  t.same(
    points.filter(({ fields }) => 'x' in fields).map(({ tags, fields }) => [tags.h, fields]),
    [['last', { x: 1n }], ...after.map((_, k) => [`n${k}`, { x: BigInt(100 + k), f0: 1 }])],
  )
})
