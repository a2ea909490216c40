/** The sources of a measurement as blocks, with what is masked of each. */

import type { FieldDef } from '../../threads/definitions.ts'
import type { Snapshot } from '../../threads/state.ts'
import { NewestCache } from '../newest/newest-cache.ts'
import type { Source } from '../sources.ts'
import { BlockBuffers } from './block-buffers.ts'
import { BlockCache } from './block-cache.ts'
import { ChunkBlocks, memtableOwner } from './chunk-blocks.ts'
import { ChunkGroups, GROUP_CHUNKS, GROUP_SERIES } from './chunk-groups.ts'
import { type BlockMask, blockMasks } from './mask-times.ts'
import { PackedFiles, type PackedFilesOptions } from './packed-files.ts'
import type { RowBlock } from './row-block.ts'
import type { SampleBlock } from './sample-block.ts'
import { ScratchPool } from './scratch.ts'
import { type AnyBlock, type AnyScope, type ReadScope, SegmentBlocks } from './segment-blocks.ts'

export interface MaskedBlock<B extends AnyBlock = SampleBlock> {
  block: B
  masks: readonly BlockMask[]
}

/** A source, or one chunk of a memtable: what is read at once. Of equal times the one with the higher `order` wins. */
export interface BlockSource {
  order: number
  source: Source
  /** Of a memtable source; of a group its first. */
  chunk: number
  /** The chunk and those after it may be read as a group. */
  group?: true
}

/** Owners of blocks that are gone, and the newest of the jobs that may read them yet. */
interface Leaving {
  gone: ReadonlySet<number>
  newest: number
}

/** What was used since so many calls of `rest` is kept: dashboards ask again within a minute, mostly, and blocks of other minutes would stay until the cache is full. */
const KEPT_ROUNDS = 6
const NOTHING: readonly BlockMask[] = []
/** Of what is kept at most this part is newest rows of series. */
const NEWEST_SHARE = 4

/** Memory that is used again for what is not kept: a part of what is kept, and no more than a large question can use. */
const SCRATCH_SHARE = 8
const MAX_SCRATCH_BYTES = 32 << 20
/** Of scratch memory so much a packed sample: it takes half of it, and row groups at both ends of the series that are read together are read whole. */
const PACKED_BYTES = 8
/** A sample decoded and not kept takes 12 bytes, mostly; all of them together may take as much as is kept. */
const DECODED_BYTES = 12
const MIN_DECODED = 1 << 18
const MAX_DECODED = 1 << 22

/** Everything an engine thread keeps for reading samples. */
export class SampleBlocks {
  readonly buffers = new BlockBuffers()
  readonly newest: NewestCache
  readonly scratch: ScratchPool
  /** Samples that one question may have decoded at once, about. */
  readonly decodedSamples: number
  /** Packed samples that one question may have in memory beside those that are kept, about. */
  readonly packedSamples: number
  private readonly cache: BlockCache
  private readonly segments: SegmentBlocks
  private readonly chunks: ChunkBlocks
  private readonly groups: ChunkGroups
  private readonly files: PackedFiles | undefined
  /** For what is read once. */
  private readonly passing = new SegmentBlocks(new BlockCache(0), undefined)
  /** In the order in which they went. */
  private readonly leaving: Leaving[] = []

  /** @param budget bytes of memory. @param files where packed blocks of segments are kept; absent: in memory. */
  constructor(budget: number, files?: PackedFilesOptions) {
    this.files = files === undefined ? undefined : new PackedFiles(files)
    this.newest = new NewestCache(Math.floor(budget / NEWEST_SHARE))
    const scratchBytes = Math.min(MAX_SCRATCH_BYTES, Math.floor(budget / SCRATCH_SHARE))
    this.scratch = new ScratchPool(scratchBytes)
    this.packedSamples = Math.max(MIN_DECODED, Math.floor(scratchBytes / PACKED_BYTES))
    this.decodedSamples = Math.max(MIN_DECODED, Math.min(MAX_DECODED, Math.floor(budget / DECODED_BYTES)))
    this.cache = new BlockCache(budget, () => this.newest.bytes)
    this.segments = new SegmentBlocks(this.cache, this.files)
    this.chunks = new ChunkBlocks(this.cache)
    this.groups = new ChunkGroups(this.cache, this.chunks)
  }

  /** Bytes of the blocks, of the newest rows and of memory kept for more. */
  get bytes(): number {
    return this.cache.bytes + this.newest.bytes + this.scratch.bytes
  }

  /** Call every ten seconds: drops what was not asked for in the last minute, and of files in the last ten. @returns bytes of memory. */
  rest(): number {
    this.files?.rest()
    return this.cache.rest(KEPT_ROUNDS) + this.scratch.rest()
  }

  /** Bytes of packed blocks in files. */
  get fileBytes(): number {
    return this.files?.bytes ?? 0
  }

  /** Ends the use of files. */
  close(): void {
    this.files?.close()
  }

  /** Segments whose pages could not be read, and that DuckDB has read instead. */
  get refusedSegments(): number {
    return this.segments.refused
  }

  /** What all that is asked of one snapshot is told apart from others by: a job asks several selectors. */
  questionOf(snapshot: Snapshot): number {
    return snapshot.number
  }

  /** Whether blocks of this size in all have room at once. */
  holds(bytes: number): boolean {
    return this.cache.holds(bytes)
  }

  /**
   * Drops the blocks of segments and of a memtable (-1: none) that are gone.
   * @param newest number of the newest job under way: those up to it may read them yet, and make blocks of them. None where it is undefined.
   */
  forget(segments: readonly number[], memtable: number, newest?: number): void {
    if (segments.length === 0 && memtable < 0) return
    const gone = new Set([...segments, ...(memtable < 0 ? [] : [memtableOwner(memtable)])])
    this.drop(gone)
    if (newest !== undefined) this.leaving.push({ gone, newest })
  }

  /** A job has ended: drops what was made for the last readers of what is gone. @param oldest number of the oldest job under way; undefined: there is none. */
  jobEnded(oldest: number | undefined): void {
    this.chunks.jobEnded()
    while (this.leaving.length > 0 && (oldest === undefined || oldest > this.leaving[0].newest)) this.drop((this.leaving.shift() as Leaving).gone)
  }

  private drop(gone: ReadonlySet<number>): void {
    this.cache.forget(gone)
    this.files?.forget(gone)
  }

  /** Oldest first. */
  blockSources(sources: readonly Source[]): BlockSource[] {
    const out: BlockSource[] = []
    for (const source of sources) {
      const chunks = source.memtable?.part.chunks.length ?? 1
      for (let chunk = 0; chunk < chunks; chunk++) out.push({ order: out.length, source, chunk })
    }
    return out
  }

  /** As `blockSources`, with chunks that do not change any more in groups. */
  groupedSources(sources: readonly Source[]): BlockSource[] {
    const blockSources = this.blockSources(sources)
    const out: BlockSource[] = []
    for (let i = 0; i < blockSources.length; ) {
      const blockSource = blockSources[i]
      const { memtable } = blockSource.source
      const last = blockSource.chunk + GROUP_CHUNKS - 1
      // A chunk that another follows has all its rows. A table's last one may be replaced by a larger one, even when it is full.
      const whole = memtable !== undefined && last + 1 < memtable.part.chunks.length
      out.push(whole ? { ...blockSource, group: true } : blockSource)
      i += whole ? GROUP_CHUNKS : 1
    }
    return out
  }

  /** Whether all rows of a segment source have a value of the field, or none has; undefined where some have, and where that is not known without reading them. */
  filled(source: Source, scope: ReadScope): Promise<boolean | undefined> {
    return this.segments.filled(source, scope)
  }

  /** The series of a segment source, ascending. */
  seriesOf(source: Source, scope: ReadScope): Promise<Int32Array> {
    return this.segments.seriesOf(source, scope)
  }

  /**
   * Rows whose values are read when they are asked for, in segments within `reading`; undefined where samples do not tell all.
   * @param series those wanted, ascending. @param sparse of the one field, rows without a value may be left out.
   */
  async rows(
    { source, chunk }: BlockSource,
    series: Int32Array,
    fields: readonly FieldDef[],
    sparse: boolean,
    scope: AnyScope,
  ): Promise<{ blocks: RowBlock[]; masks: readonly BlockMask[] } | undefined> {
    const masks = source.masks.length === 0 ? NOTHING : blockMasks(source.masks, source.minTime, source.maxTime)
    if (source.segment !== undefined) {
      const blocks = await this.segments.rows(source, series, fields, sparse, scope)
      return blocks === undefined ? undefined : { blocks, masks }
    }
    const block = this.chunks.rows(source.memtable!, chunk, fields, sparse, scope.range, series, scope.question)
    return { blocks: block === undefined ? [] : [block], masks }
  }

  /** Calls what reads values of a source's rows. @returns undefined where that is not possible. */
  reading<T>(source: Source, read: () => T): Promise<T | undefined> | T {
    return source.segment === undefined ? read() : this.segments.reading(source, read)
  }

  /** @param series those wanted, ascending. */
  read(source: BlockSource, series: Int32Array, scope: ReadScope): MaskedBlock[] | Promise<MaskedBlock[]> {
    return this.readAny(source, series, scope) as MaskedBlock[] | Promise<MaskedBlock[]>
  }

  /** As `read`, of a segment, for who keeps what there is to know of it: nothing is taken from what is kept, or added to it. */
  async readOnce(source: Source, series: Int32Array, scope: ReadScope): Promise<MaskedBlock[]> {
    const masks = source.masks.length === 0 ? NOTHING : blockMasks(source.masks, source.minTime, source.maxTime)
    return ((await this.passing.of(source, series, scope)) as SampleBlock[]).map((block) => ({ block, masks }))
  }

  /** As `read`, for readers of packed blocks, too. */
  readAny({ source, chunk, group }: BlockSource, series: Int32Array, scope: AnyScope): MaskedBlock<AnyBlock>[] | Promise<MaskedBlock<AnyBlock>[]> {
    const masks = source.masks.length === 0 ? NOTHING : blockMasks(source.masks, source.minTime, source.maxTime)
    const visible = (block: AnyBlock): MaskedBlock<AnyBlock> => ({ block, masks })
    if (source.segment !== undefined) {
      const blocks = this.segments.of(source, series, scope)
      return blocks instanceof Promise ? blocks.then((list) => list.map(visible)) : blocks.map(visible)
    }
    const together = group === true ? this.groups.of(source, chunk, scope, series.length >= GROUP_SERIES) : undefined
    if (together !== undefined) return [visible(together)]
    const out: MaskedBlock<AnyBlock>[] = []
    for (let c = chunk; c < chunk + (group === true ? GROUP_CHUNKS : 1); c++) {
      const block = this.chunks.of(source.memtable!, c, scope.field, scope.range, series, scope.question)
      if (block !== undefined) out.push(visible(block))
    }
    return out
  }
}
