/** Values that a client binds to a statement's parameters: the one row of a record batch. */
import { type Data, DataType, type RecordBatch, type Schema, Type, Vector } from 'apache-arrow'
import type { SqlParameter } from 'svcdb'
import { SvcError } from 'svcdb/lib/errors'
import { decimalAt } from './put/fields.ts'

/** Nanoseconds of Arrow's TimeUnit. */
const NANOSECONDS = [1_000_000_000n, 1_000_000n, 1000n, 1n]
const NS_PER_MS = 1_000_000n
const NS_PER_DAY = 86_400_000_000_000n
const DAY = 0

/** @param row a batch of one row. @throws BAD_REQUEST for types that no parameter has. */
export function parametersOf(schema: Schema, row: RecordBatch): SqlParameter[] {
  return schema.fields.map((field, i) => {
    const data = chosen(row.data.children[i])
    const value = data.getValid(0) ? parameterOf(data, () => new Vector([data]).get(0)) : null
    if (value === undefined)
      throw new SvcError('BAD_REQUEST', `cannot bind parameter ${i + 1} "${field.name.slice(0, 64)}": values of type ${field.type} are not supported; cast it`)
    return value
  })
}

/** Of a union, as flightsql-dbapi packs each value in, the member that its first row is of, from that row on. */
function chosen(data: Data): Data {
  if (!DataType.isDenseUnion(data.type)) return data
  const member = data.children[data.type.typeIdToChildIndex[data.typeIds[0]]]
  return chosen(member.slice(data.valueOffsets[0], 1))
}

/** @param get reads a value as the library does: texts and bytes. */
function parameterOf(data: Data, get: () => unknown): SqlParameter | undefined {
  const type = data.type as DataType & Record<'unit' | 'precision' | 'scale' | 'bitWidth', number>
  const first = (data.values as ArrayLike<number | bigint> | undefined)?.[0] as number | bigint
  switch (type.typeId) {
    case Type.Null:
      return null
    case Type.Bool:
      return get() === true
    case Type.Int:
      return BigInt(first)
    case Type.Float:
      return Number(get())
    case Type.Decimal:
      return type.bitWidth === 128 ? { decimal: decimalAt(data.values as unknown as Uint32Array, 0), scale: type.scale } : undefined
    case Type.Timestamp:
      return { timestamp: BigInt(first) * NANOSECONDS[type.unit] }
    case Type.Date:
      return { timestamp: type.unit === DAY ? BigInt(first) * NS_PER_DAY : (data.values as BigInt64Array)[0] * NS_PER_MS }
    case Type.Dictionary:
    case Type.Utf8:
    case Type.LargeUtf8: {
      const text = get()
      return typeof text === 'string' ? text : undefined
    }
    case Type.Binary:
    case Type.LargeBinary:
    case Type.FixedSizeBinary:
      // A copy: the message that it lies in may be a million times as large, and is not what max_prepared_bytes counts.
      return new Uint8Array(get() as Uint8Array)
    default:
      return undefined
  }
}
