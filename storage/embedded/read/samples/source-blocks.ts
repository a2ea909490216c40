/** The pieces of a measurement as units, with what is hidden of each. */
import type { Interval, Piece } from '../sources.ts'
import { BlockBuffers } from './block-buffers.ts'
import { UnitCache } from './block-cache.ts'
import { ChunkUnits, memtableOwner } from './chunk-blocks.ts'
import { ChunkGroups, GROUP_CHUNKS, GROUP_SERIES } from './chunk-groups.ts'
import { type HiddenTimes, hiddenTimes, keepOf } from './mask-times.ts'
import type { Unit } from './sample-block.ts'
import { type ReadScope, SegmentUnits } from './segment-blocks.ts'

export interface VisibleUnit {
  unit: Unit
  hidden: readonly HiddenTimes[]
}

/** A piece, or one chunk of a memtable: what is read at once. Of equal times the one with the higher `order` wins. */
export interface Source {
  order: number
  piece: Piece
  /** Of a memtable piece; of a group its first. */
  chunk: number
  /** The chunk and those after it may be read as a group. */
  group?: true
}

const NOTHING: readonly HiddenTimes[] = []

/** Everything an engine thread keeps for reading samples. */
export class SampleUnits {
  readonly buffers = new BlockBuffers()
  private readonly cache: UnitCache
  private readonly segments: SegmentUnits
  private readonly chunks: ChunkUnits
  private readonly groups: ChunkGroups

  /** @param budget bytes. */
  constructor(budget: number) {
    this.cache = new UnitCache(budget)
    this.segments = new SegmentUnits(this.cache)
    this.chunks = new ChunkUnits(this.cache)
    this.groups = new ChunkGroups(this.cache, this.chunks)
  }

  /** Bytes of the units kept. */
  get bytes(): number {
    return this.cache.bytes
  }

  /** Drops the units of segments and of a memtable (-1: none) that are gone. */
  forget(segments: readonly number[], memtable: number): void {
    if (segments.length === 0 && memtable < 0) return
    this.cache.forget(new Set([...segments, ...(memtable < 0 ? [] : [memtableOwner(memtable)])]))
  }

  /** Oldest first. */
  sourcesOf(pieces: readonly Piece[]): Source[] {
    const out: Source[] = []
    for (const piece of pieces) {
      const chunks = piece.memtable?.part.chunks.length ?? 1
      for (let chunk = 0; chunk < chunks; chunk++) out.push({ order: out.length, piece, chunk })
    }
    return out
  }

  /** As `sourcesOf`, with full chunks in groups where many series are wanted. */
  groupsOf(pieces: readonly Piece[], series: Int32Array): Source[] {
    const sources = this.sourcesOf(pieces)
    if (series.length < GROUP_SERIES) return sources
    const out: Source[] = []
    for (let i = 0; i < sources.length; ) {
      const source = sources[i]
      const { memtable } = source.piece
      const last = source.chunk + GROUP_CHUNKS - 1
      // Chunks fill up in order: when the last is full, so are those before it.
      const whole = memtable !== undefined && last < memtable.part.chunks.length && memtable.part.counts[last] === memtable.part.chunks[last].def.capacity
      out.push(whole ? { ...source, group: true } : source)
      i += whole ? GROUP_CHUNKS : 1
    }
    return out
  }

  /** The series of a segment piece, ascending. */
  seriesOf(piece: Piece, scope: ReadScope): Promise<Int32Array> {
    return this.segments.seriesOf(piece, scope)
  }

  /** @param series those wanted, ascending. */
  read({ piece, chunk, group }: Source, series: Int32Array, scope: ReadScope): VisibleUnit[] | Promise<VisibleUnit[]> {
    const hidden = piece.hidden.length === 0 ? NOTHING : hiddenTimes(piece.hidden, piece.minTime, piece.maxTime)
    const keep = hidden === undefined ? keepOf(piece.hidden) : undefined
    const visible = (unit: Unit): VisibleUnit => ({ unit, hidden: hidden ?? NOTHING })
    if (piece.segment !== undefined) {
      const units = this.segments.of(piece, series, scope, keep)
      return units instanceof Promise ? units.then((list) => list.map(visible)) : units.map(visible)
    }
    const { part } = piece.memtable!
    const together = group === true && keep === undefined ? this.groups.of(piece, chunk, scope.measurement, scope) : undefined
    if (together !== undefined) return [visible(together)]
    const out: VisibleUnit[] = []
    for (let c = chunk; c < chunk + (group === true ? GROUP_CHUNKS : 1); c++) {
      const unit = this.chunks.of(part, c, scope.field, scope.range, series, keep)
      if (unit !== undefined) out.push(visible(unit))
    }
    return out
  }
}

/** Inclusive nanoseconds as inclusive whole milliseconds, both rounded down. */
export function millisecondRange([lo, hi]: Interval): [number, number] {
  return [Number(floorMs(lo)), Number(floorMs(hi))]
}

function floorMs(time: bigint): bigint {
  const ms = time / 1_000_000n
  return time < 0n && ms * 1_000_000n !== time ? ms - 1n : ms
}
