/**
 * One batch of a client: arrays over the body's own memory, once lengths, offsets and sizes are known to be within it. What is misaligned,
 * compressed or laid out as views is copied.
 */
import { type Data, makeData } from 'apache-arrow/data'
import { Type } from 'apache-arrow/enum'
import type { DenseUnion, Dictionary } from 'apache-arrow/type'
import { Vector } from 'apache-arrow/vector'
import type { SvcError } from '../errors/index.ts'
import { decodeLz4 } from '../lz4/index.ts'
import { decompress } from '../network/index.ts'
import { indicesOf, rowOutside, rowsWithValue } from './dictionary-rows.ts'
import type { FlatTable } from './flatbuffer.ts'
import { type Layout, refused } from './layout.ts'

/** Bounds of what a client may send. */
export interface ReadLimits {
  /** Columns of a schema, with the members of nested ones. */
  maxColumns: number
  /** Rows of a batch. */
  maxRows: number
  /** Bytes of a batch once it is decompressed. */
  maxBytes: number
}

const MAX_LENGTH = 2 ** 31 - 2
const VIEW = 16
const INLINE = 12
const LZ4 = 0
const ZSTD = 1

const NONE = new Uint8Array(0)

export class BatchReader {
  readonly rows: number
  private readonly nodes: number[]
  private readonly buffers: number[]
  private readonly views: number[]
  private readonly codec: number | undefined
  private readonly body: Uint8Array
  private readonly dictionaries: ReadonlyMap<number, Vector>
  private node = 0
  private buffer = 0
  private view = 0
  /** Bytes that may still be made. */
  private budget: number
  private readonly maxBytes: number
  private column = ''
  /** Of a batch that is compressed, its buffers, once they are unpacked. */
  private unpacked: Uint8Array[] | undefined

  /** @param table a RecordBatch. @throws RangeError when it is corrupt. */
  constructor(table: FlatTable, body: Uint8Array, dictionaries: ReadonlyMap<number, Vector>, { maxRows, maxBytes }: Pick<ReadLimits, 'maxRows' | 'maxBytes'>) {
    this.rows = table.int64(0)
    this.nodes = table.longs(1, 2)
    this.buffers = table.longs(2, 2)
    this.codec = table.table(3)?.uint8(0)
    this.views = table.longs(4, 1)
    this.body = new Uint8Array(body.buffer, body.byteOffset, body.byteLength)
    this.dictionaries = dictionaries
    this.budget = this.maxBytes = maxBytes
    if (this.rows < 0 || this.rows > maxRows) throw refused(`a batch of ${this.rows} rows; at most ${maxRows} are allowed, send smaller batches`)
    // They lie end to end (Arrow Columnar Format, "RecordBatch message"). Overlapping ones would have the same bytes read and copied any number of times.
    let used = 0
    for (let i = 1; i < this.buffers.length; i += 2) used += Math.max(0, this.buffers[i])
    if (used > body.length) throw refused(`a batch has buffers of ${used} bytes in a body of ${body.length}`)
    if (this.codec !== undefined && this.codec !== LZ4 && this.codec !== ZSTD) throw refused('a batch is compressed in an unknown way; use LZ4 or ZSTD')
  }

  /** Bytes made besides the body. */
  get made(): number {
    return this.maxBytes - this.budget
  }

  /**
   * Decompresses the buffers beside the main thread, or in turns. Call it before `read`.
   * @throws BAD_REQUEST
   */
  async unpack(): Promise<void> {
    if (this.codec === undefined) return
    this.unpacked = []
    for (let i = 0; i < this.buffers.length; i += 2) this.unpacked.push(await this.decompressed(this.stored(this.buffers[i], this.buffers[i + 1]), i / 2))
  }

  /** @throws BAD_REQUEST */
  read(columns: readonly Layout[]): Data[] {
    const data = columns.map((column) => {
      this.column = column.name
      const read = this.array(column)
      if (read.length !== this.rows) throw this.corrupt(`it has ${read.length} rows in a batch of ${this.rows}`)
      return read
    })
    if (2 * this.node !== this.nodes.length || 2 * this.buffer !== this.buffers.length) throw refused('a batch has more parts than its schema')
    return data
  }

  private array(layout: Layout): Data {
    const { type, wire } = layout
    const length = this.nodes[2 * this.node] ?? -1
    const nulls = this.nodes[2 * this.node + 1] ?? -1
    this.node++
    if (length < 0 || length > MAX_LENGTH || nulls > length) throw this.corrupt(`it has ${length} values, ${nulls} of them missing`)
    if (wire === Type.Null) {
      // Takes no bytes: nothing but the batch's own length bounds it.
      if (length > this.rows) throw this.corrupt(`it has ${length} values in a batch of ${this.rows}`)
      return make({ type, length })
    }
    if (wire === Type.Union) return this.union(layout, length)
    const validity = this.validity(length, nulls)
    const base = { type, length, ...validity }
    switch (wire) {
      case Type.Bool:
        return make({ ...base, data: this.exactly(this.bytes(), Math.ceil(length / 8)) })
      case Type.Utf8:
      case Type.Binary: {
        const valueOffsets = this.offsets(length, 4)
        const data = this.bytes()
        this.within(valueOffsets[length], data.length)
        return make({ ...base, valueOffsets, data })
      }
      case Type.LargeUtf8:
      case Type.LargeBinary: {
        const valueOffsets = this.offsets(length, 8)
        const data = this.bytes()
        this.within(valueOffsets[length], data.length)
        return make({ ...base, valueOffsets, data })
      }
      case Type.Utf8View:
      case Type.BinaryView:
        return make({ ...base, ...this.fromViews(length, validity.nullBitmap) })
      case Type.List:
      case Type.LargeList:
      case Type.Map: {
        const valueOffsets = this.offsets(length, wire === Type.LargeList ? 8 : 4)
        const child = this.array(layout.children[0])
        this.within(valueOffsets[length], child.length)
        return make({ ...base, valueOffsets, child })
      }
      case Type.FixedSizeList: {
        const child = this.array(layout.children[0])
        this.within(length * (type as unknown as { listSize: number }).listSize, child.length)
        return make({ ...base, child })
      }
      case Type.Struct: {
        const children = layout.children.map((each) => this.array(each))
        for (const child of children) if (child.length !== length) throw this.corrupt(`a member has ${child.length} values where ${length} are expected`)
        if (children.length === 0 && length > this.rows) throw this.corrupt(`it has ${length} values in a batch of ${this.rows}`)
        return make({ ...base, children })
      }
      default:
        return this.fixed(layout, base)
    }
  }

  /** It has no bitmap: a value is missing where its member has none. */
  private union({ type, children: members }: Layout, length: number): Data {
    const ids = this.exactly(this.bytes(), length)
    const typeIds = new Int8Array(ids.buffer, ids.byteOffset, length)
    const places = this.exactly(this.bytes(), length * 4)
    const valueOffsets = new Int32Array(places.buffer, places.byteOffset, length)
    const children = members.map((each) => this.array(each))
    const { typeIdToChildIndex } = type as unknown as DenseUnion
    for (let i = 0; i < length; i++) {
      const member = children[typeIdToChildIndex[typeIds[i]]]
      if (member === undefined) throw this.corrupt(`row ${i} is of type ${typeIds[i]}, which its union does not have`)
      if (valueOffsets[i] < 0 || valueOffsets[i] >= member.length)
        throw this.corrupt(`row ${i} is at ${valueOffsets[i]} of ${member.length} values of its type`)
    }
    return make({ type, length, nullCount: 0, typeIds, valueOffsets, children })
  }

  private fixed(layout: Layout, base: { type: Layout['type']; length: number; nullBitmap: Uint8Array }): Data {
    const { width, wire, dictionary } = layout
    const data = this.exactly(this.bytes(), base.length * width)
    if (wire === Type.Decimal && width < 16) {
      this.spend(base.length * 16)
      return make({ ...base, data: widened(data, width) })
    }
    if (dictionary === undefined) return make({ ...base, data })
    const entries = this.dictionaries.get(dictionary) ?? new Vector([make({ type: (layout.type as unknown as Dictionary).dictionary, length: 0 })])
    const read = make({ ...base, data, dictionary: entries })
    const outside = rowOutside(read, base.nullBitmap)
    if (outside >= 0) throw this.corrupt(`row ${outside} refers to entry ${indicesOf(read)[outside]} of a dictionary that has ${entries.length}`)
    if (entries.nullCount === 0) return read
    this.spend(Math.ceil(base.length / 8))
    return make({ ...base, ...rowsWithValue(read, base.nullBitmap), data, dictionary: entries })
  }

  private validity(length: number, nulls: number): { nullCount: number; nullBitmap: Uint8Array } {
    const bytes = this.bytes()
    if (nulls === 0 || length === 0 || (nulls < 0 && bytes.length === 0)) return { nullCount: 0, nullBitmap: NONE }
    const bitmap = this.exactly(bytes, Math.ceil(length / 8))
    let present = 0
    for (let i = 0; i < length >> 3; i++) present += BIT_COUNTS[bitmap[i]]
    if ((length & 7) > 0) present += BIT_COUNTS[bitmap[length >> 3] & ((1 << (length & 7)) - 1)]
    return present === length ? { nullCount: 0, nullBitmap: NONE } : { nullCount: length - present, nullBitmap: bitmap }
  }

  /** Ascending and not negative; the last one is still to be compared with what they are offsets in. */
  private offsets(length: number, width: 4 | 8): Int32Array {
    const bytes = this.bytes()
    if (length === 0 && bytes.length === 0) return new Int32Array(1)
    const raw = this.exactly(bytes, (length + 1) * width)
    const words = new Int32Array(raw.buffer, raw.byteOffset, raw.length / 4)
    let offsets = words
    if (width === 8) {
      this.spend((length + 1) * 4)
      offsets = new Int32Array(length + 1)
      for (let i = 0; i <= length; i++) {
        if (words[2 * i + 1] !== 0) throw this.corrupt('an offset is beyond 2 GiB')
        offsets[i] = words[2 * i]
      }
    }
    let last = 0
    for (let i = 0; i <= length; i++) {
      if (offsets[i] < last) throw this.corrupt('its offsets do not ascend')
      last = offsets[i]
    }
    return offsets
  }

  /** Text or bytes as views, laid out as plain ones. */
  private fromViews(length: number, bitmap: Uint8Array): { valueOffsets: Int32Array; data: Uint8Array } {
    const raw = this.exactly(this.bytes(), length * VIEW)
    const views = new DataView(raw.buffer, raw.byteOffset, raw.length)
    const count = this.views[this.view++] ?? 0
    if (count < 0 || count > this.buffers.length / 2 - this.buffer) throw this.corrupt('it has more buffers than the batch')
    const heaps = Array.from({ length: count }, () => this.bytes())
    this.spend((length + 1) * 4)
    const valueOffsets = new Int32Array(length + 1)
    const present = (i: number): boolean => bitmap.length === 0 || ((bitmap[i >> 3] >> (i & 7)) & 1) === 1
    let total = 0
    for (let i = 0; i < length; i++) {
      const size = present(i) ? views.getInt32(i * VIEW, true) : 0
      if (size < 0 || (total += size) > MAX_LENGTH) throw this.corrupt('a value has no valid length')
      valueOffsets[i + 1] = total
    }
    this.spend(total)
    const data = new Uint8Array(total)
    for (let i = 0; i < length; i++) {
      const size = valueOffsets[i + 1] - valueOffsets[i]
      const at = i * VIEW
      const heap = size <= INLINE ? raw : heaps[views.getInt32(at + 8, true)]
      const from = size <= INLINE ? at + 4 : views.getInt32(at + 12, true)
      if (size === 0) continue
      if (heap === undefined || from < 0 || from + size > heap.length) throw this.corrupt(`the value of row ${i} is not in the batch`)
      data.set(heap.subarray(from, from + size), valueOffsets[i])
    }
    return { valueOffsets, data }
  }

  /** The next buffer, aligned to 8 and decompressed. */
  private bytes(): Uint8Array {
    const at = this.buffer++
    const unpacked = this.unpacked?.[at]
    if (unpacked !== undefined) return unpacked
    const bytes = this.stored(this.buffers[2 * at] ?? -1, this.buffers[2 * at + 1] ?? -1)
    return (bytes.byteOffset & 7) === 0 ? bytes : new Uint8Array(bytes)
  }

  private stored(offset: number, length: number): Uint8Array {
    if (length === 0) return NONE
    if (offset < 0 || length < 0 || offset + length > this.body.length) throw this.corrupt('it is not wholly in the body of its message')
    return this.body.subarray(offset, offset + length)
  }

  private async decompressed(bytes: Uint8Array, buffer: number): Promise<Uint8Array> {
    if (bytes.length === 0) return NONE
    const bad = (cause: string): SvcError => refused(`buffer ${buffer} of a batch is corrupt: ${cause}`)
    if (bytes.length < 8) throw bad('a compressed buffer has no length')
    const view = new DataView(bytes.buffer, bytes.byteOffset, 8)
    const size = view.getInt32(4, true) * 2 ** 32 + view.getUint32(0, true)
    const rest = Buffer.from(bytes.buffer, bytes.byteOffset + 8, bytes.length - 8)
    if (size === -1) return new Uint8Array(rest)
    if (size < 0) throw bad('a compressed buffer has a negative length')
    this.spend(size)
    if (size === 0) return NONE
    try {
      const out = this.codec === LZ4 ? await decodeLz4(rest, size, size) : await decompress(rest, 'zstd', size)
      if (out.length !== size) throw new RangeError(`${out.length} bytes where ${size} are announced`)
      return (out.byteOffset & 7) === 0 ? new Uint8Array(out.buffer, out.byteOffset, size) : new Uint8Array(out)
    } catch (error) {
      throw bad(`it does not decompress: ${(error as Error).message}`)
    }
  }

  private spend(bytes: number): void {
    this.budget -= bytes
    if (this.budget < 0) throw refused('a batch takes too much memory once it is unpacked; send smaller batches')
  }

  private exactly(bytes: Uint8Array, size: number): Uint8Array {
    if (bytes.length < size) throw this.corrupt(`a buffer has ${bytes.length} bytes where ${size} are needed`)
    return bytes.subarray(0, size)
  }

  private within(end: number, length: number): void {
    if (end > length) throw this.corrupt(`its offsets reach ${end} in ${length}`)
  }

  private corrupt(cause: string): SvcError {
    return refused(`column "${this.column}" is corrupt: ${cause}`)
  }
}

const BIT_COUNTS = Uint8Array.from({ length: 256 }, (_, byte) => byte.toString(2).replaceAll('0', '').length)

/** Decimals of 32 and 64 bits as such of 128. */
function widened(data: Uint8Array, width: number): Uint8Array {
  const words = new Int32Array(data.buffer, data.byteOffset, data.length / 4)
  const lanes = width / 4
  const out = new Int32Array((words.length / lanes) * 4)
  for (let i = 0, at = 0; i < words.length; i += lanes, at += 4) {
    const sign = words[i + lanes - 1] >> 31
    for (let lane = 0; lane < 4; lane++) out[at + lane] = lane < lanes ? words[i + lane] : sign
  }
  return new Uint8Array(out.buffer)
}

/** The types of apache-arrow's makeData follow each type's class, which is known here only at run time. */
function make(parts: object): Data {
  return makeData(parts as never)
}
