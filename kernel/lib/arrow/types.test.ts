import { DataType } from 'apache-arrow'
import t from 'tap'
import { arrowSchema, dataType } from './types.ts'

t.test('names of result types as Arrow types', async (t) => {
  for (const [name, type] of [
    ...['Null', 'Utf8', 'Binary', 'Int8', 'Int16', 'Int32', 'Int64', 'Float32', 'Float64'].map((same) => [same, same]),
    ['Boolean', 'Bool'],
    ['UInt8', 'Uint8'],
    ['UInt16', 'Uint16'],
    ['UInt32', 'Uint32'],
    ['UInt64', 'Uint64'],
    ['Date32', 'Date32<DAY>'],
    ['Interval', 'Interval<MONTH_DAY_NANO>'],
    ['Timestamp(s)', 'Timestamp<SECOND>'],
    ['Timestamp(ms)', 'Timestamp<MILLISECOND>'],
    ['Timestamp(ns)', 'Timestamp<NANOSECOND>'],
    ['Timestamp(us, UTC)', 'Timestamp<MICROSECOND, UTC>'],
    ['Timestamp(ns, Europe/Berlin)', 'Timestamp<NANOSECOND, Europe/Berlin>'],
    ['Time64(us)', 'Time64<MICROSECOND>'],
    ['Time64(ns)', 'Time64<NANOSECOND>'],
    ['decimal(38, 4)', 'Decimal[38e+4]'],
    ['decimal(5, 0)', 'Decimal[5e0]'],
    ['List(List(decimal(10, 2)))', 'List<List<Decimal[10e+2]>>'],
    ['Map(Utf8, List(Int8))', 'Map<{key:Utf8, value:List<Int8>}>'],
    ['Struct("a": Int32)', 'Struct<{a:Int32}>'],
    [
      'Struct("a, (b)": List(Int32), "quoted \\" and \\\\": Struct("x": Timestamp(us, UTC)))',
      'Struct<{a, (b):List<Int32>, quoted " and \\:Struct<{x:Timestamp<MICROSECOND, UTC>}>}>',
    ],
  ]) {
    t.equal(String(dataType(name)), type)
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
