/**
 * What the columns of an Arrow schema are to a measurement: the time, tags, fields.
 *
 * Text is a tag, or with the column metadata `role=field` a field. Numbers, booleans and decimals are fields. A column of type null has no values and is left out. The time is the column with
 * `role=timestamp`, else one named `_time`, `time` or `timestamp`, else the only one of an Arrow timestamp type; without one, points get the
 * server's time.
 */
import type { DataType, Field, Schema } from 'apache-arrow'
import { Precision, Type } from 'apache-arrow'
import type { FieldType } from 'svcdb'
import { SvcError } from 'svcdb/lib/errors'

interface TimeColumn {
  index: number
  /** Units a second. */
  perSecond: number
}

interface TagColumn {
  index: number
  name: string
}

export interface FieldColumn {
  index: number
  name: string
  type: FieldType
}

export interface PutLayout {
  time: TimeColumn | undefined
  tags: TagColumn[]
  fields: FieldColumn[]
}

const ROLES = ['tag', 'field', 'timestamp']
const TIME_NAMES = ['_time', 'time', 'timestamp']
/** By Arrow's TimeUnit. */
const PER_SECOND = [1, 1e3, 1e6, 1e9]
const NANOSECONDS = 1e9

/** @throws BAD_REQUEST for a schema that is no measurement's, naming the column. */
export function layoutOf(schema: Schema, maxFields: number): PutLayout {
  const { fields: columns } = schema
  const names = new Set<string>()
  for (const { name } of columns) {
    if (names.has(name)) throw wrong(name, 'there are two columns of the name; rename one')
    names.add(name)
  }
  // Drivers send this for a statement of one word, be it a mistyped query, that was prepared as a bulk write.
  if (columns.length === 0)
    throw new SvcError(
      'BAD_REQUEST',
      'cannot write without columns: put record batches with a field at least; where no write was meant: a statement of one word is taken for the name of the measurement to write to',
    )
  const time = timeOf(columns)
  const layout: PutLayout = { time, tags: [], fields: [] }
  for (const [index, column] of columns.entries()) {
    // Data frames have a column of type null where no row has a value.
    if (index === time?.index || column.type.typeId === Type.Null) continue
    const role = roleOf(column)
    const text = isText(column.type)
    if (text && role !== 'field') layout.tags.push({ index, name: column.name })
    else if (role === 'tag') throw wrong(column.name, `it has role=tag and is of type ${column.type}; tags are text, cast it to string`)
    else layout.fields.push({ index, name: column.name, type: text ? 'string' : fieldType(column) })
  }
  if (layout.fields.length === 0) {
    throw new SvcError(
      'BAD_REQUEST',
      `cannot write the columns ${[...names].map((name) => `"${name}"`).join(', ')}: there is no field among them; text is a tag unless its column has the metadata role=field`,
    )
  }
  if (layout.fields.length > maxFields) {
    throw new SvcError('BAD_REQUEST', `cannot write ${layout.fields.length} fields at once: flight_sql.max_fields_per_point is ${maxFields}`)
  }
  return layout
}

function timeOf(columns: readonly Field[]): TimeColumn | undefined {
  const given = columns.filter((column) => roleOf(column) === 'timestamp')
  if (given.length > 1) throw wrong(given[1].name, `it has role=timestamp, and so has "${given[0].name}"; a point has one time`)
  const stamps = columns.filter(({ type }) => type.typeId === Type.Timestamp)
  const named = TIME_NAMES.flatMap((name) =>
    columns.filter((column) => column.name === name && roleOf(column) === undefined && unitOf(column.type) !== undefined),
  )
  const column = given[0] ?? named[0] ?? (stamps.length === 1 ? stamps[0] : undefined)
  if (column === undefined) {
    refuseMistaken(columns)
    return undefined
  }
  const perSecond = unitOf(column.type)
  if (perSecond === undefined) throw wrong(column.name, `it is the time and is of type ${column.type}; send a timestamp, or int64 in nanoseconds`)
  return { index: columns.indexOf(column), perSecond }
}

/** Texts and floats of these names are times that were not read as such: with the server's time in their stead, rows of one series would be one point. */
function refuseMistaken(columns: readonly Field[]): void {
  const mistaken = columns.find((column) => TIME_NAMES.includes(column.name) && roleOf(column) === undefined && column.type.typeId !== Type.Null)
  if (mistaken === undefined) return
  const role = isText(mistaken.type) ? 'tag' : 'field'
  throw wrong(
    mistaken.name,
    `no column is a time, and this one is of type ${mistaken.type}; cast it to a timestamp, or to int64 in nanoseconds, or give it the metadata role=${role} if it is none`,
  )
}

/** Integers of 64 bits are nanoseconds. */
function unitOf(type: DataType): number | undefined {
  if (type.typeId === Type.Timestamp) return PER_SECOND[(type as DataType & { unit: number }).unit]
  return type.typeId === Type.Int && (type as DataType & { bitWidth: number; isSigned: boolean }).bitWidth === 64 ? NANOSECONDS : undefined
}

function roleOf({ name, metadata }: Field): string | undefined {
  const role = metadata.get('role')
  if (role !== undefined && !ROLES.includes(role)) throw wrong(name, `its metadata says role=${role.slice(0, 64)}; a role is tag, field or timestamp`)
  return role
}

function isText(type: DataType): boolean {
  if (type.typeId === Type.Dictionary) return isText((type as DataType & { dictionary: DataType }).dictionary)
  return type.typeId === Type.Utf8 || type.typeId === Type.LargeUtf8
}

function fieldType({ name, type }: Field): FieldType {
  switch (type.typeId) {
    case Type.Int:
      return (type as DataType & { isSigned: boolean }).isSigned ? 'int64' : 'uint64'
    case Type.Float:
      if ((type as DataType & { precision: Precision }).precision !== Precision.HALF) return 'float64'
      break
    case Type.Bool:
      return 'bool'
    case Type.Decimal:
      if ((type as DataType & { bitWidth: number }).bitWidth === 128) return 'decimal'
      break
  }
  const hint = type.typeId === Type.Timestamp ? '; the time is called _time, time or timestamp, or has the metadata role=timestamp' : ''
  throw wrong(name, `a column of type ${type} cannot be stored; cast it to a number, boolean, decimal128, or text${hint}`)
}

function wrong(name: string, reason: string): SvcError {
  return new SvcError('BAD_REQUEST', `cannot write column "${name.slice(0, 256)}": ${reason}`)
}
