/**
 * Series without rows are given back, so that they stop counting: after a delete of all their time, a drop, or when retention has passed their newest
 * row. Works in slices (../slices.ts), however many they are.
 *
 * Invariants
 * - A series is given back only when no row was written since what removed its rows, and none is in a decoder's batch: batches that were taken before it
 *   was asked for have ended, and those that were taken since have no row of it. A decoder that still remembers its number forgets it when the epoch rises;
 *   if it does not, its row is refused. Of a measurement that is gone nothing can be written: its series go without that.
 * - The tombstone that emptied series stays until they were looked at (`waitsFor`): after a restart it says which they are.
 * - Between two slices all is consistent: those given back are in the log, or their measurement's drop is, and after a crash the rest is found again.
 */
import type { StorageContext } from 'svcdb'
import { INT64_MAX, INT64_MIN } from '../../common/time.ts'
import { BLOCK } from '../catalog/catalog.ts'
import type { Schema } from '../catalog/schema.ts'
import type { Unstored } from '../catalog/unstored.ts'
import type { ChangeNames } from '../changes/names.ts'
import type { Memtable } from '../memtable/memtable.ts'
import type { SeriesTimes } from '../memtable/series-times.ts'
import type { EngineMetrics } from '../metrics.ts'
import type { SegmentTable } from '../segment/segment-table.ts'
import type { SeriesIndex } from '../series/series-index.ts'
import type { Slices } from '../slices.ts'
import type { Publisher } from '../threads/publishing/publisher.ts'
import type { Tombstone } from '../threads/removals.ts'
import type { SegmentMeta } from '../threads/segment-entry.ts'
import type { BatchPool } from '../write/batch-pool.ts'
import type { WritePath } from '../write/write-path.ts'
import { CandidateList, CandidateMembers, type Candidates } from './candidates.ts'

/** What a group of candidates costs at least, in series: so that many small ones do not make one long slice. */
const GROUP_COST = 64

interface ReleasesDependencies {
  schema: Schema
  index: SeriesIndex
  writes: Pick<WritePath, 'change' | 'idle' | 'named'>
  batches: BatchPool
  publisher: Publisher
  log: StorageContext['log']
  slices: Slices
  segments: SegmentTable
  times: SeriesTimes
  unstored: Unstored
  metrics: Pick<EngineMetrics, 'seriesReleased'>
  /** Of changes: whether somebody follows them, who is told names. */
  names: Pick<ChangeNames, 'following'>
}

/** Series that may have lost all rows in sources below a sequence. */
interface Group {
  candidates: Candidates
  /** Of those that are left over. */
  wanted?: (series: number) => boolean
  sequence: number
  /** Batches that were taken when it was asked for: while one of them is in a decoder's hands it waits. */
  batches: number
  /** What emptied them; absent = retention. */
  tombstone?: number
  /** Their measurement is gone for good. */
  gone?: true
  /** They are known to have no rows anywhere (`SeriesTimes.isEmpty`). */
  bare?: true
  /** Those with rows in memtables that were flushed since have been left out: segments know nothing more. */
  followed?: true
}

interface Unsettled {
  series: Int32Array
  /** The measurement that each had. */
  owners: Int32Array
  min: number
  max: number
}

export class Releases {
  private queue: Group[] = []
  /** Those that batches in decoders' hands may have rows of. */
  private postponed: Group[] = []
  /** Those of retention that wait, by measurement: the next move replaces them. */
  private readonly below = new Map<number, Group>()
  private current: Group | undefined
  private running: Promise<void> | undefined
  /** Given back in a record that is not durable yet. */
  private readonly unsettled = new Set<Unsettled>()
  private readonly dependencies: ReleasesDependencies

  /** @param stored tombstones of the catalog: the last process may not have come to give their series back. */
  constructor(dependencies: ReleasesDependencies, stored: Iterable<Tombstone>) {
    this.dependencies = dependencies
    for (const tombstone of stored) if (isOfAllTime(tombstone)) this.queue.push(this.groupOf(tombstone))
  }

  /** A tombstone masks all rows, of any time, below its sequence. */
  emptied(tombstone: Tombstone): void {
    this.queue.push({ ...this.groupOf(tombstone), followed: true })
  }

  /** A memtable becomes segments: what it knows of series that wait here goes with it. */
  flushed(memtable: Memtable): void {
    for (const group of [this.current, ...this.queue, ...this.postponed]) {
      if (group?.followed === undefined || group.sequence > memtable.sequence) continue
      const left: Int32Array[] = []
      while (!group.candidates.ended) left.push(group.candidates.take(this.dependencies.slices.size).filter((series) => !memtable.has(series)))
      group.candidates = new CandidateList(concatenated(left))
    }
  }

  /** Retention has moved: series of the measurement whose newest row is before `cutoff`, in a source below `sequence`. */
  expired(measurement: number, cutoff: bigint, sequence: number): void {
    const { index, times, batches } = this.dependencies
    const [low, high] = [Number(BigInt.asIntN(32, cutoff)), Number(cutoff >> 32n)]
    const isBelow = (series: number): boolean => times.isBelow(series, low, high)
    this.below.set(measurement, { candidates: new CandidateMembers(index.members, measurement, isBelow), wanted: isBelow, sequence, batches: batches.taken })
  }

  /** Series of the measurement that are known to have no rows, as a look into all segments has shown. */
  bare(measurement: number): void {
    const { index, times, batches } = this.dependencies
    const isEmpty = (series: number): boolean => times.isEmpty(series)
    const candidates = new CandidateMembers(index.members, measurement, isEmpty)
    this.queue.push({ candidates, wanted: isEmpty, sequence: 0, batches: batches.taken, bare: true })
  }

  /** The measurement is gone for good. */
  gone(measurement: number): void {
    this.queue.push({ candidates: new CandidateMembers(this.dependencies.index.members, measurement), sequence: 0, batches: 0, gone: true })
  }

  /** Whether the tombstone is needed to find series again. */
  waitsFor(tombstone: number): boolean {
    const waits = (group: Group | undefined): boolean => group?.tombstone === tombstone
    return waits(this.current) || this.queue.some(waits) || this.postponed.some(waits)
  }

  /** The measurements that series from `from` on and below `to` had before they were given back in a record that is not durable yet. */
  ownersBefore(from: number, to: number): ReadonlyMap<number, number> {
    const found = new Map<number, number>()
    for (const { series, owners, min, max } of this.unsettled) {
      if (max < from || min >= to) continue
      for (let i = 0; i < series.length; i++) if (series[i] >= from && series[i] < to) found.set(series[i], owners[i])
    }
    return found
  }

  /** Gives back what can be now. Resolves when all that waited at the call was looked at. */
  run(): Promise<void> {
    for (const group of this.postponed.splice(0)) this.queue.push(group)
    for (const group of this.below.values()) this.queue.push(group)
    this.below.clear()
    // In a later microtask: `running` is set before it may end.
    this.running ??= Promise.resolve().then(() => this.all())
    return this.running
  }

  /** Gives back what waits of measurements that are gone, at once: for a start. */
  runAtStart(): void {
    const { index } = this.dependencies
    for (const { candidates, gone } of this.queue) {
      if (gone === undefined) continue
      while (!candidates.ended) this.given(index.release(candidates.take(this.dependencies.slices.size)))
    }
    this.queue = this.queue.filter(({ gone }) => gone === undefined)
  }

  /** The series were given back, and a restart knows. */
  given(series: Int32Array): void {
    if (series.length === 0) return
    const { publisher, unstored, metrics } = this.dependencies
    let last = -1
    for (const number of series) {
      const block = Math.floor(number / BLOCK)
      if (block !== last) unstored.mark('series', block)
      last = block
    }
    publisher.publish({ kind: 'series-released', series })
    metrics.seriesReleased.inc(series.length)
  }

  private async all(): Promise<void> {
    const { slices } = this.dependencies
    try {
      for (let left = slices.size; ; ) {
        this.current = this.queue.shift()
        const group = this.current
        if (group === undefined) return
        while (!group.candidates.ended) {
          if (left <= 0) {
            await slices.next()
            left = slices.size
          }
          if (!this.dependencies.batches.hasReturned(group.batches)) {
            this.postponed.push(group)
            break
          }
          left -= this.slice(group, left)
        }
        left -= GROUP_COST
      }
    } finally {
      this.current = undefined
      this.running = undefined
    }
  }

  private groupOf({ id, sequence, measurement, series }: Tombstone): Group {
    const { batches, index } = this.dependencies
    const { members } = index
    const candidates = series === null ? new CandidateMembers(members, measurement) : new CandidateList(series)
    return { candidates, sequence, batches: batches.taken, tombstone: id }
  }

  /** @returns series looked at. */
  private slice(group: Group, max: number): number {
    const { candidates, wanted, sequence, gone, bare, followed } = group
    const { index, writes } = this.dependencies
    const series = candidates.take(max)
    if (gone !== undefined) this.given(index.release(series))
    else {
      let live = series.filter((number) => index.isLive(number))
      const named = writes.named(live)
      if (named.length > 0) {
        this.postponed.push({ ...group, candidates: new CandidateList(named, wanted) })
        const held = new Set(named)
        live = live.filter((number) => !held.has(number))
      }
      const settled = followed !== undefined || bare !== undefined
      this.release(writes.idle(settled ? live : this.unwritten(live, sequence), sequence))
    }
    return Math.max(1, candidates.looked)
  }

  private release(idle: Int32Array): void {
    const { index, writes, log, schema, names } = this.dependencies
    const ownersOf = idle.map((number) => index.measurementOf(number))
    const series = index.release(idle)
    if (series.length === 0) return
    const owners = series.length === idle.length ? ownersOf : series.map((number) => ownersOf[idle.indexOf(number)])
    // Of a measurement that is gone for good no result is left.
    const namespaces = new Set(Array.from(new Set(owners), (owner) => schema.any(owner)?.namespace).filter((namespace) => namespace !== undefined))
    const unsettled = { series, owners, min: series.reduce((a, b) => Math.min(a, b)), max: series.reduce((a, b) => Math.max(a, b)) }
    this.unsettled.add(unsettled)
    const named = names.following ? { names: Array.from(series, (number, i): [number, string[]] => [owners[i], index.tagsOf(number)]) } : {}
    writes
      .change(
        { kind: 'release', series, ...named },
        () => {
          this.unsettled.delete(unsettled)
          this.given(series)
        },
        () => {
          this.unsettled.delete(unsettled)
          for (let i = 0; i < series.length; i++) if (schema.any(owners[i]) !== undefined) index.unrelease(series[i], owners[i])
        },
        namespaces,
      )
      .catch((error) => log.warn({ err: error, series: series.length }, 'cannot give series back that have no points left; they keep counting'))
  }

  /** Those that no segment from `sequence` on may have rows of. One that may have is found later: by retention, or by the next start. */
  private unwritten(series: Int32Array, sequence: number): Int32Array {
    const { index, schema, segments } = this.dependencies
    const newer = new Map<number, SegmentMeta[]>()
    return series.filter((number) => {
      const owner = index.measurementOf(number)
      let list = newer.get(owner)
      if (list === undefined) {
        list = (schema.any(owner)?.tables ?? []).flatMap((table) => segments.of(table.id).filter((segment) => segment.sequence >= sequence))
        newer.set(owner, list)
      }
      return !list.some((segment) => segment.minSeries <= number && segment.maxSeries >= number)
    })
  }
}

/** Without rows of any time, series are to be given back. */
export const isOfAllTime = ({ start, end }: Tombstone): boolean => start === INT64_MIN && end === INT64_MAX

function concatenated(lists: readonly Int32Array[]): Int32Array {
  const out = new Int32Array(lists.reduce((sum, { length }) => sum + length, 0))
  let at = 0
  for (const list of lists) {
    out.set(list, at)
    at += list.length
  }
  return out
}
