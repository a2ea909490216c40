/** The footer of a Parquet file: its columns, and for each row group where their chunks lie and what their statistics say. Flat tables only. Format: https://parquet.apache.org/docs/file-format/ */
import { PageFault } from './page-fault.ts'
import { Thrift, ThriftCursor } from './thrift-cursor.ts'

/** Physical types. */
export const Physical = { BOOLEAN: 0, INT32: 1, INT64: 2, INT96: 3, FLOAT: 4, DOUBLE: 5, BYTE_ARRAY: 6, FIXED: 7 } as const
const Repetition = { REQUIRED: 0, OPTIONAL: 1, REPEATED: 2 } as const

/** Ids of parquet.thrift. */
const File = { SCHEMA: 2, ROW_GROUPS: 4 } as const
const Schema = { TYPE: 1, REPETITION: 3, NAME: 4, CHILDREN: 5 } as const
const Group = { COLUMNS: 1, ROWS: 3 } as const
const Chunk = { FILE_PATH: 1, META: 3 } as const
const Meta = { TYPE: 1, CODEC: 4, UNPACKED: 6, COMPRESSED: 7, DATA_PAGE: 9, DICTIONARY_PAGE: 11, STATISTICS: 12 } as const
const Statistics = { NULLS: 3, MAX: 5, MIN: 6 } as const

/** Rows of a row group: what is decoded of one is in memory at once. */
const MAX_GROUP_ROWS = 1 << 24
const BOUND_BYTES = 8
/** Beside the arrays. */
const FOOTER_BYTES = 512
const COLUMN_BYTES = 160

interface FooterColumn {
  name: string
  /** Of `Physical`. */
  type: number
  optional: boolean
}

/** The smallest and the largest value of a chunk as they are stored: number of INT32, DOUBLE and BOOLEAN, bigint of INT64 (as signed). NaN is not among them. */
interface Bounds<T = number | bigint> {
  min: T
  max: T
}

/** What is known of a chunk lies at `group * columns.length + column`. */
export class Footer {
  readonly columns: readonly FooterColumn[]
  /** Rows of each row group. */
  readonly rows: Int32Array
  /** Where chunks begin, and their bytes. */
  readonly starts: Float64Array
  readonly lengths: Int32Array
  /** Bytes of a chunk before compression, about. */
  readonly unpacked: Float32Array
  readonly codecs: Uint8Array
  /** Rows without a value; -1 where the file does not say. */
  readonly nulls: Int32Array
  private readonly known: Uint8Array
  /** 8 bytes for the smallest, 8 for the largest. */
  private readonly bounds: DataView
  private readonly byName: Map<string, number>

  /** @param bytes the footer, which ends where the file's last 8 bytes begin, @param size of the file. @throws PageFault */
  constructor(bytes: Uint8Array, size: number) {
    const cursor = new ThriftCursor(bytes, 0, bytes.length)
    let columns: FooterColumn[] | undefined
    let groups: { at: number; count: number } | undefined
    cursor.enter()
    while (cursor.next()) {
      if (cursor.id === File.SCHEMA && cursor.type === Thrift.LIST) columns = readSchema(cursor, bytes)
      else if (cursor.id === File.ROW_GROUPS && cursor.type === Thrift.LIST) {
        const { at } = cursor
        groups = { at, count: cursor.list() }
        cursor.at = at
        cursor.skip(Thrift.LIST)
      } else cursor.skip(cursor.type)
    }
    if (columns === undefined || groups === undefined) throw new PageFault('a footer has no schema or no row groups')
    this.columns = columns
    this.byName = new Map(columns.map(({ name }, column) => [name, column]))
    const chunks = groups.count * columns.length
    if (chunks > bytes.length) throw new PageFault('a footer has fewer bytes than chunks')
    this.rows = new Int32Array(groups.count)
    this.starts = new Float64Array(chunks)
    this.lengths = new Int32Array(chunks)
    this.unpacked = new Float32Array(chunks)
    this.codecs = new Uint8Array(chunks)
    this.nulls = new Int32Array(chunks).fill(-1)
    this.known = new Uint8Array(chunks)
    this.bounds = new DataView(new ArrayBuffer(chunks * BOUND_BYTES * 2))
    cursor.at = groups.at
    cursor.list()
    for (let group = 0; group < groups.count; group++) this.readGroup(cursor, bytes, group, size)
  }

  /** What it takes in memory. */
  get bytes(): number {
    return FOOTER_BYTES + this.columns.length * COLUMN_BYTES + this.starts.length * (8 + 4 + 4 + 1 + 4 + 1 + BOUND_BYTES * 2)
  }

  get groups(): number {
    return this.rows.length
  }

  /** The column of a name; -1 when there is none. */
  column(name: string): number {
    return this.byName.get(name) ?? -1
  }

  /** The bounds of an INT32, a DOUBLE or a BOOLEAN column in a row group; undefined where the file does not say. */
  numbers(group: number, column: number): Bounds<number> | undefined {
    const chunk = this.chunkWithBounds(group, column)
    if (chunk < 0) return undefined
    const at = chunk * BOUND_BYTES * 2
    const { bounds } = this
    switch (this.columns[column].type) {
      case Physical.INT32:
        return { min: bounds.getInt32(at, true), max: bounds.getInt32(at + BOUND_BYTES, true) }
      case Physical.DOUBLE:
        return { min: bounds.getFloat64(at, true), max: bounds.getFloat64(at + BOUND_BYTES, true) }
      case Physical.BOOLEAN:
        return { min: bounds.getUint8(at), max: bounds.getUint8(at + BOUND_BYTES) }
      default:
        return undefined
    }
  }

  /** Those of an INT64 column; of unsigned ones as signed. */
  integers(group: number, column: number): Bounds<bigint> | undefined {
    const chunk = this.chunkWithBounds(group, column)
    if (chunk < 0 || this.columns[column].type !== Physical.INT64) return undefined
    const at = chunk * BOUND_BYTES * 2
    return { min: this.bounds.getBigInt64(at, true), max: this.bounds.getBigInt64(at + BOUND_BYTES, true) }
  }

  private chunkWithBounds(group: number, column: number): number {
    const chunk = group * this.columns.length + column
    return this.known[chunk] === 3 ? chunk : -1
  }

  private readGroup(cursor: ThriftCursor, bytes: Uint8Array, group: number, size: number): void {
    let found = false
    cursor.enter()
    while (cursor.next()) {
      if (cursor.id === Group.ROWS && cursor.type === Thrift.I64) this.rows[group] = within(cursor.integer(), MAX_GROUP_ROWS)
      else if (cursor.id === Group.COLUMNS && cursor.type === Thrift.LIST) {
        found = true
        const count = cursor.list()
        if (count !== this.columns.length) throw new PageFault('a row group has other columns than the schema')
        for (let column = 0; column < count; column++) this.readChunk(cursor, bytes, group * count + column, column, size)
      } else cursor.skip(cursor.type)
    }
    if (!found) throw new PageFault('a row group has no columns')
  }

  private readChunk(cursor: ThriftCursor, bytes: Uint8Array, chunk: number, column: number, size: number): void {
    cursor.enter()
    while (cursor.next()) {
      if (cursor.id === Chunk.META && cursor.type === Thrift.STRUCT) this.readMeta(cursor, bytes, chunk, column)
      else if (cursor.id === Chunk.FILE_PATH) throw new PageFault('a chunk lies in another file')
      else cursor.skip(cursor.type)
    }
    const end = this.starts[chunk] + this.lengths[chunk]
    if (this.starts[chunk] < 4 || this.lengths[chunk] <= 0 || end > size) throw new PageFault('a chunk lies outside the file')
  }

  private readMeta(cursor: ThriftCursor, bytes: Uint8Array, chunk: number, column: number): void {
    let dictionary = 0
    cursor.enter()
    while (cursor.next()) {
      switch (cursor.id) {
        case Meta.TYPE:
          if (cursor.integer() !== this.columns[column].type) throw new PageFault('a chunk is of another type than its column')
          break
        case Meta.CODEC:
          this.codecs[chunk] = within(cursor.integer(), 255)
          break
        case Meta.UNPACKED:
          this.unpacked[chunk] = cursor.integer()
          break
        case Meta.COMPRESSED:
          this.lengths[chunk] = within(cursor.integer(), 0x7fffffff)
          break
        case Meta.DATA_PAGE:
          this.starts[chunk] = within(cursor.integer(), Number.MAX_SAFE_INTEGER)
          break
        case Meta.DICTIONARY_PAGE:
          dictionary = cursor.integer()
          break
        case Meta.STATISTICS:
          this.readStatistics(cursor, bytes, chunk, column)
          break
        default:
          cursor.skip(cursor.type)
      }
    }
    // Writers put 0 where there is none.
    if (dictionary > 0 && dictionary < this.starts[chunk]) this.starts[chunk] = dictionary
  }

  private readStatistics(cursor: ThriftCursor, bytes: Uint8Array, chunk: number, column: number): void {
    const width = widthOf(this.columns[column].type)
    cursor.enter()
    while (cursor.next()) {
      if (cursor.id === Statistics.NULLS) this.nulls[chunk] = within(cursor.integer(), 0x7fffffff)
      else if ((cursor.id === Statistics.MAX || cursor.id === Statistics.MIN) && cursor.type === Thrift.BINARY) {
        const length = cursor.length()
        const largest = cursor.id === Statistics.MAX
        if (length === width) {
          const to = (chunk * 2 + (largest ? 1 : 0)) * BOUND_BYTES
          for (let i = 0; i < length; i++) this.bounds.setUint8(to + i, bytes[cursor.at + i])
          this.known[chunk] |= largest ? 2 : 1
        }
        cursor.pass(length)
      } else cursor.skip(cursor.type)
    }
  }
}

function readSchema(cursor: ThriftCursor, bytes: Uint8Array): FooterColumn[] {
  const count = cursor.list()
  const columns: FooterColumn[] = []
  for (let i = 0; i < count; i++) {
    let type = -1
    let repetition: number = Repetition.REQUIRED
    let name = ''
    let children = 0
    cursor.enter()
    while (cursor.next()) {
      if (cursor.id === Schema.TYPE) type = cursor.integer()
      else if (cursor.id === Schema.REPETITION) repetition = cursor.integer()
      else if (cursor.id === Schema.CHILDREN) children = cursor.integer()
      else if (cursor.id === Schema.NAME && cursor.type === Thrift.BINARY) {
        const length = cursor.length()
        name = Buffer.from(bytes.buffer, bytes.byteOffset + cursor.at, length).toString()
        cursor.pass(length)
      } else cursor.skip(cursor.type)
    }
    if (i === 0) {
      if (children !== count - 1) throw new PageFault('a schema is nested')
      continue
    }
    if (children !== 0 || type < 0 || repetition === Repetition.REPEATED) throw new PageFault('a schema is nested')
    columns.push({ name, type, optional: repetition === Repetition.OPTIONAL })
  }
  return columns
}

/** Bytes of a bound that is kept. */
function widthOf(type: number): number {
  switch (type) {
    case Physical.BOOLEAN:
      return 1
    case Physical.INT32:
      return 4
    case Physical.INT64:
    case Physical.DOUBLE:
      return 8
    default:
      return -1
  }
}

function within(n: number, limit: number): number {
  if (n < 0 || n > limit) throw new PageFault('a footer has a number out of range')
  return n
}
