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
import type { SqlColumn } from '../storage.ts'

const SIMPLE: Record<string, () => DataType> = {
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
const UNITS = new Map([
  ['s', TimeUnit.SECOND],
  ['ms', TimeUnit.MILLISECOND],
  ['us', TimeUnit.MICROSECOND],
  ['ns', TimeUnit.NANOSECOND],
])

/** @throws Error for a text that is not the name of a result type. */
export function dataType(name: string): DataType {
  const reader = new NameReader(name)
  const type = reader.read()
  reader.end()
  return type
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

/** Reads `Struct("a": List(Int32), "b": decimal(10, 2))` and the like. */
class NameReader {
  private readonly source: string
  private at = 0

  constructor(source: string) {
    this.source = source
  }

  read(): DataType {
    const name = /^[A-Za-z0-9]+/.exec(this.source.slice(this.at))?.[0] ?? ''
    this.at += name.length
    if (!this.take('(')) return (SIMPLE[name] ?? this.fail())()
    switch (name) {
      case 'decimal': {
        const [, precision, scale] = this.match(/^(\d+), (\d+)\)/)
        return new Decimal(Number(scale), Number(precision), 128)
      }
      case 'Timestamp': {
        const [, unit, zone] = this.match(/^(s|ms|us|ns)(?:, ([^()]+))?\)/)
        return new Timestamp(UNITS.get(unit)!, zone)
      }
      case 'Time64':
        return this.match(/^(us|ns)\)/)[1] === 'ns' ? new TimeNanosecond() : new TimeMicrosecond()
      case 'List': {
        const item = this.read()
        this.expect(')')
        return new List(new Field('item', item, true))
      }
      case 'Map': {
        const key = this.read()
        this.expect(', ')
        const value = this.read()
        this.expect(')')
        return new Map_(new Field('entries', entries(key, value), false) as never)
      }
      case 'Struct':
        return this.struct()
      default:
        return this.fail()
    }
  }

  end(): void {
    if (this.at !== this.source.length) this.fail()
  }

  /** Members' names are JSON strings: they may hold anything. */
  private struct(): DataType {
    const fields: Field[] = []
    do {
      const [name] = this.match(/^"(?:[^"\\]|\\.)*"/)
      this.expect(': ')
      fields.push(new Field(JSON.parse(name) as string, this.read(), true))
    } while (this.take(', '))
    this.expect(')')
    return new Struct(fields)
  }

  private match(pattern: RegExp): RegExpExecArray {
    const match = pattern.exec(this.source.slice(this.at)) ?? this.fail()
    this.at += match[0].length
    return match
  }

  private take(token: string): boolean {
    if (!this.source.startsWith(token, this.at)) return false
    this.at += token.length
    return true
  }

  private expect(token: string): void {
    if (!this.take(token)) this.fail()
  }

  private fail(): never {
    throw new Error(`cannot read type "${this.source}": it is not the name of a result type`)
  }
}

const entries = (key: DataType, value: DataType): Struct => new Struct([new Field('key', key, false), new Field('value', value, true)])
