import {
  Bool,
  type Data,
  DateDay,
  Decimal,
  Dictionary,
  Field,
  Float16,
  Float32,
  Float64,
  Int8,
  Int16,
  Int32,
  Int64,
  LargeUtf8,
  makeData,
  Null,
  RecordBatch,
  Schema,
  Struct,
  Table,
  type Timestamp,
  TimestampMicrosecond,
  TimestampNanosecond,
  TimestampSecond,
  tableFromIPC,
  tableToIPC,
  Uint16,
  Uint64,
  Utf8,
  Vector,
  vectorFromArray,
} from 'apache-arrow'
import { WriteBatch } from 'svcdb/lib/columns'
import { atOnce } from 'svcdb/lib/event-loop'
import { seeded } from 'svcdb/lib/random'
import { type DecodedPoint, FakeResolver, pointsOf } from 'svcdb/testkit'
import t from 'tap'
import { PutWriter } from './put-writer.ts'

const NOW = 1_700_000_000_000_000_000n

interface Column {
  name: string
  vector: Vector
  role?: string
}

/** As it comes over the wire: one record batch, read back from its bytes. */
function batchOf(columns: Column[]): { schema: Schema; batch: RecordBatch } {
  const fields = columns.map(({ name, vector, role }) => new Field(name, vector.type, true, role === undefined ? undefined : new Map([['role', role]])))
  const table = new Table(new Schema(fields), Object.fromEntries(columns.map(({ name, vector }) => [name, vector])))
  const read = tableFromIPC(tableToIPC(table, 'stream'))
  return { schema: read.schema, batch: read.batches[0] }
}

function putting(resolver = new FakeResolver(), maxFields = 10, maxTextBytes = 1e6) {
  return (columns: Column[], measurement = 'm', firstRow = 0) => {
    const { schema, batch } = batchOf(columns)
    const writer = new PutWriter({ resolver, namespace: '', measurement, schema, maxFields, maxTextBytes, seed: 7 })
    const write = new WriteBatch(resolver)
    const { refusals, nonFinite } = atOnce(writer.append(batch, write, firstRow, NOW))
    return { points: pointsOf(write, resolver), refusals, nonFinite }
  }
}

const text = (values: (string | null)[]) => vectorFromArray(values, new Utf8())
const dictionary = (values: (string | null)[], key: Int8 | Int32 | Uint16 = new Int32()) => vectorFromArray(values, new Dictionary(new Utf8(), key))
/** Times as they lie in memory; the library's builders take milliseconds. */
const times = (values: (bigint | null)[], type: Timestamp = new TimestampNanosecond()) => {
  const nullBitmap = new Uint8Array(Math.ceil(values.length / 8))
  for (const [i, value] of values.entries()) if (value !== null) nullBitmap[i >> 3] |= 1 << (i & 7)
  const nullCount = values.filter((value) => value === null).length
  return new Vector([
    makeData({ type, length: values.length, nullCount, ...(nullCount > 0 && { nullBitmap }), data: BigInt64Array.from(values, (value) => value ?? 0n) }),
  ])
}
const decimals = (values: bigint[], precision: number, scale: number) => {
  const parts = new Uint32Array(values.length * 4)
  for (const [i, value] of values.entries()) for (let part = 0; part < 4; part++) parts[i * 4 + part] = Number(BigInt.asUintN(32, value >> BigInt(32 * part)))
  return new Vector([makeData({ type: new Decimal(scale, precision, 128), length: values.length, data: parts })])
}

t.test('every type of column, tags as text and as dictionaries', async (t) => {
  const put = putting()
  const { points, refusals } = put([
    { name: '_time', vector: times([1n, 2n, -3n]) },
    { name: 'host', vector: text(['a', 'b', 'a']) },
    { name: 'region', vector: dictionary(['eu', 'us', 'eu']) },
    { name: 'zone', vector: vectorFromArray(['é', '', null], new LargeUtf8()) },
    { name: 'f64', vector: vectorFromArray([1.5, -0, 1e300], new Float64()) },
    { name: 'f32', vector: vectorFromArray([0.5, 2, 3], new Float32()) },
    { name: 'i64', vector: vectorFromArray([-1n, 2n ** 62n, 0n], new Int64()) },
    { name: 'i16', vector: vectorFromArray([-7, 7, 0], new Int16()) },
    { name: 'u64', vector: vectorFromArray([2n ** 64n - 1n, 0n, 1n], new Uint64()) },
    { name: 'u16', vector: vectorFromArray([65535, 0, 1], new Uint16()) },
    { name: 'ok', vector: vectorFromArray([true, false, true], new Bool()) },
    { name: 'note', vector: dictionary(['x', 'longer text', 'x']), role: 'field' },
    { name: 'price', vector: decimals([12345n, -1n, 0n], 20, 2) },
  ])
  t.equal(refusals.count, 0)
  t.same(points, [
    {
      position: 0,
      measurement: 'm',
      tags: { host: 'a', region: 'eu', zone: 'é' },
      time: 1n,
      fields: { f64: 1.5, f32: 0.5, i64: -1n, i16: -7n, u64: 2n ** 64n - 1n, u16: 65535n, ok: true, note: 'x', price: { decimal: '123.45' } },
    },
    {
      position: 1,
      measurement: 'm',
      tags: { host: 'b', region: 'us' },
      time: 2n,
      fields: { f64: -0, f32: 2, i64: 2n ** 62n, i16: 7n, u64: 0n, u16: 0n, ok: false, note: 'longer text', price: { decimal: '-0.01' } },
    },
    {
      position: 2,
      measurement: 'm',
      tags: { host: 'a', region: 'eu' },
      time: -3n,
      fields: { f64: 1e300, f32: 3, i64: 0n, i16: 0n, u64: 1n, u16: 1n, ok: true, note: 'x', price: { decimal: '0.00' } },
    },
  ])
})

t.test('nulls and non-finite values are left out, rows without a value too', async (t) => {
  const { points, refusals, nonFinite } = putting()([
    { name: 'time', vector: times([1n, 2n, 3n, 4n]) },
    { name: 'a', vector: vectorFromArray([1, null, Number.NaN, Number.POSITIVE_INFINITY], new Float64()) },
    { name: 'b', vector: vectorFromArray([null, null, 5n, null], new Int64()) },
  ])
  t.equal(refusals.count, 0)
  t.equal(nonFinite, 2)
  t.same(
    points.map(({ time, position, fields }) => [time, position, fields]),
    [
      [1n, 0, { a: 1 }],
      [3n, 2, { b: 5n }],
    ],
  )
})

t.test('where the time comes from, and in which unit', async (t) => {
  const value = { name: 'v', vector: vectorFromArray([1], new Int8()) }
  const timeOf = (...columns: Column[]) => putting()([...columns, value]).points[0]
  t.equal(timeOf().time, NOW, "the server's")
  t.equal(timeOf({ name: '_time', vector: vectorFromArray([5n], new Int64()) }).time, 5n)
  t.equal(timeOf({ name: 'ts', vector: times([5n], new TimestampMicrosecond()) }).time, 5000n, 'the only timestamp')
  t.equal(
    timeOf({ name: 'x', vector: vectorFromArray([7n], new Int64()), role: 'timestamp' }, { name: 'time', vector: vectorFromArray([1n], new Int64()) }).time,
    7n,
  )
  const named = timeOf({ name: 'time', vector: times([-7n], new TimestampSecond()) }, { name: 'other', vector: vectorFromArray([1n], new Int64()) })
  t.same([named.time, named.fields.other], [-7_000_000_000n, 1n])
  const far = putting()([
    { name: 'time', vector: times([9223372036n, 9223372037n, 2n ** 62n], new TimestampSecond()) },
    { name: 'v', vector: vectorFromArray([1, 2, 3], new Int8()) },
  ])
  t.same(
    far.points.map(({ time }) => time),
    [9223372036000000000n],
  )
  t.same([far.refusals.count, far.refusals.reasons[0].position], [2, 1])
  t.match(far.refusals.reasons[0].message, /its time of 9223372037 \/ 1 s is outside the range/)
  const unsigned = putting()([
    { name: 'time', vector: vectorFromArray([2n ** 63n - 1n, 2n ** 63n, 2n ** 64n - 1n, null, 5n], new Uint64()) },
    { name: 'v', vector: vectorFromArray([1, 2, 3, 4, 5], new Int8()) },
  ])
  t.same(
    unsigned.points.map(({ time }) => time),
    [2n ** 63n - 1n, 5n],
  )
  t.same(
    unsigned.refusals.reasons.map(({ position }) => position),
    [3, 1, 2],
  )
  t.match(unsigned.refusals.reasons[1].message, /its time of 9223372036854775808 ns is outside the range of nanoseconds in 64 bits/)
  const missing = putting()(
    [
      { name: 'time', vector: times([1n, null]) },
      { name: 'v', vector: vectorFromArray([1, 2], new Int8()) },
    ],
    'm',
    100,
  )
  t.same([missing.points.length, missing.refusals.reasons[0].position, missing.refusals.reasons[0].message], [1, 101, 'cannot write the row: it has no time'])
})

t.test('a column of type null is left out, as no row has a value', async (t) => {
  const nothing = (name: string, role?: string): Column => ({ name, vector: vectorFromArray([null, null], new Null()), ...(role && { role }) })
  const { points, refusals } = putting()([
    nothing('room', 'tag'),
    { name: 'host', vector: text(['a', 'b']) },
    nothing('free'),
    { name: 'v', vector: vectorFromArray([1, 2], new Float64()) },
    nothing('note', 'field'),
  ])
  t.equal(refusals.count, 0)
  t.same(
    points.map(({ tags, fields }) => ({ tags, fields })),
    [
      { tags: { host: 'a' }, fields: { v: 1 } },
      { tags: { host: 'b' }, fields: { v: 2 } },
    ],
  )
  t.throws(() => putting()([nothing('v')]), { code: 'BAD_REQUEST', message: /"v": there is no field among them/ })
  t.throws(() => putting()([nothing('at', 'timestamp')]), { code: 'BAD_REQUEST', message: /column "at": it is the time and is of type Null/ })
})

t.test('schemas that are no measurement are refused, naming the column', async (t) => {
  const one = { name: 'v', vector: vectorFromArray([1], new Int8()) }
  const cases: [Column[], RegExp][] = [
    [[{ name: 'host', vector: text(['a']) }], /"host": there is no field among them/],
    [[one, { name: 'd', vector: vectorFromArray([new Date()], new DateDay()) }], /column "d": a column of type Date32<DAY> cannot be stored/],
    [[one, { name: 'h', vector: vectorFromArray([1], new Float16()) }], /column "h": a column of type Float16/],
    [[one, { name: 'x', vector: text(['a']), role: 'label' }], /column "x": its metadata says role=label/],
    [[one, { name: 'x', vector: vectorFromArray([1], new Int8()), role: 'tag' }], /role=tag and is of type Int8/],
    [[one, { name: 'x', vector: text(['a']), role: 'timestamp' }], /it is the time and is of type Utf8/],
    [
      [one, { name: 'a', vector: times([1n]), role: 'timestamp' }, { name: 'b', vector: times([1n]), role: 'timestamp' }],
      /column "b": it has role=timestamp, and so has "a"/,
    ],
    [
      [one, { name: 'a', vector: times([1n]) }, { name: 'b', vector: times([1n]) }],
      /column "a": a column of type Timestamp<NANOSECOND> cannot be stored; .*the time is called _time/,
    ],
    // All rows would have the server's time, and those of one series be one point.
    [
      [one, { name: 'time', vector: text(['2026-01-31']) }],
      /column "time": no column is a time, and this one is of type Utf8; cast it to a timestamp, .* role=tag if it is none/,
    ],
    [[one, { name: 'timestamp', vector: vectorFromArray([1.7e9], new Float64()) }], /column "timestamp": no column is a time, .* Float64; .* role=field/],
    [[one, { name: '_time', vector: text(['2026-01-31']) }], /column "_time": no column is a time/],
    [Array.from({ length: 11 }, (_, i) => ({ ...one, name: `f${i}` })), /cannot write 11 fields at once: flight_sql.max_fields_per_point is 10/],
  ]
  for (const [columns, message] of cases) t.throws(() => putting()(columns), { code: 'BAD_REQUEST', message })
})

t.test('a column that is called like a time and is none is stored where its metadata says so, or another is the time', async (t) => {
  const one = { name: 'v', vector: vectorFromArray([1], new Int8()) }
  t.same(putting()([one, { name: 'time', vector: text(['noon']), role: 'tag' }]).points[0].tags, { time: 'noon' })
  t.same(putting()([one, { name: 'timestamp', vector: vectorFromArray([2], new Float64()), role: 'field' }]).points[0].fields, { v: 1, timestamp: 2 })
  const { points } = putting()([one, { name: 'time', vector: text(['noon']) }, { name: 'at', vector: times([5n]) }])
  t.match(points[0], { tags: { time: 'noon' }, time: 5n })
})

t.test('refused series cost their rows only', async (t) => {
  const { points, refusals } = putting(new FakeResolver(2))([
    { name: 'host', vector: text(['a', 'b', 'c', 'a', 'c']) },
    { name: 'v', vector: vectorFromArray([1, 2, 3, 4, 5], new Float64()) },
  ])
  t.same(
    points.map(({ fields }) => fields.v),
    [1, 2, 4],
  )
  t.same(
    refusals.reasons.map(({ code, position }) => [code, position]),
    [
      ['CARDINALITY_EXCEEDED', 2],
      ['CARDINALITY_EXCEEDED', 4],
    ],
  )
})

t.test('decimals that cannot be stored, and scales below zero', async (t) => {
  const { points, refusals } = putting()([{ name: 'd', vector: decimals([10n ** 38n, 10n ** 38n - 1n], 38, 0) }])
  t.same(
    points.map(({ fields }) => fields.d),
    [{ decimal: '9'.repeat(38) }],
  )
  t.match(refusals.reasons[0], { code: 'INVALID_POINT', position: 0 })
  t.same(putting()([{ name: 'd', vector: decimals([12n], 10, -3) }]).points[0].fields, { d: { decimal: '12000' } })
})

t.test('a field of another type refuses the batch', async (t) => {
  const resolver = new FakeResolver()
  resolver.measurement('', 'm').fields.set('v', { name: 'v', type: 'string' })
  t.throws(() => putting(resolver)([{ name: 'v', vector: vectorFromArray([1], new Int8()) }]), { code: 'SCHEMA_ERROR' })
})

t.test('text that is no UTF-8 is refused', async (t) => {
  for (const [bytes, offsets] of [
    [
      [0x66, 0xff],
      [0, 2],
    ],
    [
      [0xc3, 0xa9],
      [0, 1, 2],
    ],
  ]) {
    const vector = new Vector([
      makeData({ type: new Utf8(), length: offsets.length - 1, valueOffsets: Int32Array.from(offsets), data: Uint8Array.from(bytes) }),
    ])
    const v = vectorFromArray(offsets.slice(1), new Int8())
    t.throws(
      () =>
        putting()([
          { name: 'host', vector },
          { name: 'v', vector: v },
        ]),
      { code: 'BAD_REQUEST', message: /column "host": a value is not UTF-8/ },
    )
  }
})

t.test('random batches: as a plain reading of the same values', async (t) => {
  const seed = Number(process.env.SVC_SEED ?? Date.now() % 1e9)
  const random = seeded(seed)
  const pick = <T>(list: readonly T[]): T => list[Math.floor(random() * list.length)]
  const resolver = new FakeResolver()
  const put = putting(resolver)
  for (let round = 0; round < 60; round++) {
    const rows = Math.floor(random() * 300)
    const values = <T>(make: () => T, gaps = random() < 0.5) => Array.from({ length: rows }, () => (gaps && random() < 0.2 ? null : make()))
    const run = random() < 0.5
    const hosts = values(() => pick(['a', 'b', 'c', '', 'é', 'long '.repeat(20)])).map((one, i, all) => (run && i % 3 > 0 ? all[i - (i % 3)] : one))
    const regions = values(() => pick(['eu', 'us', 'ap']))
    const f = values(() => pick([1, 2.5, -0, Number.NaN, 1e-300]))
    const n = values(() => BigInt(Math.floor(random() * 1e9)) - 5n)
    const at = values(() => BigInt(Math.floor(random() * 1e6)), false)
    if (rows === 0) continue
    const { points } = put([
      { name: 'host', vector: random() < 0.5 ? text(hosts) : dictionary(hosts) },
      { name: 'region', vector: dictionary(regions, new Int8()) },
      { name: 'f', vector: vectorFromArray(f, new Float64()) },
      { name: '_time', vector: times(at) },
      { name: 'n', vector: vectorFromArray(n, new Int64()) },
    ])
    const expected: DecodedPoint[] = []
    for (let row = 0; row < rows; row++) {
      const fields: DecodedPoint['fields'] = {}
      const [float, integer, host, region] = [f[row], n[row], hosts[row], regions[row]]
      if (float !== null && Number.isFinite(float)) fields.f = float
      if (integer !== null) fields.n = integer
      if (Object.keys(fields).length === 0) continue
      const tags = { ...(host !== null && host !== '' && { host }), ...(region !== null && { region }) }
      expected.push({ position: row, measurement: 'm', tags, time: at[row] as bigint, fields })
    }
    if (!t.same(points, expected, `seed ${seed}, round ${round}`)) return
  }
})

t.test('a large batch gives way, and others of the stream wait for it', async (t) => {
  const rows = 50_000
  const codes = Array.from({ length: rows }, (_, i) => i)
  const of = (divisor: number) => text(codes.map((i) => `value ${Math.floor(i / divisor) % 300}`))
  const { schema, batch } = batchOf([
    { name: 'a', vector: of(1) },
    { name: 'b', vector: of(300) },
    { name: 'v', vector: vectorFromArray(codes, new Float64()) },
  ])
  const resolver = new FakeResolver()
  const writer = new PutWriter({ resolver, namespace: '', measurement: 'm', schema, maxFields: 10, maxTextBytes: 1e9, seed: 7 })
  let slices = 0
  const work = writer.append(batch, new WriteBatch(resolver), 0, NOW)
  while (work.next().done !== true) slices++
  t.ok(slices > rows / 100, `${slices} slices`)
  const writes = [new WriteBatch(resolver), new WriteBatch(resolver)]
  await Promise.all(writes.map((write) => writer.turns.run(() => writer.append(batch, write, 0, NOW))))
  for (const write of writes) {
    const points = pointsOf(write, resolver)
    t.equal(points.length, rows)
    t.match(points[49_999], { tags: { a: 'value 199', b: 'value 166' }, fields: { v: 49_999 } })
  }
})

t.test('what rows say of a dictionary is bounded as if each had its own text, and a refused series is asked for once', async (t) => {
  const values = Array.from({ length: 100 }, () => 'x'.repeat(1000))
  const [long, other] = [dictionary(values), dictionary(values)]
  const v = vectorFromArray(
    Array.from({ length: 100 }, () => 1),
    new Float64(),
  )
  const message = (what: string) => ({ code: 'PAYLOAD_TOO_LARGE', message: new RegExp(`its ${what} take more than 50000 bytes`) })
  t.throws(() => putting(undefined, 10, 50_000)([{ name: 'note', vector: long, role: 'field' }]), message('texts'))
  const hosts = text(Array.from({ length: 100 }, (_, i) => `h${i}`))
  const tagged = (...tags: Column[]) => [...tags, { name: 'v', vector: v }]
  t.throws(() => putting(undefined, 10, 50_000)(tagged({ name: 'host', vector: hosts }, { name: 'tag', vector: long })), message('tags'))
  for (const tags of [
    [{ name: 'tag', vector: long }],
    [
      { name: 'tag', vector: long },
      { name: 'other', vector: other },
    ],
  ]) {
    t.equal(putting(undefined, 10, 50_000)(tagged(...tags)).points.length, 100)
    const { points, refusals } = putting(new FakeResolver(0), 10, 50_000)(tagged(...tags))
    t.same([points.length, refusals.count, refusals.reasons.length], [0, 100, 16])
  }
})

t.test('decimals and rows that may have no value give way, too', (t) => {
  const rows = 50_000
  const slicesOf = (data: Data[]): number => {
    const schema = new Schema(data.map(({ type }, i) => new Field(`f${i}`, type, true)))
    const batch = new RecordBatch(schema, makeData({ type: new Struct(schema.fields), length: rows, nullCount: 0, children: data as never }))
    const resolver = new FakeResolver()
    const writer = new PutWriter({ resolver, namespace: '', measurement: 'm', schema, maxFields: 100, maxTextBytes: 1e6, seed: 7 })
    const work = writer.append(batch, new WriteBatch(resolver), 0, NOW)
    let slices = 0
    while (work.next().done !== true) slices++
    return slices
  }
  const [decimal] = decimals(
    Array.from({ length: rows }, (_, i) => BigInt(i)),
    38,
    3,
  ).data
  const [bits, nothing] = [new Uint8Array(rows / 8), new Uint8Array(rows / 8)]
  const bool = makeData({ type: new Bool(), length: rows, nullCount: 0, data: bits })
  const missing = makeData({ type: new Bool(), length: rows, nullCount: rows, nullBitmap: nothing, data: bits })
  const columns = 50
  const plain = slicesOf([bool])
  t.ok(slicesOf([decimal]) - plain > rows / 5000, 'decimals are looked at in turns')
  const each = Array.from({ length: columns }, () => missing)
  t.ok(slicesOf(each) > (2 * columns * rows) / 5000, 'so is what rows have a value')
  t.end()
})

t.test('of a dictionary that is longer than the batch, or came in parts, the entries that rows refer to are taken', (t) => {
  const type = new Dictionary(new Utf8(), new Int32(), 1)
  const entries = Array.from({ length: 1000 }, (_, i) => (i % 10 === 0 ? `${i} ${'ü'.repeat(30)}` : `${i}`))
  const [first, second] = [entries.slice(0, 600), entries.slice(600)]
  const indices = [999, 0, 599, 7, 600, 7, 10, 999]
  // The row in the middle has no value, and its number is that of no entry.
  const data = Int32Array.from(indices, (index, i) => (i === 3 ? 5000 : index))
  const nullBitmap = Uint8Array.of(0b11110111)
  for (const dictionary of [new Vector([text(entries).data[0]]), new Vector([text(first).data[0], text([]).data[0], text(second).data[0]])]) {
    const column = makeData({ type, length: 8, nullCount: 1, nullBitmap, data, dictionary } as never)
    const fields = [new Field('t', type, true), new Field('f', type, true, new Map([['role', 'field']])), new Field('v', new Int32(), true)]
    const children = [column, column, makeData({ type: new Int32(), length: 8, nullCount: 0, data: Int32Array.from(indices) })]
    const schema = new Schema(fields)
    const batch = new RecordBatch(schema, makeData({ type: new Struct(fields), length: 8, nullCount: 0, children: children as never }))
    const resolver = new FakeResolver()
    const writer = new PutWriter({ resolver, namespace: '', measurement: 'm', schema, maxFields: 10, maxTextBytes: 1e6, seed: 7 })
    for (const _ of ['first', 'again']) {
      const write = new WriteBatch(resolver)
      atOnce(writer.append(batch, write, 0, NOW))
      t.same(
        pointsOf(write, resolver).map(({ tags, fields }) => ({ tags, fields })),
        indices.map((index, i) => (i === 3 ? { tags: {}, fields: { v: 7 } } : { tags: { t: entries[index] }, fields: { f: entries[index], v: index } })),
      )
    }
  }
  t.end()
})
