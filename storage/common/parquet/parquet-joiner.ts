/**
 * Joins Parquet files of one schema into one, row group by row group: the bytes of a row group are copied as they are, and the footer says where
 * they lie now. So a file of any size is made out of small ones, in little memory, and can end after any row group.
 *
 * Invariants: the parts have no page indexes, so that a part is its row groups, one after the other, and then its bloom filters, between the magic and
 * the footer; a part with bloom filters is taken whole; `position` is the length of what is written. Format: https://parquet.apache.org/docs/file-format/
 */
import { type FileHandle, open } from 'node:fs/promises'
import { type JoinedColumn, joinedPath, joinedSchema } from './joined-columns.ts'
import { fieldOf, readStruct, type ThriftField, type ThriftList, type ThriftStruct, ThriftType, writeStruct, writeWithList } from './thrift-compact.ts'

const MAGIC = Buffer.from('PAR1')
/** Length of the footer and the magic. */
const TAIL = 8
const COPY_BYTES = 1 << 20
/** Ids of parquet.thrift. */
const File = { SCHEMA: 2, ROWS: 3, ROW_GROUPS: 4 } as const
const Group = { COLUMNS: 1, ROWS: 3, FILE_OFFSET: 5, ORDINAL: 7 } as const
const Chunk = { FILE_OFFSET: 2, META: 3, INDEX_FIRST: 4 } as const
const Column = { PATH: 3, DATA_PAGE: 9, INDEX_PAGE: 10, DICTIONARY_PAGE: 11, BLOOM_FILTER: 14 } as const

export class ParquetJoiner {
  /** Rows of the groups taken. */
  rows = 0
  private readonly file: FileHandle
  private readonly columns: readonly JoinedColumn[] | undefined
  private position = 0
  private readonly groups: Uint8Array[] = []
  /** The footer of the first part: schema, key-value metadata, writer. */
  private footer: ThriftStruct | undefined
  private schema: Uint8Array | undefined
  private readonly buffer = Buffer.allocUnsafeSlow(COPY_BYTES)

  private constructor(file: FileHandle, columns: readonly JoinedColumn[] | undefined) {
    this.file = file
    this.columns = columns
  }

  /** @param path must not exist. @param columns one for each of the parts; as the parts say when absent. */
  static async create(path: string, columns?: readonly JoinedColumn[]): Promise<ParquetJoiner> {
    return new ParquetJoiner(await open(path, 'wx'), columns)
  }

  /**
   * Adds the row groups of a part, in order, as long as the file is shorter than `maxBytes` before each.
   * @returns whether all were added. @throws Error for a part of another schema, with indexes, or with bloom filters where there is a limit.
   */
  async append(path: string, maxBytes: number): Promise<boolean> {
    const part = await open(path, 'r')
    try {
      const { size } = await part.stat()
      const footer = await readFooter(part, size, path)
      const schema = writeStruct([fieldOf(footer.struct, File.SCHEMA)!])
      this.footer ??= footer.struct
      this.schema ??= schema
      if (Buffer.compare(schema, this.schema) !== 0) throw new Error(`cannot join "${path}": its schema is not that of the parts before it`)
      if (this.position === 0) await this.write(MAGIC)
      const groups = (fieldOf(footer.struct, File.ROW_GROUPS)!.value as ThriftList).items as ThriftStruct[]
      const starts = [...groups.map((group) => groupStart(group, maxBytes)), footer.start]
      for (const [i, group] of groups.entries()) {
        if (this.position >= maxBytes) return false
        const shift = BigInt(this.position - starts[i])
        await this.copy(part, starts[i], starts[i + 1])
        this.groups.push(writeStruct(moved(group, shift, this.columns)))
        this.rows += Number(fieldOf(group, Group.ROWS)!.value)
      }
      return true
    } finally {
      await part.close()
    }
  }

  /** Writes the footer and makes the file durable. @returns its size. */
  async finish(): Promise<number> {
    if (this.footer === undefined) throw new Error('cannot finish a Parquet file: it has no parts, and so no schema')
    const whole = this.footer.map((field): ThriftField => {
      if (field.id === File.ROWS) return { ...field, value: BigInt(this.rows) }
      if (field.id === File.SCHEMA && this.columns !== undefined) return { ...field, value: joinedSchema(field.value as ThriftList, this.columns) }
      return field
    })
    const footer = writeWithList(whole, File.ROW_GROUPS, ThriftType.STRUCT, this.groups)
    const tail = Buffer.alloc(TAIL)
    tail.writeUInt32LE(footer.length, 0)
    MAGIC.copy(tail, 4)
    await this.write(footer)
    await this.write(tail)
    await this.file.sync()
    return this.position
  }

  async close(): Promise<void> {
    await this.file.close()
  }

  private async copy(part: FileHandle, from: number, to: number): Promise<void> {
    for (let at = from; at < to; ) {
      const { bytesRead } = await part.read(this.buffer, 0, Math.min(COPY_BYTES, to - at), at)
      if (bytesRead === 0) throw new Error('cannot join a Parquet file: it has become shorter')
      await this.write(this.buffer.subarray(0, bytesRead))
      at += bytesRead
    }
  }

  private async write(bytes: Uint8Array): Promise<void> {
    for (let at = 0; at < bytes.length; ) {
      const { bytesWritten } = await this.file.write(bytes, at, bytes.length - at, this.position)
      at += bytesWritten
      this.position += bytesWritten
    }
  }
}

async function readFooter(part: FileHandle, size: number, path: string): Promise<{ struct: ThriftStruct; start: number }> {
  const tail = Buffer.alloc(TAIL)
  await part.read(tail, 0, TAIL, Math.max(0, size - TAIL))
  const length = tail.readUInt32LE(0)
  const start = size - TAIL - length
  if (Buffer.compare(tail.subarray(4), MAGIC) !== 0 || start < MAGIC.length) throw new Error(`cannot join "${path}": it is no Parquet file`)
  const bytes = Buffer.alloc(length)
  await part.read(bytes, 0, length, start)
  return { struct: readStruct(bytes), start }
}

/** Where the first page of a row group lies. */
function groupStart(group: ThriftStruct, maxBytes: number): number {
  let start = Number.POSITIVE_INFINITY
  for (const chunk of (fieldOf(group, Group.COLUMNS)!.value as ThriftList).items as ThriftStruct[]) {
    const meta = fieldOf(chunk, Chunk.META)!.value as ThriftStruct
    if (chunk.some(({ id }) => id >= Chunk.INDEX_FIRST)) throw new Error('cannot join a Parquet file with page indexes')
    if (fieldOf(meta, Column.BLOOM_FILTER) !== undefined && maxBytes !== Number.POSITIVE_INFINITY)
      throw new Error('cannot join a part of a Parquet file with bloom filters: they lie behind all of its row groups')
    for (const { id, value } of meta) if (isPageOffset(id) && Number(value) >= MAGIC.length) start = Math.min(start, Number(value))
  }
  return start
}

/** The row group as it stands elsewhere. Its place among the groups, which has 16 bits, is left out. */
function moved(group: ThriftStruct, shift: bigint, columns: readonly JoinedColumn[] | undefined): ThriftStruct {
  return group
    .filter(({ id }) => id !== Group.ORDINAL)
    .map((field) => {
      if (field.id === Group.FILE_OFFSET) return shifted(field, shift)
      if (field.id !== Group.COLUMNS) return field
      const { type, items } = field.value as ThriftList
      return { ...field, value: { type, items: (items as ThriftStruct[]).map((chunk, i) => movedChunk(chunk, shift, columns?.[i])) } }
    })
}

function movedChunk(chunk: ThriftStruct, shift: bigint, column: JoinedColumn | undefined): ThriftStruct {
  return chunk.map((field) => {
    if (field.id === Chunk.FILE_OFFSET) return shifted(field, shift)
    if (field.id !== Chunk.META) return field
    const members = (field.value as ThriftStruct).map((member) => {
      if (member.id === Column.PATH && column !== undefined) return joinedPath(member, column)
      return isPageOffset(member.id) || member.id === Column.BLOOM_FILTER ? shifted(member, shift) : member
    })
    return { ...field, value: members }
  })
}

function isPageOffset(id: number): boolean {
  return id === Column.DATA_PAGE || id === Column.INDEX_PAGE || id === Column.DICTIONARY_PAGE
}

/** Writers put 0 where they do not know an offset. */
function shifted(field: ThriftField, shift: bigint): ThriftField {
  const value = field.value as bigint
  return value < MAGIC.length ? field : { ...field, value: value + shift }
}
