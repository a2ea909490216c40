/**
 * The pages of a chunk as typed arrays, a value a row, as they are stored. A decoder keeps its memory: one a thread, one chunk at a time.
 *
 * Reads data pages of version 1 and 2, uncompressed or by zstd or LZ4, of flat columns, in the encodings DuckDB writes: PLAIN, dictionaries,
 * DELTA_BINARY_PACKED, BYTE_STREAM_SPLIT, RLE for booleans. All lengths are checked before anything is read by them; what it does not know, or what
 * does not fit together, is a PageFault.
 */
import { Decompressor } from './codec.ts'
import { DeltaDecoder } from './delta.ts'
import { type Footer, Physical } from './footer.ts'
import { decodeHybrid } from './hybrid.ts'
import { milliseconds, restOf } from './nanoseconds.ts'
import { PageFault } from './page-fault.ts'
import { Encoding, type PageHeader, PageType, readPageHeader } from './page-header.ts'

/** Of a chunk's rows, a byte each: 1 where there is a value; undefined when there is one in all. */
export type Validity = Uint8Array | undefined

/** Where decoded values go: one of the arrays a page is for, and how many numbers of it a value takes. */
interface Target {
  type: number
  values: Int32Array | Float64Array | Uint8Array
  perValue: number
  /** Of times: the values are milliseconds. */
  rests?: Int32Array
}

const NO_BYTES = new Uint8Array(0)

export class ColumnDecoder {
  private readonly decompressor = new Decompressor()
  private readonly delta = new DeltaDecoder()
  private codes = new Int32Array(4096)
  private levels = new Uint8Array(4096)
  private halves = new Int32Array(4096)
  private dictionary: { bytes: Uint8Array; entries: number } = { bytes: NO_BYTES, entries: 0 }

  /** @param bytes the chunk. @param out room for the row group's rows. @returns which rows have a value; valid until the next call. @throws PageFault, as the others do. */
  int32(footer: Footer, group: number, column: number, bytes: Uint8Array, out: Int32Array): Validity {
    return this.chunk(footer, group, column, bytes, { type: Physical.INT32, values: out, perValue: 1 })
  }

  /** INT64, the low half first: two numbers a row. */
  int64(footer: Footer, group: number, column: number, bytes: Uint8Array, out: Int32Array): Validity {
    return this.chunk(footer, group, column, bytes, { type: Physical.INT64, values: out, perValue: 2 })
  }

  /** INT64 that are nanoseconds, within 2^63 of each other, as whole milliseconds rounded down and the nanoseconds beyond. */
  times(footer: Footer, group: number, column: number, bytes: Uint8Array, ms: Float64Array, rests: Int32Array): Validity {
    return this.chunk(footer, group, column, bytes, { type: Physical.INT64, values: ms, perValue: 1, rests })
  }

  double(footer: Footer, group: number, column: number, bytes: Uint8Array, out: Float64Array): Validity {
    return this.chunk(footer, group, column, bytes, { type: Physical.DOUBLE, values: out, perValue: 1 })
  }

  /** 0 or 1 a row. */
  boolean(footer: Footer, group: number, column: number, bytes: Uint8Array, out: Uint8Array): Validity {
    return this.chunk(footer, group, column, bytes, { type: Physical.BOOLEAN, values: out, perValue: 1 })
  }

  private chunk(footer: Footer, group: number, column: number, bytes: Uint8Array, target: Target): Validity {
    const { type, optional } = footer.columns[column]
    if (type !== target.type) throw new PageFault(`a column is of type ${type}`)
    const codec = footer.codecs[group * footer.columns.length + column]
    const rows = footer.rows[group]
    if (target.values.length < rows * target.perValue) throw new RangeError('cannot decode a chunk: there is no room for its rows')
    this.dictionary = { bytes: NO_BYTES, entries: 0 }
    let row = 0
    let nulls = false
    for (let at = 0; at < bytes.length && row < rows; ) {
      const header = readPageHeader(bytes, at, bytes.length)
      at = header.at + header.compressed
      if (header.type === PageType.DICTIONARY) this.keepDictionary(header, codec, bytes, type)
      if (header.type === PageType.DICTIONARY || header.type === PageType.INDEX) continue
      if (header.values === 0 || header.values > rows - row) throw new PageFault('a page has other rows than its row group')
      if (this.page(header, codec, bytes, optional, target, row, nulls)) nulls = true
      row += header.values
    }
    if (row !== rows) throw new PageFault('a chunk has other rows than its row group')
    return nulls ? this.levels.subarray(0, rows) : undefined
  }

  /** @param nulls a page before it had some. @returns whether this one has. */
  private page(header: PageHeader, codec: number, bytes: Uint8Array, optional: boolean, target: Target, row: number, nulls: boolean): boolean {
    const { at, compressed, size, values, type } = header
    const end = at + compressed
    let levels = bytes
    let levelsFrom = at
    let levelsTo = at
    let body: Uint8Array
    let from = 0
    if (type === PageType.DATA_V2) {
      levelsTo = at + header.levelBytes
      if (levelsTo > end || header.levelBytes > size) throw new PageFault('a page ends early')
      body = header.isCompressed ? this.decompressor.decompress(codec, bytes, levelsTo, end, size - header.levelBytes) : bytes.subarray(levelsTo, end)
    } else if (type === PageType.DATA) {
      body = this.decompressor.decompress(codec, bytes, at, end, size)
      if (optional) {
        if (body.length < 4) throw new PageFault('a page ends early')
        const length = (body[0] | (body[1] << 8) | (body[2] << 16) | (body[3] << 24)) >>> 0
        if (length > body.length - 4) throw new PageFault('a page ends early')
        levels = body
        levelsFrom = 4
        from = levelsTo = 4 + length
      }
    } else throw new PageFault(`a page is of type ${type}`)
    const set = optional ? this.readLevels(levels, levelsFrom, levelsTo, row, values, nulls) : values
    if (set > 0) this.values(header.encoding, body, from, target, row, set)
    if (set < values) spread(target, this.levels, row, values, set)
    return set < values
  }

  /** @returns how many rows have a value. */
  private readLevels(bytes: Uint8Array, from: number, to: number, row: number, values: number, nulls: boolean): number {
    // One run of ones is all that a page without nulls has.
    if (!nulls && isRunOfOnes(bytes, from, to, values)) {
      this.levelRoom(row, values).fill(1, row, row + values)
      return values
    }
    const levels = this.levelRoom(row, values)
    decodeHybrid(bytes, from, to, 1, levels, row, values)
    let set = 0
    for (let i = row; i < row + values; i++) set += levels[i]
    return set
  }

  private levelRoom(row: number, values: number): Uint8Array {
    if (this.levels.length < row + values) {
      const grown = new Uint8Array((row + values) * 2)
      grown.set(this.levels)
      this.levels = grown
    }
    return this.levels
  }

  private values(encoding: number, body: Uint8Array, from: number, target: Target, row: number, count: number): void {
    switch (encoding) {
      case Encoding.DELTA_BINARY_PACKED:
        if (target.rests !== undefined) this.delta.toTimes(body, from, body.length, target.values as Float64Array, target.rests, row, count)
        else if (target.type === Physical.INT32) this.delta.toInt32(body, from, body.length, target.values as Int32Array, row, count)
        else if (target.type === Physical.INT64) this.delta.toInt64(body, from, body.length, target.values as Int32Array, row, count)
        else throw new PageFault(`a column of type ${target.type} has differences`)
        return
      case Encoding.PLAIN:
        if (target.type === Physical.BOOLEAN) return bits(body, from, target.values as Uint8Array, row, count)
        return this.plain(body, from, target, row, count, undefined)
      case Encoding.PLAIN_DICTIONARY:
      case Encoding.RLE_DICTIONARY: {
        if (from >= body.length) throw new PageFault('a page ends early')
        const codes = this.codeRoom(count)
        decodeHybrid(body, from + 1, body.length, body[from], codes, 0, count)
        const { entries, bytes } = this.dictionary
        for (let i = 0; i < count; i++) if (codes[i] < 0 || codes[i] >= entries) throw new PageFault('a page has codes beyond its dictionary')
        return this.plain(bytes, 0, target, row, count, codes)
      }
      case Encoding.BYTE_STREAM_SPLIT:
        return this.split(body, from, target, row, count)
      case Encoding.RLE: {
        if (target.type !== Physical.BOOLEAN || body.length - from < 4) throw new PageFault('a page has runs of what are no booleans')
        return decodeHybrid(body, from + 4, body.length, 1, target.values as Uint8Array, row, count)
      }
      default:
        throw new PageFault(`a page has encoding ${encoding}`)
    }
  }

  /** Values as they are, or those that codes stand for. */
  private plain(body: Uint8Array, from: number, target: Target, row: number, count: number, codes: Int32Array | undefined): void {
    const width = target.type === Physical.INT32 ? 4 : 8
    if (target.type === Physical.BOOLEAN || (codes === undefined && (body.length - from) / width < count)) throw new PageFault('a page ends early')
    if (target.type === Physical.INT32) return plainInt32(body, from, target.values as Int32Array, row, count, codes)
    if (target.rests === undefined) {
      const { buffer, byteOffset, length } = target.values
      const halves = target.type === Physical.DOUBLE ? new Int32Array(buffer, byteOffset, length * 2) : (target.values as Int32Array)
      return plainHalves(body, from, halves, row, count, codes)
    }
    const halves = this.halfRoom(count)
    plainHalves(body, from, halves, 0, count, codes)
    timesOf(halves, target.values as Float64Array, target.rests, row, count)
  }

  /** The first bytes of all values, then their second ones, and so on. */
  private split(body: Uint8Array, from: number, target: Target, row: number, count: number): void {
    const width = target.type === Physical.INT32 ? 4 : 8
    if (target.type === Physical.BOOLEAN || target.rests !== undefined) throw new PageFault('a page is split by bytes')
    if ((body.length - from) / width < count) throw new PageFault('a page ends early')
    const { buffer, byteOffset } = target.values
    const out = new Uint8Array(buffer, byteOffset + row * width, count * width)
    for (let byte = 0, at = from; byte < width; byte++) for (let i = byte; i < out.length; i += width) out[i] = body[at++]
  }

  private keepDictionary(header: PageHeader, codec: number, bytes: Uint8Array, type: number): void {
    const width = type === Physical.INT32 ? 4 : 8
    const { encoding, values, at, compressed, size } = header
    if ((encoding !== Encoding.PLAIN && encoding !== Encoding.PLAIN_DICTIONARY) || type === Physical.BOOLEAN) throw new PageFault('a dictionary is encoded')
    const body = this.decompressor.decompress(codec, bytes, at, at + compressed, size)
    if (body.length / width < values) throw new PageFault('a page ends early')
    // The next page is decompressed to the same place.
    this.dictionary = { bytes: body.slice(), entries: values }
  }

  private codeRoom(count: number): Int32Array {
    if (this.codes.length < count) this.codes = new Int32Array(count * 2)
    return this.codes
  }

  private halfRoom(count: number): Int32Array {
    if (this.halves.length < count * 2) this.halves = new Int32Array(count * 4)
    return this.halves
  }
}

/** Whether levels are a single run of ones of at least `values`. */
function isRunOfOnes(bytes: Uint8Array, from: number, to: number, values: number): boolean {
  let head = 0
  let at = from
  for (let shift = 0, byte = 128; byte > 127; shift += 7) {
    if (at >= to || shift > 28) return false
    byte = bytes[at++]
    head |= (byte & 127) << shift
  }
  return (head & 1) === 0 && head >>> 1 >= values && at < to && bytes[at] === 1
}

function bits(body: Uint8Array, from: number, out: Uint8Array, row: number, count: number): void {
  if ((body.length - from) * 8 < count) throw new PageFault('a page ends early')
  for (let i = 0; i < count; i++) out[row + i] = (body[from + (i >> 3)] >> (i & 7)) & 1
}

function plainInt32(body: Uint8Array, from: number, out: Int32Array, row: number, count: number, codes: Int32Array | undefined): void {
  for (let i = 0; i < count; i++) {
    const at = from + (codes === undefined ? i : codes[i]) * 4
    out[row + i] = body[at] | (body[at + 1] << 8) | (body[at + 2] << 16) | (body[at + 3] << 24)
  }
}

function plainHalves(body: Uint8Array, from: number, out: Int32Array, row: number, count: number, codes: Int32Array | undefined): void {
  for (let i = 0; i < count; i++) {
    const at = from + (codes === undefined ? i : codes[i]) * 8
    out[(row + i) * 2] = body[at] | (body[at + 1] << 8) | (body[at + 2] << 16) | (body[at + 3] << 24)
    out[(row + i) * 2 + 1] = body[at + 4] | (body[at + 5] << 8) | (body[at + 6] << 16) | (body[at + 7] << 24)
  }
}

function timesOf(halves: Int32Array, ms: Float64Array, rests: Int32Array, row: number, count: number): void {
  for (let i = 0; i < count; i++) {
    const low = halves[i * 2]
    const time = milliseconds(low, halves[i * 2 + 1])
    ms[row + i] = time
    rests[row + i] = restOf(low, time)
  }
}

/** Moves the `set` values that begin at `row` to their rows, from the last on; what rows without a value have does not matter. */
function spread({ values, perValue, type, rests }: Target, levels: Uint8Array, row: number, rows: number, set: number): void {
  if (rests !== undefined) throw new PageFault('a time is missing')
  // By halves: a copy as double might change a NaN.
  const array = type === Physical.DOUBLE ? new Int32Array(values.buffer, values.byteOffset, values.length * 2) : values
  const width = type === Physical.DOUBLE ? 2 : perValue
  for (let to = row + rows - 1, from = row + set - 1; to >= row && from < to; to--) {
    if (levels[to] === 0) continue
    for (let k = 0; k < width; k++) array[to * width + k] = array[from * width + k]
    from--
  }
}
