/** Names of result types (`SqlColumn.type`) and what they are in Arrow. */
import { TimeUnit, Type } from 'apache-arrow/enum'
import { Field, Schema } from 'apache-arrow/schema'
import {
  Binary,
  Bool,
  type DataType,
  DateDay,
  Decimal,
  Dictionary,
  Float32,
  Float64,
  Int8,
  Int16,
  Int32,
  Int64,
  IntervalMonthDayNano,
  List,
  Map_,
  Null,
  Struct,
  TimeMicrosecond,
  TimeNanosecond,
  Timestamp,
  Uint8,
  Uint16,
  Uint32,
  Uint64,
  Utf8,
} from 'apache-arrow/type'
import { type ResultType, resultType, type SimpleName, type SqlColumn, type TimeUnitName } from '../sql-result/index.ts'

const SIMPLE: Record<SimpleName, () => DataType> = {
  Null: () => new Null(),
  Boolean: () => new Bool(),
  Utf8: () => new Utf8(),
  Binary: () => new Binary(),
  Int8: () => new Int8(),
  Int16: () => new Int16(),
  Int32: () => new Int32(),
  Int64: () => new Int64(),
  UInt8: () => new Uint8(),
  UInt16: () => new Uint16(),
  UInt32: () => new Uint32(),
  UInt64: () => new Uint64(),
  Float32: () => new Float32(),
  Float64: () => new Float64(),
  Date32: () => new DateDay(),
  Interval: () => new IntervalMonthDayNano(),
}
const UNITS: Record<TimeUnitName, TimeUnit> = {
  s: TimeUnit.SECOND,
  ms: TimeUnit.MILLISECOND,
  us: TimeUnit.MICROSECOND,
  ns: TimeUnit.NANOSECOND,
}

/** @throws Error for a text that is not the name of a result type. */
export function dataType(name: string): DataType {
  return arrowType(resultType(name))
}

/** @param dictionaries text is sent as numbers in a dictionary of its column. */
export function arrowSchema(columns: readonly SqlColumn[], dictionaries = false): Schema {
  return new Schema(
    columns.map(({ name, type }, i) => {
      const plain = dataType(type)
      return new Field(name, dictionaries && plain.typeId === Type.Utf8 ? new Dictionary(plain, new Int32(), i) : plain, true)
    }),
  )
}

function arrowType(type: ResultType): DataType {
  switch (type.kind) {
    case 'simple':
      return SIMPLE[type.name]()
    case 'decimal':
      return new Decimal(type.scale, type.precision, 128)
    case 'timestamp':
      return new Timestamp(UNITS[type.unit], type.zone)
    case 'time':
      return type.unit === 'ns' ? new TimeNanosecond() : new TimeMicrosecond()
    case 'list':
      return new List(new Field('item', arrowType(type.item), true))
    case 'map': {
      const entries = new Struct([new Field('key', arrowType(type.key), false), new Field('value', arrowType(type.value), true)])
      return new Map_(new Field('entries', entries, false) as never)
    }
    case 'struct':
      return new Struct(type.members.map(({ name, type: member }) => new Field(name, arrowType(member), true)))
  }
}
