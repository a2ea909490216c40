/**
 * Writes the sidecar of a segment: from the rows of a memtable, or from the sidecars and files of the segments that are merged.
 *
 * Invariant: what was encrypted on disk is never handed to DuckDB in a merge, which might spill it: a statement gives the position of each
 * value in the order of the output, and the values are taken from there.
 */
import { closeSync, openSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import { crc32 } from 'node:zlib'
import type { FieldType } from 'svcdb'
import type { MergeSlice } from '../compaction/merge-slices.ts'
import { type Duck, sqlName, sqlType } from '../duckdb/duckdb.ts'
import { streamSql } from '../duckdb/stream.ts'
import { BLOCK_ROWS, type ChunkView } from '../memtable/chunk-view.ts'
import { FieldViews } from '../memtable/field-views.ts'
import { Gathered, GatheredColumn, heapBytes } from '../memtable/row-gather.ts'
import type { OrderedRows } from '../memtable/row-order.ts'
import { rawColumn, readSql } from '../read/sources.ts'
import { isSetSql } from '../segment/bits-column.ts'
import { type SegmentFiles, writeSegmentFile } from '../segment/segment-file.ts'
import type { FieldDef, TableDef } from '../threads/definitions.ts'
import { type SegmentColumn, type SegmentMeta, sidecarFile } from '../threads/segment-entry.ts'
import { type BlockBuilder, fixedWidth, hasValue } from './block.ts'
import { type ColumnLocation, columnLocation, type PlacedBlock } from './columns.ts'
import { hasDecrypted, ROW_NUMBER } from './encrypted-sql.ts'
import type { KeyRing } from './keys.ts'
import { type SidecarColumn, SidecarWriter } from './sidecar.ts'

type SidecarEntry = Required<Pick<SegmentMeta, 'sidecar' | 'sidecarBytes' | 'sidecarCrc' | 'created'>>

export const isEncrypted = ({ encoding }: SegmentColumn): boolean => encoding.kind === 'encrypted'

/**
 * Bytes of the texts of a segment that are encrypted, or will be in a merge; about, and 0 where they are few for its rows. What is still in the clear is
 * counted: a text that repeats stands once in a dictionary, and encrypted in each row.
 * @param columns of the merge's output.
 */
export async function encryptedBytes(segment: SegmentMeta, columns: readonly SegmentColumn[], { duck, dataDir }: SidecarTarget): Promise<number> {
  const texts = segment.columns.filter(({ type }) => fixedWidth(type) === 0)
  const sealed = texts.find(isEncrypted)
  const before = sealed === undefined ? 0 : duck.encrypted.longBytes(columnLocation(segment, sealed))
  const clear = texts.filter((column) => !isEncrypted(column) && columns.some((other) => other.field === column.field && isEncrypted(other)))
  if (clear.length === 0) return before
  const sums = clear.map(({ name, type }) => `coalesce(sum(${type === 'string' ? 'strlen' : 'octet_length'}(${sqlName(name)})), 0)`)
  const [{ bytes }] = await duck.run(`SELECT (${sums.join(' + ')})::DOUBLE AS bytes FROM ${readSql([join(dataDir, segment.file)])}`)
  return before + Number(bytes)
}

/**
 * The columns as they are named in the Parquet file: none may take the name of DuckDB's row number, by which encrypted values are found.
 */
export function namedForRowNumbers(columns: SegmentColumn[]): SegmentColumn[] {
  if (!columns.some(isEncrypted)) return columns
  const taken = new Set(columns.map(({ name }) => name.toLowerCase()))
  return columns.map((column) => {
    if (column.name.toLowerCase() !== ROW_NUMBER) return column
    let name = `${column.name}_`
    while (taken.has(name.toLowerCase())) name += '_'
    return { ...column, name }
  })
}

/** The key by which a merge encrypts each field; a field whose table is not known any more stays as it was encrypted last. */
export function mergedKeys(inputs: readonly SegmentMeta[], table: TableDef | undefined, keys: KeyRing): (field: number) => string | undefined {
  return (id) => {
    const known = table?.fields.find((field) => field.id === id)
    if (known !== undefined) return keys.keyOf(known.name)
    const encoding = inputs.flatMap(({ columns }) => columns).findLast((column) => column.field === id && isEncrypted(column))?.encoding
    return encoding?.kind === 'encrypted' ? encoding.key : undefined
  }
}

interface SidecarTarget {
  duck: Duck
  dataDir: string
  now(): number
  /** What the file becomes durable with; by default it is alone. */
  files?: SegmentFiles
}

async function writeSidecar(
  { duck, dataDir, now, files }: SidecarTarget,
  segment: { id: number; file: string; rows: number },
  columns: readonly SegmentColumn[],
  fill: (writer: SidecarWriter) => void | Promise<void>,
): Promise<SidecarEntry> {
  const sidecar = sidecarFile(segment.file)
  const created = now()
  const sealed = columns.map(({ name, type, encoding }): SidecarColumn => ({ name, type, key: encoding.kind === 'encrypted' ? encoding.key : '' }))
  let sidecarCrc = 0
  const write = async (path: string): Promise<void> => {
    const fd = openSync(path, 'w')
    try {
      const put = (bytes: Uint8Array): void => {
        sidecarCrc = crc32(bytes, sidecarCrc)
        for (let at = 0; at < bytes.length; ) at += writeSync(fd, bytes, at)
      }
      const writer = new SidecarWriter({ segment: segment.id, created }, sealed, duck.encrypted.keys, put)
      await fill(writer)
      const rows = writer.finish()
      if (rows !== segment.rows) throw new Error(`cannot write "${sidecar}": it would have ${rows} rows, its segment has ${segment.rows}`)
    } finally {
      closeSync(fd)
    }
  }
  const sidecarBytes = files === undefined ? await writeSegmentFile(dataDir, sidecar, write) : await files.write(sidecar, write)
  return { sidecar, sidecarBytes, sidecarCrc, created }
}

/** Puts the encrypted columns of a flush beside the segment. @returns nothing when it has none. */
export async function flushEncrypted(
  target: SidecarTarget,
  segment: { id: number; file: string; rows: number },
  columns: readonly SegmentColumn[],
  { chunks, heap, ordered, groups }: { chunks: readonly ChunkView[]; heap: readonly Uint8Array[]; ordered: OrderedRows; groups: Int32Array | undefined },
): Promise<Partial<SidecarEntry>> {
  const encrypted = columns.filter(isEncrypted)
  if (encrypted.length === 0) return {}
  return writeSidecar(target, segment, encrypted, (writer) => {
    const out = new Gathered()
    const picked = new Int32Array(BLOCK_ROWS)
    const views = new FieldViews(
      chunks,
      encrypted.map(({ field }) => field),
    )
    const sources = encrypted.map((column) => new GatheredColumn(views, column.field))
    const step = Math.min(BLOCK_ROWS, writer.step)
    for (let at = 0; at < segment.rows; at += step) {
      const n = Math.min(step, segment.rows - at)
      for (const [c, source] of sources.entries()) {
        const builder = writer.builders[c]
        let positions = ordered.rows.subarray(at, at + n)
        if (groups !== undefined) {
          positions = picked
          for (let i = 0; i < n; i++) picked[i] = source.lastSet(ordered.rows, groups[at + i], groups[at + i + 1])
        }
        source.gather(positions, 0, n, builder.width || 8, out)
        for (let i = 0; i < n; i++) {
          if (out.isNull(i)) builder.addNull()
          else if (builder.width > 0) builder.add(out.u8, i * builder.width, builder.width)
          else builder.add(heapBytes(heap, out.i32[i * 2], out.i32[i * 2 + 1]), 0, out.i32[i * 2 + 1])
        }
      }
      writer.writeFull()
    }
  })
}

/** A merged segment's rows as a statement gives them. */
export interface MergeSource {
  inputs: readonly SegmentMeta[]
  /** Makes the statement over a slice of all inputs, in the order of the output; `read` says what is read of an input for a field. */
  statement(fields: FieldDef[], read: (segment: SegmentMeta, field: FieldDef) => string, slice: MergeSlice): string
  /** Has all slices worked off in order, as SlicedWrite.read says. @param fields of a statement. */
  each(fields: number, work: (slice: MergeSlice) => Promise<number>): Promise<number>
}

/** A value's input is in the high half of its position, its row in the low one. */
const INPUT_SPAN = 2n ** 32n

/** Puts the encrypted columns of a merge beside the segment. @returns nothing when it has none. */
export async function mergeEncrypted(
  target: SidecarTarget,
  segment: { id: number; file: string; rows: number },
  columns: readonly SegmentColumn[],
  { inputs, statement, each }: MergeSource,
): Promise<Partial<SidecarEntry>> {
  const encrypted = columns.filter(isEncrypted)
  if (encrypted.length === 0) return {}
  const fields = encrypted.flatMap((column): FieldDef[] => {
    const { field: id, name, type, scale } = column
    const position: FieldDef = { id, name, type: 'int64', scale: 0, column: `p${id}` }
    // Values of inputs that hold the column in the clear come along.
    return inputs.some((input) => columnOf(input, id)?.encoding.kind !== 'encrypted') ? [position, { id, name, type, scale, column: `v${id}` }] : [position]
  })
  const read = (input: SegmentMeta, field: FieldDef): string => {
    const column = columnOf(input, field.id)
    const base = BigInt(inputs.indexOf(input)) * INPUT_SPAN
    const isPosition = field.column.startsWith('p')
    if (column === undefined) return isPosition ? 'NULL::BIGINT' : `NULL::${sqlType(field.type, field.scale)}`
    if (!isPosition) return isEncrypted(column) ? `NULL::${sqlType(field.type, field.scale)}` : rawColumn(input, field)
    if (isEncrypted(column)) return `CASE WHEN ${hasDecrypted(columnLocation(input, column))} THEN ${base} + ${ROW_NUMBER} END`
    return `CASE WHEN ${isSetSql(column)} THEN ${base}::BIGINT END`
  }
  return writeSidecar(target, segment, encrypted, async (writer) => {
    const fillers = encrypted.map((column, c) => new MergeFiller(target.duck, inputs, column, writer.builders[c]))
    let filled = 0
    let begin = 0
    await each(fields.length, async (slice) => {
      let at = begin
      for await (const { rows, columns: vectors } of streamSql(target.duck, statement(fields, read, slice), undefined)) {
        // Series and time stand before the fields.
        const vector = (name: string) => vectors.slice(-fields.length)[fields.findIndex(({ column }) => column === name)]
        const fills = encrypted.map(({ field }, c) => fillers[c].prepare(vector(`p${field}`), vector(`v${field}`)))
        for (let row = 0; row < rows; row++) {
          if (at++ < filled) continue // it came before the memory of an earlier try was at its end
          for (const fill of fills) fill(row)
          filled++
          writer.writeFull()
        }
      }
      const rows = at - begin
      begin = at
      return rows
    })
  })
}

const columnOf = (segment: SegmentMeta, field: number): SegmentColumn | undefined => segment.columns.find((column) => column.field === field)

interface Vector {
  values: ArrayLike<unknown>
  validity?: Uint8Array
}

/** Takes one column's values from where they lie. */
class MergeFiller {
  private readonly duck: Duck
  private readonly builder: BlockBuilder
  private readonly type: FieldType
  private readonly locations: (ColumnLocation | undefined)[]
  /** The block of each input read last: its rows come in order. */
  private readonly last: PlacedBlock[] = []

  constructor(duck: Duck, inputs: readonly SegmentMeta[], column: SegmentColumn, builder: BlockBuilder) {
    this.duck = duck
    this.builder = builder
    this.type = column.type
    this.locations = inputs.map((input) => {
      const found = columnOf(input, column.field)
      return found !== undefined && isEncrypted(found) ? columnLocation(input, found) : undefined
    })
  }

  prepare(positions: Vector, plain: Vector | undefined): (row: number) => void {
    const numbers = positions.values as BigInt64Array
    const halves = new Int32Array(numbers.buffer, numbers.byteOffset, numbers.length * 2)
    const bytes = plain === undefined ? undefined : plainBytes(this.type, plain.values)
    return (row) => {
      if (positions.validity !== undefined && positions.validity[row] === 0) return this.builder.addNull()
      const input = halves[row * 2 + 1]
      const location = this.locations[input]
      if (location !== undefined) return this.copy(input, location, halves[row * 2])
      const value = bytes!(row)
      this.builder.add(value, 0, value.length)
    }
  }

  private copy(input: number, location: ColumnLocation, at: number): void {
    let block = this.last[input]
    if (block === undefined || at < block.first || at >= block.first + block.rows) this.last[input] = block = this.duck.encrypted.blockOf(location, at)
    const { bits, values, offsets } = block
    const row = at - block.first
    if (!hasValue(bits, row)) throw new Error(`row ${at} of "${location.file}" has no value of "${location.name}"`)
    const { width } = this.builder
    if (offsets === undefined) this.builder.add(values, row * width, width)
    else this.builder.add(values, offsets[row], offsets[row + 1] - offsets[row])
  }
}

const encoder = new TextEncoder()

/** The bytes of values as DuckDB gives them (vectors.ts). */
function plainBytes(type: FieldType, values: ArrayLike<unknown>): (row: number) => Uint8Array {
  if (type === 'string') return (row) => encoder.encode(values[row] as string)
  if (type === 'histogram') return (row) => values[row] as Uint8Array
  if (type === 'decimal') {
    const view = new DataView(new ArrayBuffer(16))
    return (row) => {
      view.setBigInt64(0, BigInt.asIntN(64, values[row] as bigint), true)
      view.setBigInt64(8, (values[row] as bigint) >> 64n, true)
      return new Uint8Array(view.buffer)
    }
  }
  const { buffer, byteOffset } = values as Float64Array
  const width = fixedWidth(type)
  return (row) => new Uint8Array(buffer, byteOffset + row * width, width)
}
