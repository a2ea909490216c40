/**
 * Keeps the account of damaged segments, and reads all segments now and then to find damage before a query does. Runs on the main thread: reading
 * happens elsewhere, a piece's checksum takes less than a tenth of a millisecond, and no engine thread has to be started for it.
 */

import { join } from 'node:path'
import type { StorageContext } from 'svcdb'
import type { Catalog } from '../catalog/catalog.ts'
import type { DatabaseConfig } from '../config.ts'
import type { SegmentMeta } from '../threads/layout.ts'
import { realTimers, type Timer, type Timers } from '../timers.ts'
import { type FileSystem, realFileSystem } from '../wal/file-system.ts'
import { fileCrc } from './file-crc.ts'
import { damagedSegment, segmentFault, setTrust, Trust, trustArray, trustOf } from './trust.ts'

export interface ScrubberParts {
  dataDir: string
  config: Pick<DatabaseConfig, 'segment_verification' | 'scrub_interval_secs' | 'scrub_bytes_per_sec'>
  log: StorageContext['log']
  catalog: Pick<Catalog, 'amendSegment'>
  /** Those that are part of the database now. */
  segments(): SegmentMeta[]
  fs?: FileSystem
  timers?: Timers
}

export class Scrubber {
  readonly trust: Int32Array
  private readonly parts: ScrubberParts
  private readonly stopping = new AbortController()
  private readonly found = new Set<number>()
  private readonly fs: FileSystem
  private readonly timers: Timers
  private timer: Timer | undefined
  private running: Promise<void> | undefined

  /** @param segments those found at the start. */
  constructor(parts: ScrubberParts, segments: readonly SegmentMeta[]) {
    this.parts = parts
    this.fs = parts.fs ?? realFileSystem
    this.timers = parts.timers ?? realTimers
    this.trust = trustArray(segments.reduce((most, { id }) => Math.max(most, id + 1), 0))
    if (parts.config.segment_verification !== 'first_use') return
    for (const { id, crc } of segments) if (crc !== undefined) this.trust[id] = Trust.UNVERIFIED
  }

  isDamaged(segment: number): boolean {
    return trustOf(this.trust, segment) === Trust.DAMAGED
  }

  /** Damaged segments that are still part of the database. */
  get damaged(): number {
    return this.parts.segments().filter(({ id }) => this.isDamaged(id)).length
  }

  /** Damaged segments of the tables that may hold rows of the range. */
  outOfService(tables: readonly number[], start: bigint, end: bigint): number {
    const touched = ({ table, minTime, maxTime }: SegmentMeta) => tables.includes(table) && BigInt(maxTime) >= start && BigInt(minTime) <= end
    return this.parts.segments().filter((segment) => this.isDamaged(segment.id) && touched(segment)).length
  }

  /** Begins with what nobody has read since the start, newest first; then everything, each time the interval has passed. */
  start(): void {
    const { segment_verification: policy, scrub_interval_secs: interval } = this.parts.config
    if (policy === 'off') return
    const before = new Set(this.parts.segments().map(({ id }) => id))
    this.running = this.pass(({ id, crc }) => before.has(id) && (crc === undefined || trustOf(this.trust, id) < Trust.VERIFIED))
    if (interval === 0) return
    this.timer = this.timers
      .setInterval(() => {
        this.running = this.running?.then(() => this.pass(() => true))
      }, interval * 1000)
      .unref()
  }

  async stop(): Promise<void> {
    this.timers.clearInterval(this.timer)
    this.stopping.abort()
    await this.running
  }

  /** A thread has found a segment damaged. */
  report(segment: number, cause: string): void {
    const meta = this.parts.segments().find(({ id }) => id === segment)
    if (meta === undefined || this.found.has(segment)) return
    this.found.add(segment)
    setTrust(this.trust, segment, Trust.DAMAGED)
    const { log, catalog } = this.parts
    log.error({ err: damagedSegment(meta.file, cause) }, 'a segment is damaged: queries that need it fail, everything else is served')
    catalog.amendSegment(segment, { damaged: true }).catch((error: unknown) => log.error({ err: error }, 'cannot mark the damaged segment in the catalog'))
  }

  private async pass(wanted: (segment: SegmentMeta) => boolean): Promise<void> {
    for (const segment of this.parts.segments().sort((a, b) => b.sequence - a.sequence)) {
      if (this.stopping.signal.aborted) return
      if (!wanted(segment) || this.isDamaged(segment.id)) continue
      try {
        await this.check(segment)
      } catch (error) {
        if (this.stopping.signal.aborted) return
        this.parts.log.warn({ err: error, file: segment.file }, 'cannot check a segment; the next pass tries again')
      }
    }
  }

  private async check(segment: SegmentMeta): Promise<void> {
    const { dataDir, catalog } = this.parts
    if (segment.crc === undefined) {
      // Written by format version 1, which had none: what is there now is what later checks compare with.
      const { crc } = await fileCrc(join(dataDir, segment.file), this.pace, this.fs)
      await catalog.amendSegment(segment.id, { crc })
      segment.crc = crc
      return
    }
    const fault = await segmentFault(dataDir, segment, this.pace, this.fs)
    // Merged away meanwhile, it is nobody's any more, and `report` knows.
    if (fault !== undefined) this.report(segment.id, fault)
    else if (trustOf(this.trust, segment.id) === Trust.UNVERIFIED) Atomics.compareExchange(this.trust, segment.id, Trust.UNVERIFIED, Trust.VERIFIED)
  }

  private readonly pace = async (bytes: number): Promise<void> => {
    await this.timers.sleep((bytes / this.parts.config.scrub_bytes_per_sec) * 1000, this.stopping.signal)
  }
}
