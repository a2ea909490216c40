/**
 * After a start, the newest time of each series is that of its measurement (`seedTimes`): enough to tell which rows repeat none, but series whose rows are long
 * gone look alive until retention has passed the start. Once a process, in the background, this learns from the segments which series have rows, and until when,
 * and hands those without any to `Releases`.
 *
 * Invariants
 * - A time is lowered only to one that no row of the series is above, wherever it lies: in one turn of the main loop, all segments there are were taken into
 *   account, and no memtable has rows of it. What is written afterwards raises the time as ever.
 * - A segment whose file cannot be read, is corrupt or lies in the archive counts as if all series of its range had its newest row.
 * - What is in memory and what a turn does is bounded by RANGE, however many series there are.
 */
import type { StorageContext } from 'svcdb'
import type { Seeds } from '../catalog/load.ts'
import type { Schema } from '../catalog/schema.ts'
import type { Scrubber } from '../integrity/scrubber.ts'
import type { Memtables } from '../memtable/memtables.ts'
import { EMPTY_TIME, type SeriesTimes } from '../memtable/series-times.ts'
import type { SegmentTable } from '../segment/segment-table.ts'
import type { SeriesIndex } from '../series/series-index.ts'
import type { Signal } from '../signal.ts'
import type { Slices } from '../slices.ts'
import type { WorkerPool } from '../threads/pool/pool.ts'
import type { SegmentMeta } from '../threads/segment-entry.ts'
import { newestOf } from './cutoffs.ts'
import { raise } from './newest-times.ts'
import type { Releases } from './releases.ts'
import type { Tombstones } from './tombstones.ts'

/** Numbers of series that are asked for at once. */
const RANGE = 65_536

interface SeededTimesDependencies {
  schema: Schema
  index: Pick<SeriesIndex, 'isLive' | 'measurement'>
  memtables: Pick<Memtables, 'all'>
  segments: Pick<SegmentTable, 'tables' | 'of' | 'version'>
  tombstones: Pick<Tombstones, 'cutoffs'>
  times: SeriesTimes
  releases: Pick<Releases, 'bare' | 'expired'>
  slices: Slices
  pool: Pick<WorkerPool, 'newestRows'>
  scrubber: Pick<Scrubber, 'hasLooked' | 'isSound'>
  /** Raised when there may be something to give back. */
  tidyWanted: Signal
  log: StorageContext['log']
}

/** Series [from, to), and the newest time found of each. */
interface Range {
  from: number
  to: number
  times: BigInt64Array
  halves: Int32Array
}

export class SeededTimes {
  private readonly dependencies: SeededTimesDependencies
  private readonly seeds: Seeds
  private done: boolean
  private stopped = false
  private running: Promise<void> | undefined
  /** Measurements whose rows retention removes. */
  private limited: ReadonlySet<number> = new Set()

  constructor(dependencies: SeededTimesDependencies, seeds: Seeds) {
    this.dependencies = dependencies
    this.seeds = seeds
    this.done = seeds.count === 0
  }

  /**
   * Begins, unless that was done: when the files have been compared with their checksums, which is also when senders have written again to most series that live.
   * @param limited measurements whose rows retention removes.
   */
  look(limited: ReadonlySet<number>): void {
    if (this.done || this.stopped || this.running !== undefined || limited.size === 0 || !this.dependencies.scrubber.hasLooked) return
    this.limited = limited
    this.running = this.all()
      .catch((error) => {
        this.dependencies.log.warn({ err: error }, 'cannot find out which series have no points left; they keep counting until retention has passed this start')
      })
      .finally(() => {
        this.done = true
        this.running = undefined
      })
  }

  /** Nothing more is asked for. */
  stop(): void {
    this.stopped = true
  }

  async settled(): Promise<void> {
    await this.running
  }

  private async all(): Promise<void> {
    const { schema, releases, tombstones, tidyWanted } = this.dependencies
    const lowered = new Set<number>()
    const times = new BigInt64Array(new SharedArrayBuffer(RANGE * 8))
    for (let at = 0; at < this.seeds.count; at += RANGE) {
      const [from, to] = await this.wantedIn(at, Math.min(at + RANGE, this.seeds.count))
      if (from < to) await this.lower({ from, to, times: times.subarray(0, to - from), halves: new Int32Array(times.buffer) }, lowered)
      if (this.stopped) return
    }
    for (const id of lowered) {
      if (schema.byId[id] === undefined) continue
      releases.bare(id)
      const cutoff = newestOf(tombstones.cutoffs, id)
      if (cutoff !== undefined) releases.expired(id, cutoff.cutoff, cutoff.sequence)
    }
    if (lowered.size > 0) tidyWanted.raise()
  }

  /** Whether nothing is known of the series but what the start has told. */
  private isWanted(series: number): boolean {
    const { index, times } = this.dependencies
    const owner = index.measurement[series]
    return this.limited.has(owner) && times.isAt(series, this.seeds.of(owner)) && index.isLive(series)
  }

  /** The part of a range that has all wanted series of it. */
  private async wantedIn(from: number, to: number): Promise<[from: number, to: number]> {
    const { slices } = this.dependencies
    let [first, last] = [to, from]
    for (let at = from; at < to && !this.stopped; ) {
      for (const end = Math.min(to, at + slices.size); at < end; at++) {
        if (!this.isWanted(at)) continue
        if (at < first) first = at
        last = at + 1
      }
      await slices.next()
    }
    return [first, last]
  }

  private async lower(range: Range, lowered: Set<number>): Promise<void> {
    const { segments, slices } = this.dependencies
    range.times.fill(EMPTY_TIME)
    const seen = new Set<number>()
    let version = -1
    for (let at = range.from; at < range.to && !this.stopped; ) {
      if (version === segments.version) {
        const end = Math.min(range.to, at + slices.size)
        this.lowerSome(range, at, end, lowered)
        at = end
        await slices.next()
        continue
      }
      // Those that a flush or a merge makes meanwhile are read as well.
      version = segments.version
      for (const segment of this.unseen(range, seen)) {
        await this.read(segment, range)
        seen.add(segment.id)
        if (this.stopped) return
      }
    }
  }

  private lowerSome({ from: first, halves }: Range, from: number, to: number, lowered: Set<number>): void {
    const { index, memtables, times } = this.dependencies
    const all = memtables.all()
    for (let series = from; series < to; series++) {
      if (!this.isWanted(series) || all.some((memtable) => memtable.has(series))) continue
      const at = (series - first) * 2
      if (times.lower(series, halves[at], halves[at + 1])) lowered.add(index.measurement[series])
    }
  }

  /** Segments that may have rows of wanted series. */
  private unseen({ from, to }: Range, seen: ReadonlySet<number>): SegmentMeta[] {
    const { schema, segments } = this.dependencies
    const found: SegmentMeta[] = []
    for (const [table, list] of segments.tables) {
      const owner = schema.tables[table]?.measurement
      // Shared ones have rows of any measurement.
      if (owner === undefined || (owner >= 0 && !this.limited.has(owner))) continue
      for (const segment of list) if (segment.minSeries < to && segment.maxSeries >= from && !seen.has(segment.id)) found.push(segment)
    }
    return found
  }

  private async read(segment: SegmentMeta, range: Range): Promise<void> {
    const { pool, scrubber, segments, slices, log } = this.dependencies
    const { id, table, archived, file } = segment
    const isThere = (): boolean => segments.of(table).includes(segment)
    // Merged meanwhile: what came of it is read.
    if (!isThere()) return
    if (!archived && scrubber.isSound(id)) {
      try {
        return await pool.newestRows({ table, segment: id, from: range.from, times: range.times })
      } catch (error) {
        if (this.stopped || !isThere()) return
        log.warn({ err: error, file }, 'cannot read which series a segment has; it counts as if it had all of its range')
      }
    } else await slices.next()
    const newest = BigInt(segment.maxTime)
    for (let series = Math.max(range.from, segment.minSeries); series < range.to && series <= segment.maxSeries; series++) raise(range, series, newest)
  }
}
