/** Which writer a column's type needs. */
import { Type } from 'apache-arrow/enum'
import type { DataType, Dictionary } from 'apache-arrow/type'
import { BoolWriter, type ColumnWriter, FixedWriter, NullWriter, type Put } from './column-writer.ts'
import { DictionaryWriter } from './dictionary-writer.ts'
import { ListWriter, StructWriter } from './nested-writer.ts'
import { TextWriter } from './text-writer.ts'

const PUT_INTEGER: Record<number, Put> = {
  8: (view, at, value) => view.setInt8(at, Number(value)),
  16: (view, at, value) => view.setInt16(at, Number(value), true),
  32: (view, at, value) => view.setInt32(at, Number(value), true),
  64: (view, at, value) => view.setBigInt64(at, BigInt(value as bigint | number), true),
}

const putFloat32: Put = (view, at, value) => view.setFloat32(at, Number(value), true)
const putFloat64: Put = (view, at, value) => view.setFloat64(at, Number(value), true)

/** Unscaled, two's complement of 128 bits. */
const putDecimal: Put = (view, at, value) => {
  const unscaled = BigInt(value as bigint)
  view.setBigInt64(at, unscaled, true)
  view.setBigInt64(at + 8, unscaled >> 64n, true)
}

const putInterval: Put = (view, at, value) => {
  const { months, days, nanoseconds } = value as { months: number; days: number; nanoseconds: bigint }
  view.setInt32(at, months, true)
  view.setInt32(at + 4, days, true)
  view.setBigInt64(at + 8, nanoseconds, true)
}

/** Values by type as `SqlVector` has them. */
export function writerOf(type: DataType): ColumnWriter {
  switch (type.typeId) {
    case Type.Null:
      return new NullWriter()
    case Type.Bool:
      return new BoolWriter()
    case Type.Int: {
      const { bitWidth } = type as unknown as { bitWidth: number }
      return new FixedWriter(bitWidth / 8, PUT_INTEGER[bitWidth])
    }
    case Type.Float:
      return (type as unknown as { precision: number }).precision === 2 ? new FixedWriter(8, putFloat64) : new FixedWriter(4, putFloat32)
    case Type.Date:
      return new FixedWriter(4, PUT_INTEGER[32])
    case Type.Time:
    case Type.Timestamp:
      return new FixedWriter(8, PUT_INTEGER[64])
    case Type.Interval:
      return new FixedWriter(16, putInterval)
    case Type.Decimal:
      return new FixedWriter(16, putDecimal)
    case Type.Utf8:
    case Type.Binary:
      return new TextWriter()
    case Type.Dictionary:
      return new DictionaryWriter((type as unknown as Dictionary).id)
    case Type.List:
    case Type.Map:
      return new ListWriter(writerOf(type.children[0].type))
    case Type.Struct:
      return new StructWriter(
        type.children.map(({ name }) => name),
        type.children.map((field) => writerOf(field.type)),
      )
    default:
      throw new Error(`cannot encode a column of Arrow type "${type}"`)
  }
}
