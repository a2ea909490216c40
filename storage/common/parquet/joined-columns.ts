/** Columns of a joined file that are called otherwise than in its parts, or whose values mean something else: only what the footer says of them changes. */
import { fieldOf, type ThriftField, type ThriftList, type ThriftStruct, ThriftType } from './thrift-compact.ts'

export interface JoinedColumn {
  name: string
  /** `bytes`: text is bytes. `local`: timestamps are not adjusted to UTC, whatever the parts say. */
  as?: 'bytes' | 'local'
}

/** Ids of parquet.thrift. */
const Element = { NAME: 4, CONVERTED: 6, LOGICAL: 10 } as const
const Logical = { TIMESTAMP: 8 } as const
const Timestamp = { IS_UTC: 1 } as const

/** @param schema of the parts: the root, and their columns, of which none has others below it. */
export function joinedSchema({ type, items }: ThriftList, columns: readonly JoinedColumn[]): ThriftList {
  const [root, ...elements] = items as ThriftStruct[]
  if (elements.length !== columns.length) throw new Error(`cannot join Parquet files: they have ${elements.length} columns, ${columns.length} are expected`)
  return { type, items: [root, ...elements.map((element, i) => joined(element, columns[i]))] }
}

/** The path of a column in what a row group says of it. */
export function joinedPath(field: ThriftField, { name }: JoinedColumn): ThriftField {
  return { ...field, value: { type: ThriftType.BINARY, items: [Buffer.from(name)] } }
}

function joined(element: ThriftStruct, { name, as }: JoinedColumn): ThriftStruct {
  const named = element.map((field) => (field.id === Element.NAME ? { ...field, value: Buffer.from(name) } : field))
  if (as === 'bytes') return named.filter(({ id }) => id !== Element.CONVERTED && id !== Element.LOGICAL)
  return as === 'local' ? named.map((field) => (field.id === Element.LOGICAL ? { ...field, value: local(field.value as ThriftStruct) } : field)) : named
}

function local(logical: ThriftStruct): ThriftStruct {
  const timestamp = fieldOf(logical, Logical.TIMESTAMP)
  if (timestamp === undefined) throw new Error('cannot join Parquet files: a column of times has none')
  const members = (timestamp.value as ThriftStruct).map((member) => (member.id === Timestamp.IS_UTC ? { ...member, value: false } : member))
  return [{ ...timestamp, value: members }]
}
