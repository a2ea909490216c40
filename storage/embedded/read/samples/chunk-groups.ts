/**
 * Full chunks of a memtable, several as one unit of one measurement. A series has only a few rows in each chunk: gathered from the chunks
 * each time, nearly every run of samples would be a miss of the processor's caches.
 */
import type { ChunkView } from '../../memtable/chunk-view.ts'
import type { Piece } from '../sources.ts'
import { type UnitCache, UnitShelf } from './block-cache.ts'
import { type ChunkUnits, memtableOwner } from './chunk-blocks.ts'
import { Gatherer } from './gather.ts'
import { type Unit, unitBytes } from './sample-block.ts'
import type { ReadScope } from './segment-blocks.ts'

/** Chunks of a group. */
export const GROUP_CHUNKS = 8
/** With fewer series than this, looking them up chunk by chunk is cheaper than making groups. */
export const GROUP_SERIES = 32
/** Fields of one measurement are below this. */
const FIELD_SPAN = 65_536

export class ChunkGroups {
  private readonly cache: UnitCache
  private readonly chunks: ChunkUnits
  private readonly shelves = new WeakMap<ChunkView, UnitShelf>()
  /** Groups that the cache does not take, or that cannot be one unit. */
  private readonly refused = new WeakMap<ChunkView, Set<number>>()

  constructor(cache: UnitCache, chunks: ChunkUnits) {
    this.cache = cache
    this.chunks = chunks
  }

  /** The group that begins with chunk `first`; undefined when its chunks have to be read one by one. */
  of(piece: Piece, first: number, measurement: number, scope: ReadScope): Unit | undefined {
    const { part } = piece.memtable!
    const head = part.chunks[first]
    const key = measurement * FIELD_SPAN + scope.field.id
    if (this.refused.get(head)?.has(key)) return undefined
    let shelf = this.shelves.get(head)
    if (shelf === undefined) this.shelves.set(head, (shelf = new UnitShelf(memtableOwner(part.memtable.id))))
    const known = this.cache.get(shelf, key)
    if (known !== undefined) return known
    const unit = this.make(piece, first, scope)
    if (unit !== undefined && this.cache.accepts(unitBytes(unit))) {
      this.cache.put(shelf, key, unit, unitBytes(unit))
      return unit
    }
    const refused = this.refused.get(head)
    if (refused === undefined) this.refused.set(head, new Set([key]))
    else refused.add(key)
    return undefined
  }

  /** All of the measurement's series, at all times: the chunks are full, and nothing is hidden in a unit. */
  private make(piece: Piece, first: number, { field, all }: ReadScope): Unit | undefined {
    const everything = [-(2n ** 63n), 2n ** 63n - 1n] as const
    const gatherer = new Gatherer(all, 0, Number.NEGATIVE_INFINITY, Number.POSITIVE_INFINITY)
    let min = Number.POSITIVE_INFINITY
    let max = Number.NEGATIVE_INFINITY
    for (let chunk = first; chunk < first + GROUP_CHUNKS; chunk++) {
      const unit = this.chunks.of(piece.memtable!.part, chunk, field, everything, all, undefined)
      if (unit === undefined) continue
      // Which of two samples of a millisecond is the later one could not be told any more.
      if (unit.rests !== undefined || unit.blobs !== undefined) return undefined
      gatherer.add({ unit, hidden: [] })
      if (unit.minTime < min) min = unit.minTime
      if (unit.maxTime > max) max = unit.maxTime
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
      minTime: min,
      maxTime: max,
    }
  }
}
