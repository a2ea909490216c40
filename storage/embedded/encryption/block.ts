/**
 * One block of an encrypted column: its values as bytes, compressed, and sealed with AES-256-GCM. Pure.
 * Layout: docs/formats/encrypted-columns.md. Encoding and decoding are exact inverses; a block that does not check is an error, never a guess.
 */
import { createCipheriv, createDecipheriv, randomFillSync } from 'node:crypto'
import { constants, zstdCompressSync, zstdDecompressSync } from 'node:zlib'
import type { FieldType } from 'svcdb'

const BLOCK_ROWS_BITS = 13
/** Rows of a block at most; the last one of a column has fewer, and those with large texts. */
export const ENCRYPTED_BLOCK_ROWS = 1 << BLOCK_ROWS_BITS
const NONCE_BYTES = 12
const TAG_BYTES = 16
const HAS_NULLS = 1
const HEADER = 5
const ZSTD_LEVEL = 3
const CIPHER = 'aes-256-gcm'

/** Bytes of a value; 0 when values differ in length. */
export function fixedWidth(type: FieldType): number {
  if (type === 'string' || type === 'histogram') return 0
  return type === 'bool' ? 1 : type === 'decimal' ? 16 : 8
}

/** A block's values. `bits`: a validity bit a row, least significant first, absent when none is null. */
export interface Block {
  rows: number
  bits: Uint8Array | undefined
  /** Fixed width: rows * width bytes. Else all values one after the other. */
  values: Uint8Array
  /** Where each value begins in `values`, and the end of the last; of columns whose values differ in length. */
  offsets: Uint32Array | undefined
}

export function hasValue(bits: Uint8Array | undefined, row: number): boolean {
  return bits === undefined || (bits[row >> 3] & (1 << (row & 7))) !== 0
}

/** Collects values row by row; `take` gives the block and begins the next one. */
export class BlockBuilder {
  readonly width: number
  rows = 0
  private readonly fixed: Uint8Array
  private readonly bits = new Uint8Array(ENCRYPTED_BLOCK_ROWS >> 3)
  private readonly offsets = new Uint32Array(ENCRYPTED_BLOCK_ROWS + 1)
  private heap: Uint8Array
  private present = 0

  constructor(type: FieldType) {
    this.width = fixedWidth(type)
    this.fixed = new Uint8Array(this.width * ENCRYPTED_BLOCK_ROWS)
    this.heap = new Uint8Array(this.width === 0 ? 1 << 16 : 0)
  }

  /** Of its values, where these differ in length. */
  get bytes(): number {
    return this.offsets[this.rows]
  }

  get full(): boolean {
    return this.rows === ENCRYPTED_BLOCK_ROWS
  }

  /** Adds the value at `at` of `source`, `length` bytes: the width when it is fixed. */
  add(source: Uint8Array, at: number, length: number): void {
    const { rows } = this
    if (this.width > 0) for (let i = 0, to = rows * this.width; i < length; i++) this.fixed[to + i] = source[at + i]
    else {
      const from = this.offsets[rows]
      if (from + length > this.heap.length) {
        const grown = new Uint8Array(Math.max(this.heap.length * 2, from + length))
        grown.set(this.heap.subarray(0, from))
        this.heap = grown
      }
      this.heap.set(source.subarray(at, at + length), from)
      this.offsets[rows + 1] = from + length
    }
    this.bits[rows >> 3] |= 1 << (rows & 7)
    this.present++
    this.rows++
  }

  addNull(): void {
    if (this.width === 0) this.offsets[this.rows + 1] = this.offsets[this.rows]
    this.rows++
  }

  take(): Block {
    const { rows, width } = this
    const block: Block = {
      rows,
      bits: this.present === rows ? undefined : this.bits.slice(0, (rows + 7) >> 3),
      values: width > 0 ? this.fixed.slice(0, rows * width) : this.heap.slice(0, this.offsets[rows]),
      offsets: width > 0 ? undefined : this.offsets.slice(0, rows + 1),
    }
    this.rows = this.present = 0
    this.bits.fill(0)
    this.fixed.fill(0)
    return block
  }
}

/** Bytes of the same rank lie together: numbers of one column differ in few of them, and zstd sees that only then. */
function toPlanes(values: Uint8Array, width: number, rows: number, out: Uint8Array, at: number): void {
  for (let plane = 0; plane < width; plane++, at += rows) for (let row = 0, from = plane; row < rows; row++, from += width) out[at + row] = values[from]
}

function fromPlanes(bytes: Uint8Array, at: number, width: number, rows: number): Uint8Array {
  const out = new Uint8Array(rows * width)
  for (let plane = 0; plane < width; plane++, at += rows) for (let row = 0, to = plane; row < rows; row++, to += width) out[to] = bytes[at + row]
  return out
}

export function encodeBlock({ rows, bits, values, offsets }: Block, width: number): Uint8Array {
  const bitmap = bits === undefined ? 0 : (rows + 7) >> 3
  const lengths = offsets === undefined ? 0 : rows * 4
  const out = new Uint8Array(HEADER + bitmap + lengths + values.length)
  out[0] = bits === undefined ? 0 : HAS_NULLS
  new DataView(out.buffer).setUint32(1, rows, true)
  if (bits !== undefined) out.set(bits.subarray(0, bitmap), HEADER)
  let at = HEADER + bitmap
  if (offsets === undefined) toPlanes(values, width, rows, out, at)
  else {
    const each = new Uint32Array(rows)
    for (let row = 0; row < rows; row++) each[row] = offsets[row + 1] - offsets[row]
    toPlanes(new Uint8Array(each.buffer), 4, rows, out, at)
    at += lengths
    out.set(values, at)
  }
  return zstdCompressSync(out, { params: { [constants.ZSTD_c_compressionLevel]: ZSTD_LEVEL } })
}

/** @throws RangeError when the bytes are not a block of this width. */
export function decodeBlock(compressed: Uint8Array, width: number): Block {
  const plain = zstdDecompressSync(compressed)
  const bytes = new Uint8Array(plain.buffer, plain.byteOffset, plain.byteLength) // `slice` of a Buffer would not copy
  if (bytes.length < HEADER) throw new RangeError('the block is shorter than its header')
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  const rows = view.getUint32(1, true)
  const bitmap = bytes[0] & HAS_NULLS ? (rows + 7) >> 3 : 0
  let at = HEADER + bitmap
  if (rows > ENCRYPTED_BLOCK_ROWS || bytes.length < at + rows * (width || 4)) throw new RangeError(`the block cannot hold ${rows} rows`)
  const bits = bitmap === 0 ? undefined : bytes.slice(HEADER, at)
  if (width > 0) {
    if (bytes.length !== at + rows * width) throw new RangeError('the block has bytes too many')
    return { rows, bits, values: fromPlanes(bytes, at, width, rows), offsets: undefined }
  }
  const each = new Uint32Array(fromPlanes(bytes, at, 4, rows).buffer)
  at += rows * 4
  const offsets = new Uint32Array(rows + 1)
  for (let row = 0; row < rows; row++) offsets[row + 1] = offsets[row] + each[row]
  if (bytes.length !== at + offsets[rows]) throw new RangeError('the values are not as long as the block says')
  return { rows, bits, values: bytes.slice(at), offsets }
}

/** Fills an array with random bytes; tests and worked examples put fixed ones in its place. */
export type Random = (bytes: Uint8Array) => void
const systemRandom: Random = (bytes) => {
  randomFillSync(bytes)
}

/** @returns nonce, ciphertext and tag. */
export function seal(key: Uint8Array, plain: Uint8Array, associated: Uint8Array, random: Random = systemRandom): Uint8Array {
  const out = new Uint8Array(NONCE_BYTES + plain.length + TAG_BYTES)
  const nonce = out.subarray(0, NONCE_BYTES)
  random(nonce)
  const cipher = createCipheriv(CIPHER, key, nonce, { authTagLength: TAG_BYTES })
  cipher.setAAD(associated)
  out.set(cipher.update(plain), NONCE_BYTES)
  cipher.final()
  out.set(cipher.getAuthTag(), NONCE_BYTES + plain.length)
  return out
}

/** @throws Error when key, associated data or bytes are not those of `seal`. */
export function unseal(key: Uint8Array, sealed: Uint8Array, associated: Uint8Array): Uint8Array {
  const end = sealed.length - TAG_BYTES
  if (end < NONCE_BYTES) throw new RangeError('the sealed bytes are too short')
  const decipher = createDecipheriv(CIPHER, key, sealed.subarray(0, NONCE_BYTES), { authTagLength: TAG_BYTES })
  decipher.setAAD(associated)
  decipher.setAuthTag(sealed.subarray(end))
  const plain = decipher.update(sealed.subarray(NONCE_BYTES, end))
  decipher.final()
  return plain
}
