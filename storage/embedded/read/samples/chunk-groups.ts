/**
 * Chunks of a memtable that others follow, which have all their rows, several as one block of one measurement. A series has only a few rows in each chunk: gathered from the chunks
 * each time, nearly every run of samples would be a miss of the processor's caches.
 */
import type { ChunkView } from '../../memtable/chunk-view.ts'
import type { Source } from '../sources.ts'
import { type BlockCache, OwnedBlocks } from './block-cache.ts'
import { type ChunkBlocks, memtableOwner } from './chunk-blocks.ts'
import { DecimalScale } from './decimal-scale.ts'
import { joinedBlocks } from './joined-blocks.ts'
import { PackedBlock, Packer } from './packed-block.ts'
import { blockBytes, type SampleBlock } from './sample-block.ts'
import type { AnyBlock, AnyScope, ReadScope } from './segment-blocks.ts'

/** Chunks of a group. */
export const GROUP_CHUNKS = 8
/** With fewer series than this, looking them up chunk by chunk is cheaper than making groups. */
export const GROUP_SERIES = 32
/** Fields of one measurement are below this. */
const FIELD_SPAN = 65_536

export class ChunkGroups {
  private readonly cache: BlockCache
  private readonly chunks: ChunkBlocks
  private readonly owned = new WeakMap<ChunkView, OwnedBlocks<AnyBlock>>()
  private readonly packer = new Packer()
  private readonly scale = new DecimalScale()
  /** Groups that the cache does not take, or that cannot be one block. */
  private readonly refused = new WeakMap<ChunkView, Set<number>>()

  constructor(cache: BlockCache, chunks: ChunkBlocks) {
    this.cache = cache
    this.chunks = chunks
  }

  /**
   * The group that begins with chunk `first`; undefined when its chunks have to be read one by one.
   * @param make whether it is made when it is not there.
   */
  of(source: Source, first: number, scope: AnyScope, make: boolean): AnyBlock | undefined {
    const { part } = source.memtable!
    const head = part.chunks[first]
    const key = scope.measurement * FIELD_SPAN + scope.field.id
    if (this.refused.get(head)?.has(key)) return undefined
    let owned = this.owned.get(head)
    if (owned === undefined) this.owned.set(head, (owned = new OwnedBlocks(memtableOwner(part.memtable.id))))
    const known = this.cache.get(owned, key)
    if (known instanceof PackedBlock ? scope.packed !== undefined : known !== undefined && scope.packed !== true) return known
    if (known === undefined && !make) return undefined
    // Those who cannot read it have the chunks.
    if (known instanceof PackedBlock) return undefined
    const made = known ?? this.make(source, first, scope)
    const packed = made !== undefined && scope.packed === true ? this.packer.pack(made) : undefined
    const block = packed ?? (made === undefined || made === known ? made : this.scale.narrowed(made))
    if (block !== undefined && (block === known || this.cache.accepts(bytesOf(block)))) {
      if (block !== known) this.cache.put(owned, key, block, bytesOf(block))
      // In a table of its own nobody else makes groups of these chunks.
      if (source.measurement === undefined) for (let c = first; c < first + GROUP_CHUNKS; c++) this.chunks.drop(part, c, scope.field)
      return block
    }
    const refused = this.refused.get(head)
    if (refused === undefined) this.refused.set(head, new Set([key]))
    else refused.add(key)
    return undefined
  }

  /** All of the measurement's series, at all times: the chunks have all their rows, and nothing is masked in a block. */
  private make(source: Source, first: number, { field, all, question }: ReadScope): SampleBlock | undefined {
    const everything = [-(2n ** 63n), 2n ** 63n - 1n] as const
    const blocks: SampleBlock[] = []
    for (let chunk = first; chunk < first + GROUP_CHUNKS; chunk++) {
      const block = this.chunks.of(source.memtable!, chunk, field, everything, all, question, true)
      if (block === undefined) continue
      // Which of two samples of a millisecond is the later one could not be told any more.
      if (block.rests !== undefined || block.blobs !== undefined) return undefined
      blocks.push(block)
    }
    return joinedBlocks(blocks, all)
  }
}

function bytesOf(block: AnyBlock): number {
  return block instanceof PackedBlock ? block.bytes : blockBytes(block)
}
