import { DataType, DenseUnion, Dictionary, Duration, Field, FixedSizeList, Int32, IntervalDayTime, LargeUtf8, TimeUnit, Utf8 } from 'apache-arrow'
import t from 'tap'
import { arrowSchema, dataType, typeName } from './types.ts'

t.test('names of result types and Arrow types stand for each other', async (t) => {
  for (const name of [
    ...[
      'Null',
      'Boolean',
      'Utf8',
      'Binary',
      'Int8',
      'Int16',
      'Int32',
      'Int64',
      'UInt8',
      'UInt16',
      'UInt32',
      'UInt64',
      'Float32',
      'Float64',
      'Date32',
      'Interval',
    ],
    ...['Timestamp(s)', 'Timestamp(ms)', 'Timestamp(us)', 'Timestamp(ns)', 'Timestamp(us, UTC)', 'Timestamp(ns, Europe/Berlin)', 'Time64(us)', 'Time64(ns)'],
    ...['decimal(38, 4)', 'decimal(5, 0)', 'List(Utf8)', 'List(List(decimal(10, 2)))', 'Map(Utf8, List(Int8))'],
    ...['Struct("a": Int32)', 'Struct("a, (b)": List(Int32), "quoted \\" and \\\\": Struct("x": Timestamp(us, UTC)))'],
  ]) {
    t.equal(typeName(dataType(name)), name)
  }
})

t.test('what is no name of a type', async (t) => {
  for (const name of [
    '',
    'Int128',
    'utf8',
    'List',
    'List(',
    'List()',
    'List(Int8',
    'Int8)',
    'Int8 ',
    'decimal(4)',
    'Timestamp(min)',
    'Struct(a: Int8)',
    'Map(Int8)',
    'Struct("a": )',
  ])
    t.throws(() => dataType(name), { message: `cannot read type "${name}": it is not the name of a result type` })
})

t.test('Arrow types that clients send', async (t) => {
  t.equal(typeName(new LargeUtf8()), 'Utf8')
  t.equal(typeName(new Dictionary(new Utf8(), new Int32())), 'Utf8')
  t.equal(typeName(new FixedSizeList(2, new Field('item', new Int32()))), 'List(Int32)')
  for (const type of [new Duration(TimeUnit.SECOND), new IntervalDayTime(), new DenseUnion([0], [new Field('a', new Int32())])])
    t.equal(typeName(type), undefined)
})

t.test('columns may be null, and text is in dictionaries on request only', async (t) => {
  const columns = [
    { name: 'a', type: 'Utf8' },
    { name: 'b', type: 'List(Utf8)' },
  ]
  t.strictSame(
    arrowSchema(columns).fields.map(({ name, nullable, type }) => [name, nullable, DataType.isDictionary(type)]),
    [
      ['a', true, false],
      ['b', true, false],
    ],
  )
  t.strictSame(
    arrowSchema(columns, true).fields.map(({ type }) => DataType.isDictionary(type)),
    [true, false],
  )
})
