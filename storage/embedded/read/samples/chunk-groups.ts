/**
 * Full chunks of a memtable, several as one block of one measurement. A series has only a few rows in each chunk: gathered from the chunks
 * each time, nearly every run of samples would be a miss of the processor's caches.
 */
import type { ChunkView } from '../../memtable/chunk-view.ts'
import type { Source } from '../sources.ts'
import { type BlockCache, OwnedBlocks } from './block-cache.ts'
import { type ChunkBlocks, memtableOwner } from './chunk-blocks.ts'
import { Gatherer } from './gather.ts'
import { blockBytes, type SampleBlock } from './sample-block.ts'
import type { ReadScope } from './segment-blocks.ts'

/** Chunks of a group. */
export const GROUP_CHUNKS = 8
/** With fewer series than this, looking them up chunk by chunk is cheaper than making groups. */
export const GROUP_SERIES = 32
/** Fields of one measurement are below this. */
const FIELD_SPAN = 65_536

export class ChunkGroups {
  private readonly cache: BlockCache
  private readonly chunks: ChunkBlocks
  private readonly owned = new WeakMap<ChunkView, OwnedBlocks>()
  /** Groups that the cache does not take, or that cannot be one block. */
  private readonly refused = new WeakMap<ChunkView, Set<number>>()

  constructor(cache: BlockCache, chunks: ChunkBlocks) {
    this.cache = cache
    this.chunks = chunks
  }

  /** The group that begins with chunk `first`; undefined when its chunks have to be read one by one. */
  of(source: Source, first: number, measurement: number, scope: ReadScope): SampleBlock | undefined {
    const { part } = source.memtable!
    const head = part.chunks[first]
    const key = measurement * FIELD_SPAN + scope.field.id
    if (this.refused.get(head)?.has(key)) return undefined
    let owned = this.owned.get(head)
    if (owned === undefined) this.owned.set(head, (owned = new OwnedBlocks(memtableOwner(part.memtable.id))))
    const known = this.cache.get(owned, key)
    if (known !== undefined) return known
    const block = this.make(source, first, scope)
    if (block !== undefined && this.cache.accepts(blockBytes(block))) {
      this.cache.put(owned, key, block, blockBytes(block))
      return block
    }
    const refused = this.refused.get(head)
    if (refused === undefined) this.refused.set(head, new Set([key]))
    else refused.add(key)
    return undefined
  }

  /** All of the measurement's series, at all times: the chunks are full, and nothing is masked in a block. */
  private make(source: Source, first: number, { field, all }: ReadScope): SampleBlock | undefined {
    const everything = [-(2n ** 63n), 2n ** 63n - 1n] as const
    const gatherer = new Gatherer(all, 0, Number.NEGATIVE_INFINITY, Number.POSITIVE_INFINITY)
    let min = Number.POSITIVE_INFINITY
    let max = Number.NEGATIVE_INFINITY
    let sparse = false
    for (let chunk = first; chunk < first + GROUP_CHUNKS; chunk++) {
      const block = this.chunks.of(source.memtable!.part, chunk, field, everything, all)
      if (block === undefined) continue
      // Which of two samples of a millisecond is the later one could not be told any more.
      if (block.rests !== undefined || block.blobs !== undefined) return undefined
      gatherer.add({ block, masks: [] })
      if (block.sparse === true) sparse = true
      if (block.minTime < min) min = block.minTime
      if (block.maxTime > max) max = block.maxTime
    }
    const samples = gatherer.samples(0, all.length)
    const rows = gatherer.rows(0, all.length, { times: new Float64Array(samples), values: new Float64Array(samples) })
    const series = new Int32Array(all.length)
    const starts = new Int32Array(all.length + 1)
    let n = 0
    for (let i = 0; i < all.length; i++) {
      if (rows.starts[i] === rows.starts[i + 1]) continue
      series[n] = all[i]
      starts[n++] = rows.starts[i]
    }
    starts[n] = rows.times.length
    return {
      series: series.slice(0, n),
      starts: starts.slice(0, n + 1),
      times: rows.times,
      values: rows.values,
      ...(rows.kinds === undefined ? {} : { kinds: rows.kinds }),
      ...(sparse ? { sparse: true as const } : {}),
      minTime: min,
      maxTime: max,
    }
  }
}
