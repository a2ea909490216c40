/**
 * Segment rows as blocks, a row group each, out of the file's pages. Of a row group, whose and when its rows are is decoded once for all fields, and each
 * field's values are kept as they are stored. What the cache does not take is decoded to memory that is used again.
 *
 * Whatever is in the way of reading pages (PageFault: another encoding, damaged bytes) makes a segment one that DuckDB reads, which also says what is wrong.
 */
import { Turn } from 'svcdb/lib/event-loop'
import { ColumnDecoder } from '../../parquet/column-decoder.ts'
import { PageFault } from '../../parquet/page-fault.ts'
import { ChunkRoom, ParquetFile } from '../../parquet/parquet-file.ts'
import { bitsColumn } from '../../segment/bits-column.ts'
import type { FieldDef } from '../../threads/definitions.ts'
import type { SegmentMeta } from '../../threads/segment-entry.ts'
import { type Source, segmentPathOf } from '../sources.ts'
import { type BlockCache, OwnedBlocks } from './block-cache.ts'
import { LongSeries } from './long-series.ts'
import { millisecondRange } from './millisecond-range.ts'
import { type OwnedSeries, OwnedSeriesBuilder } from './owned-series.ts'
import { PackedBlock, Packer } from './packed-block.ts'
import type { PackedFiles } from './packed-files.ts'
import { frameOfPacked, packedGroup } from './packed-group.ts'
import { type Frame, frameBytes, frameOf, NO_SAMPLES, type PageBlock, partOf, valueBytes } from './page-block.ts'
import { PageValues } from './page-values.ts'
import type { RowBlock } from './row-block.ts'
import { isDense, LazyFile, RowGroup } from './row-group.ts'
import { BLOCK_BYTES } from './sample-block.ts'
import { Scratch } from './scratch.ts'
import type { AnyBlock, AnyScope, ReadScope } from './segment-blocks.ts'
import { SegmentIndex } from './segment-index.ts'
import { isEmpty, type StoredColumn, storedColumn, valueWidth } from './stored-column.ts'

/** Row groups of one field lie below this. */
const GROUP_SPAN = 2 ** 32
/** Of a packed sample, about. */
const PACKED_BYTES = 3

interface Known {
  index: OwnedBlocks<SegmentIndex>
  frames: OwnedBlocks<Frame>
  values: OwnedBlocks<PageBlock>
  packed: OwnedBlocks<PackedBlock>
  /** Fields that had a row group that is not worth packing, or cannot be packed. */
  unpacked: Set<number>
  /** Of row groups, a field that was packed with all of their rows: the others have its times. */
  packedFields: Map<number, number>
  /** Its pages cannot be read. */
  refused: boolean
}

interface Wanted {
  source: Source
  segment: SegmentMeta
  known: Known
  column: StoredColumn
  series: Int32Array
  scope: AnyScope
}

export class SegmentPages {
  /** Segments left to DuckDB because of what their pages are. */
  refused = 0
  private readonly cache: BlockCache
  private readonly files: PackedFiles | undefined
  private readonly decoder = new ColumnDecoder()
  private readonly values = new PageValues()
  private readonly room = new ChunkRoom()
  private readonly packer = new Packer()
  /** Readers may hold segments that are gone. */
  private readonly known = new WeakMap<SegmentMeta, Known>()
  private numbers = new Int32Array(0)
  private others = new Int32Array(0)

  /** @param files for packed blocks; absent: they are kept in memory. */
  constructor(cache: BlockCache, files: PackedFiles | undefined) {
    this.cache = cache
    this.files = files
  }

  /** The blocks of a segment that may have rows of the series (ascending) and the range, by series, then time; undefined when DuckDB has to read them. */
  of(source: Source, series: Int32Array, scope: AnyScope): AnyBlock[] | undefined | Promise<AnyBlock[] | undefined> {
    const segment = source.segment as SegmentMeta
    const known = this.knownOf(segment)
    const column = known.refused ? undefined : storedColumn(segment, scope.field)
    if (column === undefined) return undefined
    const wanted = { source, segment, known, column, series, scope }
    return this.kept(wanted) ?? this.load(wanted)
  }

  /** The series with rows in a segment, in the order of its rows; undefined when DuckDB has to say. */
  async seriesOf(segment: SegmentMeta, scope: ReadScope): Promise<OwnedSeries | undefined> {
    const known = this.knownOf(segment)
    if (known.refused) return undefined
    await this.verified(segment, known, scope)
    return this.guarded(known, async () => {
      const file = this.open(segment, known, scope)
      try {
        return await this.distinct(file, this.indexOf(known, file, scope), scope)
      } finally {
        file.close()
      }
    })
  }

  /** Whether all rows of a segment have a value of the field, or none has; undefined where some have, and where the footer does not tell. */
  async filled(segment: SegmentMeta, scope: ReadScope): Promise<boolean | undefined> {
    const column = segment.columns.find(({ field }) => field === scope.field.id)
    if (column === undefined) return false
    const known = this.knownOf(segment)
    if (known.refused) return undefined
    await this.verified(segment, known, scope)
    return this.guarded(known, async () => {
      const file = new LazyFile(() => this.open(segment, known, scope))
      try {
        const { footer } = this.cache.get(known.index, 0, scope.question) ?? this.indexOf(known, file.opened, scope)
        const lies = { name: column.name, bits: bitsColumn(column) }
        const every = (has: typeof isDense): boolean => footer.rows.every((_, group) => has(footer, group, lies))
        return every(isDense) ? true : every(isEmpty) ? false : undefined
      } finally {
        file.close()
      }
    })
  }

  /**
   * The row groups of a segment that may have rows of the series (ascending) and the range; undefined when their pages are not to be read.
   * @param sparse of the one field, rows without a value may be left out.
   */
  async rowGroups(source: Source, series: Int32Array, fields: readonly FieldDef[], sparse: boolean, scope: AnyScope): Promise<RowBlock[] | undefined> {
    const segment = source.segment as SegmentMeta
    const known = this.knownOf(segment)
    const columns = known.refused ? [] : fields.flatMap((field) => storedColumn(segment, field) ?? [])
    if (columns.length < fields.length) return undefined
    const scopes = fields.map((field) => ({ ...scope, field }))
    if (!this.keepsAll(source, series, scopes)) await scope.context.verifier?.ensure([segment], scope.signal)
    return this.guarded(known, async () => {
      const file = new LazyFile(() => this.open(segment, known, scope))
      try {
        const index = this.cache.get(known.index, 0, scope.question) ?? this.indexOf(known, file.opened, scope)
        const out: RowBlock[] = []
        const turn = new Turn(scope.signal)
        for (const group of groupsOf(index, source, series, scope)) {
          const compact = sparse && !isDense(index.footer, group, columns[0])
          if (compact && isEmpty(index.footer, group, columns[0])) continue
          const single = fields.length === 1 && (sparse || isDense(index.footer, group, columns[0]))
          const packed = single ? this.packedOf(known, file, index, group, columns[0], scopes[0]) : undefined
          if (packed !== undefined) {
            out.push(packedGroup(packed, file, { footer: index.footer, group, columns }, scope.scratch))
            continue
          }
          const whole = compact
            ? (this.keptBlock(known, group, scopes[0]) ?? this.decode(known, file.opened, index, group, columns[0], scopes[0]))
            : (this.cache.get(known.frames, group, scope.question) ?? this.frame(known, file.opened, index, group, scope))
          const frame = partOf(whole, source.measurement)
          const load = (field: number, file: LazyFile, scratch: Scratch): PageBlock =>
            compact
              ? (whole as PageBlock)
              : (this.keptBlock(known, group, scopes[field]) ?? this.ofFrame(known, file.opened, group, columns[field], whole, { ...scopes[field], scratch }))
          if (frame !== undefined) out.push(new RowGroup(frame, file, { footer: index.footer, group, columns }, load))
          if (turn.isOver) await turn.next()
        }
        return out
      } finally {
        file.close()
      }
    })
  }

  /** Undefined where a field's values are not packed. */
  private packedOf(known: Known, file: LazyFile, index: SegmentIndex, group: number, column: StoredColumn, scope: AnyScope): PackedBlock | undefined {
    if (scope.packed !== true || known.values.entries.has(scope.field.id * GROUP_SPAN + group) || isEmpty(index.footer, group, column)) return undefined
    return this.keptPacked(known, group, scope) ?? this.packed(known, file, index, group, column, scope)
  }

  /** Calls what reads values of a row group. @returns undefined when they are not to be read. */
  async reading<T>(source: Source, read: () => T): Promise<T | undefined> {
    return this.guarded(this.knownOf(source.segment as SegmentMeta), async () => read())
  }

  private keepsAll({ segment, measurement }: Source, series: Int32Array, scopes: readonly ReadScope[]): boolean {
    const known = this.knownOf(segment as SegmentMeta)
    const [{ range, question }] = scopes
    const index = this.cache.get(known.index, 0, question)
    if (index === undefined) return false
    return index
      .groups(series, ...millisecondRange([...range]), measurement)
      .every((group) => known.frames.entries.has(group) && scopes.every(({ field }) => known.values.entries.has(field.id * GROUP_SPAN + group)))
  }

  private knownOf(segment: SegmentMeta): Known {
    let known = this.known.get(segment)
    if (known === undefined) {
      const owned = <T>(): OwnedBlocks<T> => new OwnedBlocks<T>(segment.id)
      this.known.set(
        segment,
        (known = { index: owned(), frames: owned(), values: owned(), packed: owned(), unpacked: new Set(), packedFields: new Map(), refused: false }),
      )
    }
    return known
  }

  /** All of it out of the cache; undefined when something lacks. */
  private kept({ source, known, column, series, scope }: Wanted): AnyBlock[] | undefined {
    const index = this.cache.get(known.index, 0, scope.question)
    if (index === undefined) return undefined
    const out: AnyBlock[] = []
    for (const group of groupsOf(index, source, series, scope)) {
      if (isEmpty(index.footer, group, column)) {
        out.push(NO_SAMPLES)
        continue
      }
      const block = this.keptAny(known, group, scope)
      if (block === undefined) return undefined
      const part = block instanceof PackedBlock ? block : partOf(block, source.measurement)
      if (part !== undefined) out.push(part)
    }
    return out
  }

  private keptBlock(known: Known, group: number, { field, question }: ReadScope): PageBlock | undefined {
    const block = this.cache.get(known.values, field.id * GROUP_SPAN + group, question)
    // Used after it, the frame is the last of a row group to go.
    if (block !== undefined) this.cache.get(known.frames, group, question)
    return block
  }

  private keptAny(known: Known, group: number, scope: AnyScope): PageBlock | PackedBlock | undefined {
    const block = this.keptBlock(known, group, scope)
    return block ?? (scope.packed === undefined ? undefined : this.cache.get(known.packed, scope.field.id * GROUP_SPAN + group, scope.question))
  }

  /** Of the cache or of a file. */
  private keptPacked(known: Known, group: number, { field, question, scratch }: AnyScope): PackedBlock | undefined {
    const key = field.id * GROUP_SPAN + group
    return this.cache.get(known.packed, key, question) ?? this.files?.get(known.packed, key, question, scratch)
  }

  private async load(wanted: Wanted): Promise<AnyBlock[] | undefined> {
    const { segment, known, scope } = wanted
    await scope.context.verifier?.ensure([segment], scope.signal)
    return this.guarded(known, async () => {
      const file = new LazyFile(() => this.open(segment, known, scope))
      try {
        const index = this.cache.get(known.index, 0, scope.question) ?? this.indexOf(known, file.opened, scope)
        return await this.read(wanted, file, index)
      } finally {
        file.close()
      }
    })
  }

  private async guarded<T>(known: Known, read: () => Promise<T>): Promise<T | undefined> {
    try {
      return await read()
    } catch (error) {
      if (error instanceof PageFault) {
        if (!known.refused) this.refused++
        known.refused = true
        return undefined
      }
      // What the system says of a file, DuckDB says in the words it always had.
      if ((error as NodeJS.ErrnoException).syscall !== undefined) return undefined
      throw error
    }
  }

  /** What is kept of it was read when it was. */
  private async verified(segment: SegmentMeta, known: Known, { context, question, signal }: ReadScope): Promise<void> {
    if (this.cache.get(known.index, 0, question) === undefined) await context.verifier?.ensure([segment], signal)
  }

  private open(segment: SegmentMeta, known: Known, { context, question }: ReadScope): ParquetFile {
    const footer = this.cache.get(known.index, 0, question)?.footer
    return ParquetFile.open(segmentPathOf(context.duck, context.dataDir, segment), segment.bytes, this.room, footer)
  }

  private indexOf(known: Known, file: ParquetFile, { question }: ReadScope): SegmentIndex {
    const before = this.cache.get(known.index, 0, question)
    if (before !== undefined) return before
    const index = new SegmentIndex(file.footer)
    this.cache.put(known.index, 0, index, index.bytes, question)
    return index
  }

  private async read({ source, known, column, series, scope }: Wanted, file: LazyFile, index: SegmentIndex): Promise<AnyBlock[]> {
    const out: AnyBlock[] = []
    const tooMany = new LongSeries(scope)
    const turn = new Turn(scope.signal)
    for (const group of groupsOf(index, source, series, scope)) {
      if (isEmpty(index.footer, group, column)) {
        out.push(NO_SAMPLES)
        continue
      }
      const block =
        this.keptBlock(known, group, scope) ??
        (scope.packed === undefined ? undefined : this.keptPacked(known, group, scope)) ??
        this.packed(known, file, index, group, column, scope) ??
        this.decode(known, file.opened, index, group, column, scope)
      const part = block instanceof PackedBlock ? block : partOf(block, source.measurement)
      if (part !== undefined) {
        tooMany.check(part)
        out.push(part)
      }
      if (turn.isOver) await turn.next()
    }
    return out
  }

  /** Undefined where blocks are not to be packed, or cannot be. */
  private packed(known: Known, file: LazyFile, index: SegmentIndex, group: number, column: StoredColumn, scope: AnyScope): PackedBlock | undefined {
    const { field, question, context } = scope
    if (scope.packed !== true || index.measurement >= 0 || known.unpacked.has(field.id)) return undefined
    const expected = index.footer.rows[group] * PACKED_BYTES
    const inFile = this.files?.admits(expected, question) === true
    if (scope.whole === true && !inFile && !this.cache.admits(expected, question)) return undefined
    const scratch = new Scratch(context.sampleBlocks.scratch)
    try {
      const keptFrame = this.cache.get(known.frames, group, question) ?? this.packedFrame(known, group, question, scratch)
      const frame = keptFrame ?? this.frameIn(scratch, file.opened, index, group)
      const packed = this.packer.pack(this.values.of(file.opened, group, column, frame, scratch))
      if (packed === undefined) known.unpacked.add(field.id)
      else if (this.keepPacked(known, field.id * GROUP_SPAN + group, packed, inFile, question) && packed.starts === frame.starts)
        known.packedFields.set(group, field.id)
      return packed
    } finally {
      scratch.release()
    }
  }

  private keepPacked(known: Known, key: number, packed: PackedBlock, inFile: boolean, question: number): boolean {
    if (inFile && this.files?.put(known.packed, key, packed, question) === true) return true
    if (!this.cache.admits(packed.bytes, question)) return false
    this.cache.put(known.packed, key, packed, packed.bytes, question)
    return true
  }

  /** Whose and when the rows of a group are, of a field that is kept packed. */
  private packedFrame(known: Known, group: number, question: number, scratch: Scratch): Frame | undefined {
    const field = known.packedFields.get(group)
    if (field === undefined) return undefined
    const key = field * GROUP_SPAN + group
    const inMemory = known.packed.entries.get(key)?.block as PackedBlock | undefined
    if (inMemory !== undefined) return frameOfPacked(inMemory, scratch)
    const read = this.files?.get(known.packed, key, question, scratch)
    if (read === undefined) return undefined
    const frame = frameOfPacked(read, scratch)
    // The block that is made of it keeps these.
    return { ...frame, series: frame.series.slice(), starts: frame.starts.slice() }
  }

  private decode(known: Known, file: ParquetFile, index: SegmentIndex, group: number, column: StoredColumn, scope: ReadScope): PageBlock {
    const { question } = scope
    const frame = this.cache.get(known.frames, group, question) ?? this.frame(known, file, index, group, scope)
    return this.ofFrame(known, file, group, column, frame, scope)
  }

  private ofFrame(known: Known, file: ParquetFile, group: number, column: StoredColumn, frame: Frame, { question, field, scratch }: ReadScope): PageBlock {
    const keep =
      known.frames.entries.get(group)?.block === frame &&
      this.cache.admits(BLOCK_BYTES + file.footer.rows[group] * valueWidth(file.footer, group, column), question)
    const block = this.values.of(file, group, column, frame, keep ? undefined : scratch)
    if (keep) this.cache.put(known.values, field.id * GROUP_SPAN + group, block, valueBytes(block, frame), question)
    return block
  }

  private frame(known: Known, file: ParquetFile, index: SegmentIndex, group: number, { question, scratch }: ReadScope): Frame {
    const keep = this.cache.admits(BLOCK_BYTES + index.footer.rows[group] * 12, question)
    const frame = this.frameIn(keep ? undefined : scratch, file, index, group)
    if (keep) this.cache.put(known.frames, group, frame, frameBytes(frame), question)
    return frame
  }

  /** @param scratch for its times; absent: they are its own. */
  private frameIn(scratch: Scratch | undefined, file: ParquetFile, index: SegmentIndex, group: number): Frame {
    const { footer, minTimes, maxTimes } = index
    const rows = footer.rows[group]
    const times = scratch === undefined ? new Float64Array(rows) : scratch.doubles(rows)
    this.runs(file, index, group)
    const measurements = this.measurements(file, index, group)
    const series = this.numbers
    // The array of the others is free when there are no measurements; with them, rests need their own.
    const rests = measurements === undefined ? this.othersFor(rows) : new Int32Array(rows)
    if (this.decoder.times(footer, group, index.time, file.chunk(group, index.time), times, rests) !== undefined) throw new PageFault('a time is missing')
    return frameOf({ rows, series, measurements, times, rests, minTime: minTimes[group], maxTime: maxTimes[group] })
  }

  /** Whose a row group's rows are, to `numbers`. */
  private runs(file: ParquetFile, { footer, series }: SegmentIndex, group: number): void {
    const rows = footer.rows[group]
    if (this.numbers.length < rows) this.numbers = new Int32Array(rows)
    if (this.decoder.int32(footer, group, series, file.chunk(group, series), this.numbers) !== undefined) throw new PageFault('a series is missing')
  }

  private measurements(file: ParquetFile, { footer, measurement }: SegmentIndex, group: number): Int32Array | undefined {
    if (measurement < 0) return undefined
    const out = this.othersFor(footer.rows[group])
    if (this.decoder.int32(footer, group, measurement, file.chunk(group, measurement), out) !== undefined) throw new PageFault('a measurement is missing')
    return out
  }

  private othersFor(rows: number): Int32Array {
    if (this.others.length < rows) this.others = new Int32Array(rows)
    return this.others
  }

  private async distinct(file: ParquetFile, index: SegmentIndex, { signal }: ReadScope): Promise<OwnedSeries> {
    const { footer } = index
    const found = new OwnedSeriesBuilder()
    const turn = new Turn(signal)
    for (let group = 0; group < footer.groups; group++) {
      this.runs(file, index, group)
      found.add(this.numbers, this.measurements(file, index, group), footer.rows[group])
      if (turn.isOver) await turn.next()
    }
    return found.build()
  }
}

function groupsOf(index: SegmentIndex, { measurement }: Source, series: Int32Array, { range }: ReadScope): number[] {
  const [lo, hi] = millisecondRange([...range])
  return index.groups(series, lo, hi, measurement)
}
