/**
 * Keeps the account of corrupt segments, and reads all segments now and then to find corruption before a query does. Runs on the main thread: reading
 * happens elsewhere, the checksum of what was read takes less than a tenth of a millisecond, and no engine thread has to be started for it.
 */

import { join } from 'node:path'
import type { StorageContext } from 'svcdb'
import { type FileSystem, realFileSystem } from '../../common/log/file-system.ts'
import { realTimers, type Timer, type Timers } from '../../common/timers.ts'
import type { Catalog } from '../catalog/catalog.ts'
import type { DatabaseConfig } from '../config.ts'
import type { SegmentTable } from '../segment/segment-table.ts'
import { filesWithSums, type SegmentMeta } from '../threads/segment-entry.ts'
import { fileCrc } from './file-crc.ts'
import { corruptSegment, segmentFault, setTrust, Trust, type TrustTable, trustOf, trustPlace, trustTable } from './trust.ts'

interface ScrubberOptions {
  dataDir: string
  config: Pick<DatabaseConfig, 'segment_verification' | 'scrub_interval_secs' | 'scrub_bytes_per_sec'>
  log: StorageContext['log']
  catalog: Pick<Catalog, 'amendSegment'>
  segments: Pick<SegmentTable, 'local'>
  fs?: FileSystem
  timers?: Timers
}

const lacksSum = (segment: SegmentMeta): boolean => filesWithSums(segment).some(({ crc }) => crc === undefined)

export class Scrubber {
  readonly trust: TrustTable
  private readonly options: ScrubberOptions
  private readonly stopping = new AbortController()
  private readonly found = new Set<number>()
  private readonly fs: FileSystem
  private readonly timers: Timers
  private timer: Timer | undefined
  private running: Promise<void> | undefined
  private looked = false

  /** @param segments those found at the start. */
  constructor(options: ScrubberOptions, segments: readonly SegmentMeta[]) {
    this.options = options
    this.fs = options.fs ?? realFileSystem
    this.timers = options.timers ?? realTimers
    this.trust = trustTable(segments.map(({ id }) => id))
    if (options.config.segment_verification !== 'first_use') return
    for (const { id, crc } of segments) if (crc !== undefined) setTrust(this.trust, id, Trust.UNVERIFIED)
  }

  isCorrupt(segment: number): boolean {
    return trustOf(this.trust, segment) === Trust.CORRUPT
  }

  /** Whether all segments that were there at the start have been looked at, or never will be. */
  get hasLooked(): boolean {
    return this.looked || this.options.config.segment_verification === 'off'
  }

  /** Nothing speaks against what the segment's file says. */
  isSound(segment: number): boolean {
    const known = trustOf(this.trust, segment)
    return known === Trust.TRUSTED || known === Trust.VERIFIED
  }

  /** Corrupt segments that are still part of the database. */
  get corrupt(): number {
    return this.options.segments.local().filter(({ id }) => this.isCorrupt(id)).length
  }

  /** Corrupt segments of the tables that may hold rows of the range. */
  outOfService(tables: readonly number[], start: bigint, end: bigint): number {
    const touched = ({ table, minTime, maxTime }: SegmentMeta) => tables.includes(table) && BigInt(maxTime) >= start && BigInt(minTime) <= end
    return this.options.segments.local().filter((segment) => this.isCorrupt(segment.id) && touched(segment)).length
  }

  /** Begins with what nobody has read since the start, newest first; then everything, each time the interval has passed. */
  start(): void {
    const { segment_verification: policy, scrub_interval_secs: interval } = this.options.config
    if (policy === 'off') return
    const before = new Set(this.options.segments.local().map(({ id }) => id))
    this.running = this.pass((segment) => before.has(segment.id) && (lacksSum(segment) || trustOf(this.trust, segment.id) < Trust.VERIFIED)).then(() => {
      this.looked = true
    })
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

  /** A thread has found a segment corrupt. */
  report(segment: number, cause: string): void {
    const meta = this.options.segments.local().find(({ id }) => id === segment)
    if (meta === undefined || this.found.has(segment)) return
    this.found.add(segment)
    setTrust(this.trust, segment, Trust.CORRUPT)
    const { log, catalog } = this.options
    log.error({ err: corruptSegment(meta.file, cause) }, 'a segment is corrupt: queries that need it fail, everything else is served')
    catalog.amendSegment(segment, { damaged: true }).catch((error: unknown) => log.error({ err: error }, 'cannot mark the corrupt segment in the catalog'))
  }

  private async pass(wanted: (segment: SegmentMeta) => boolean): Promise<void> {
    for (const segment of this.options.segments.local().sort((a, b) => b.sequence - a.sequence)) {
      if (this.stopping.signal.aborted) return
      if (!wanted(segment) || this.isCorrupt(segment.id)) continue
      try {
        await this.check(segment)
      } catch (error) {
        if (this.stopping.signal.aborted) return
        this.options.log.warn({ err: error, file: segment.file }, 'cannot check a segment; the next pass tries again')
      }
    }
  }

  private async check(segment: SegmentMeta): Promise<void> {
    const { dataDir, catalog } = this.options
    if (lacksSum(segment)) {
      // Written by an earlier server, which noted none: what is there now is what later checks compare with.
      const { file, sidecar, crc, sidecarCrc } = segment
      const sumOf = async (path: string): Promise<number> => (await fileCrc(join(dataDir, path), this.pace, this.fs)).crc
      const sums = { crc: crc ?? (await sumOf(file)), ...(sidecar === undefined ? {} : { sidecarCrc: sidecarCrc ?? (await sumOf(sidecar)) }) }
      await catalog.amendSegment(segment.id, sums)
      Object.assign(segment, sums)
    }
    const fault = await segmentFault(dataDir, segment, this.pace, this.fs)
    // Merged away meanwhile, it is nobody's any more, and `report` knows.
    if (fault !== undefined) this.report(segment.id, fault)
    else if (trustOf(this.trust, segment.id) === Trust.UNVERIFIED)
      Atomics.compareExchange(this.trust.states, trustPlace(this.trust, segment.id), Trust.UNVERIFIED, Trust.VERIFIED)
  }

  private readonly pace = async (bytes: number): Promise<void> => {
    await this.timers.sleep((bytes / this.options.config.scrub_bytes_per_sec) * 1000, this.stopping.signal)
  }
}
