/**
 * The file beside a segment that holds its encrypted columns. Pure: bytes come and go through functions handed in.
 * Layout: docs/formats/encrypted-columns.md.
 *
 * Invariant: what a block belongs to (segment, its creation, column, type, place) is sealed with it, and taken from the catalog when it is
 * opened: a block or a file put in another's place does not open.
 */
import type { FieldType } from 'svcdb'
import { SvcError } from 'svcdb/lib/errors'
import { crc32c } from 'svcdb/lib/files'
import { type Block, BlockBuilder, decodeBlock, ENCRYPTED_BLOCK_ROWS, encodeBlock, fixedWidth, type Random, seal, unseal } from './block.ts'
import type { KeyRing } from './keys.ts'

export const SIDECAR_MAGIC = Buffer.from('SVCENC01')
const TRAILER = 16
/** What the blocks of the same rows take of texts, about: who reads one value has a block in memory, and a merge some of each of its inputs. */
const BLOCK_BYTES = 2 << 20
/** A divisor of ENCRYPTED_BLOCK_ROWS. */
const STEP = 16

/** The segment a sidecar belongs to. */
export interface SegmentIdentity {
  segment: number
  /** Milliseconds since the Unix epoch. */
  created: number
}

export interface SidecarColumn {
  name: string
  type: FieldType
  key: string
}

interface Footer extends SegmentIdentity {
  rows: number
  /** 0 = as `ends` says. */
  blockRows: number
  /** The row where each block ends, when some have fewer rows than they could. */
  ends?: number[]
  /** `blocks`: sealed bytes of each block. */
  columns: (SidecarColumn & { blocks: number[] })[]
}

function associatedData({ segment, created }: SegmentIdentity, { name, type }: SidecarColumn, block: number): Uint8Array {
  return Buffer.from(JSON.stringify(['svc segment', segment, created, name, type, block]))
}

/** Takes the columns row by row, in the order of the segment's rows; all columns get the same number of rows. */
export class SidecarWriter {
  readonly builders: BlockBuilder[]
  private readonly footer: Footer
  private readonly ends: number[] = []
  private readonly long: readonly BlockBuilder[]
  private readonly keys: KeyRing
  private readonly write: (bytes: Uint8Array) => void
  private readonly random: Random | undefined

  constructor(identity: SegmentIdentity, columns: readonly SidecarColumn[], keys: KeyRing, write: (bytes: Uint8Array) => void, random?: Random) {
    this.footer = { ...identity, rows: 0, blockRows: ENCRYPTED_BLOCK_ROWS, columns: columns.map((column) => ({ ...column, blocks: [] })) }
    this.builders = columns.map(({ type }) => new BlockBuilder(type))
    this.long = this.builders.filter(({ width }) => width === 0)
    this.keys = keys
    this.write = write
    this.random = random
    write(SIDECAR_MAGIC)
  }

  /** Call when each builder has got rows up to the same one, at the latest when they are full. */
  writeFull(): void {
    if (this.builders[0].full || (this.long.length > 0 && this.bytes >= BLOCK_BYTES)) this.writeBlocks()
  }

  /** Rows to add before the next `writeFull`, at most: more of columns of any length could be too many bytes for a block. */
  get step(): number {
    return this.long.length === 0 ? ENCRYPTED_BLOCK_ROWS : STEP
  }

  private get bytes(): number {
    return this.long.reduce((sum, { bytes }) => sum + bytes, 0)
  }

  /** @returns the number of rows. */
  finish(): number {
    if (this.builders[0].rows > 0) this.writeBlocks()
    const { footer, ends } = this
    if (ends.some((end, block) => end < footer.rows && end !== (block + 1) * ENCRYPTED_BLOCK_ROWS)) Object.assign(footer, { blockRows: 0, ends })
    const text = Buffer.from(JSON.stringify(this.footer))
    this.write(text)
    const trailer = new Uint8Array(TRAILER)
    const view = new DataView(trailer.buffer)
    view.setUint32(0, text.length, true)
    view.setUint32(4, crc32c(text, 0, text.length), true)
    trailer.set(SIDECAR_MAGIC, 8)
    this.write(trailer)
    return this.footer.rows
  }

  private writeBlocks(): void {
    const { footer, builders } = this
    const { rows } = builders[0]
    for (const [i, column] of footer.columns.entries()) {
      if (builders[i].rows !== rows) throw new Error(`cannot write encrypted column "${column.name}": it has ${builders[i].rows} rows, the others have ${rows}`)
      const plain = encodeBlock(builders[i].take(), builders[i].width)
      const key = this.keys.segmentKey(column.key, footer.segment, footer.created)
      const sealed = seal(key, plain, associatedData(footer, column, column.blocks.length), this.random)
      this.write(sealed)
      column.blocks.push(sealed.length)
    }
    footer.rows += rows
    this.ends.push(footer.rows)
  }
}

export interface SidecarSource {
  /** How messages name it. */
  name: string
  size: number
  read(offset: number, length: number): Uint8Array
}

export class SidecarReader {
  private readonly source: SidecarSource
  private readonly identity: SegmentIdentity
  private readonly columns = new Map<string, Footer['columns'][number] & { offsets: number[] }>()
  /** The row where each block ends. */
  private readonly ends: readonly number[]
  private readonly isUneven: boolean

  /** @param identity as the catalog has it. @throws DATABASE_ERROR when the file is corrupt or of another segment. */
  constructor(source: SidecarSource, identity: SegmentIdentity) {
    this.source = source
    this.identity = identity
    const footer = readFooter(source)
    if (footer.segment !== identity.segment || footer.created !== identity.created)
      throw corrupt(source.name, 0, `it belongs to segment ${footer.segment} of ${footer.created}, not to ${identity.segment} of ${identity.created}`)
    this.ends = endsOf(footer, source.name)
    this.isUneven = footer.blockRows === 0
    let at = SIDECAR_MAGIC.length
    const columns = footer.columns.map((column) => ({ ...column, offsets: [] as number[] }))
    for (const block of this.ends.keys())
      for (const column of columns) {
        column.offsets.push(at)
        at += column.blocks[block]
      }
    for (const column of columns) this.columns.set(column.name, column)
  }

  /** Bytes of the texts of all columns, about; 0 when no block has ended for their sake. */
  get longBytes(): number {
    return this.isUneven ? this.ends.length * BLOCK_BYTES : 0
  }

  /** Number of the block that holds a row; as many as there are when none does. */
  numberOf(row: number): number {
    const { ends } = this
    let [low, high] = [0, ends.length]
    while (low < high) {
      const middle = (low + high) >> 1
      if (ends[middle] <= row) low = middle + 1
      else high = middle
    }
    return low
  }

  /** The first row of a block. */
  firstOf(number: number): number {
    return number === 0 ? 0 : this.ends[number - 1]
  }

  /** @throws DATABASE_ERROR when the block does not check, ENCRYPTION_KEY_UNAVAILABLE. */
  block(column: SidecarColumn, number: number, keys: KeyRing): Block {
    const key = keys.segmentKey(column.key, this.identity.segment, this.identity.created)
    const { name } = this.source
    const stored = this.columns.get(column.name)
    if (stored === undefined) throw corrupt(name, 0, `it lacks column "${column.name}"`)
    const [at, length] = [stored.offsets[number], stored.blocks[number]]
    if (at === undefined || length === undefined) throw corrupt(name, 0, `column "${column.name}" lacks block ${number}`)
    try {
      const block = decodeBlock(unseal(key, this.source.read(at, length), associatedData(this.identity, column, number)), fixedWidth(column.type))
      const rows = this.ends[number] - this.firstOf(number)
      if (block.rows !== rows) throw new RangeError(`it has ${block.rows} rows, its index says ${rows}`)
      return block
    } catch (error) {
      throw corrupt(
        name,
        at,
        `block ${number} of column "${column.name}" does not open with key "${column.key}": the file is corrupt, or the key is another one than it was written with`,
        error,
      )
    }
  }
}

function readFooter(source: SidecarSource): Footer {
  const { name, size } = source
  if (size < SIDECAR_MAGIC.length + TRAILER) throw corrupt(name, 0, 'it is too short')
  const trailer = source.read(size - TRAILER, TRAILER)
  const view = new DataView(trailer.buffer, trailer.byteOffset, TRAILER)
  const length = view.getUint32(0, true)
  const at = size - TRAILER - length
  if (SIDECAR_MAGIC.some((byte, i) => trailer[8 + i] !== byte) || at < SIDECAR_MAGIC.length) throw corrupt(name, size - TRAILER, 'it does not end as it should')
  const text = source.read(at, length)
  if (crc32c(text, 0, length) !== view.getUint32(4, true)) throw corrupt(name, at, 'the checksum of its index does not match')
  return JSON.parse(Buffer.from(text).toString()) as Footer
}

/** @throws DATABASE_ERROR when no blocks can end so. */
function endsOf({ rows, blockRows, ends }: Footer, name: string): readonly number[] {
  if (blockRows === ENCRYPTED_BLOCK_ROWS)
    return Array.from({ length: Math.ceil(rows / ENCRYPTED_BLOCK_ROWS) }, (_, i) => Math.min(rows, (i + 1) * ENCRYPTED_BLOCK_ROWS))
  if (blockRows !== 0 || ends === undefined) throw corrupt(name, 0, `blocks of ${blockRows} rows are not possible`)
  if (ends.at(-1) !== rows || ends.some((end, i) => end <= (ends[i - 1] ?? 0))) throw corrupt(name, 0, 'its blocks end where none can')
  return ends
}

function corrupt(file: string, offset: number, cause: string, error?: unknown): SvcError {
  return new SvcError('DATABASE_ERROR', `cannot read encrypted columns "${file}" at offset ${offset}: ${cause}; restore the file from a backup`, {
    cause: error,
  })
}
