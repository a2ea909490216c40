/** Before an engine thread reads a segment for the first time, its file is checked: once a process, by whichever thread comes first. */
import { corruptSegment, segmentFault, Trust, type TrustTable, trustOf, trustPlace } from '../integrity/trust.ts'
import type { Source } from '../read/sources.ts'
import type { FromWorker } from '../threads/messages.ts'
import type { SegmentMeta } from '../threads/segment-entry.ts'

/** Files one thread reads at a time. */
const LANES = 4
/** The thread that checks a segment may have ended: another one then takes it on. */
const PATIENCE_MS = 10_000

/** Thrown where nothing can be awaited; `ensure` them and try again. */
export class UnverifiedSegments extends Error {
  readonly segments: SegmentMeta[]

  constructor(segments: SegmentMeta[]) {
    super('segments have to be verified first')
    this.segments = segments
  }
}

/** What stands between a statement and the segments that it reads. */
export interface SegmentGate {
  /** @throws UnverifiedSegments */
  require(sources: readonly Source[]): void
  /** Resolves when all can be read. */
  ensure(segments: readonly SegmentMeta[], signal?: AbortSignal): Promise<void>
  ensureSources(sources: readonly Source[], signal?: AbortSignal): Promise<void>
}

export class SegmentVerifier implements SegmentGate {
  private readonly trust: TrustTable
  private readonly dataDir: string
  private readonly report: (message: Extract<FromWorker, { kind: 'corrupt' }>) => void
  private readonly patienceMs: number
  private readonly prefetched: (bytes: number) => void

  /** @param report called for each corrupt segment this thread finds, @param prefetched of each file it has read, 0 for one it could not. */
  constructor(
    trust: TrustTable,
    dataDir: string,
    report: (message: Extract<FromWorker, { kind: 'corrupt' }>) => void,
    patienceMs: number = PATIENCE_MS,
    prefetched: (bytes: number) => void = () => {},
  ) {
    this.prefetched = prefetched
    this.trust = trust
    this.dataDir = dataDir
    this.report = report
    this.patienceMs = patienceMs
  }

  /** @throws UnverifiedSegments */
  require(sources: readonly Source[]): void {
    const wanted = this.unverified(segmentsOf(sources))
    if (wanted.length > 0) throw new UnverifiedSegments(wanted)
  }

  /** Resolves when all are known to be whole. @throws DATABASE_ERROR naming the first corrupt one. */
  async ensure(segments: readonly SegmentMeta[], signal?: AbortSignal): Promise<void> {
    const wanted = this.unverified(segments)
    if (wanted.length === 0) return
    let next = 0
    const lane = async (): Promise<void> => {
      while (next < wanted.length) await this.verify(wanted[next++], signal)
    }
    await Promise.all(Array.from({ length: Math.min(LANES, wanted.length) }, lane))
  }

  ensureSources(sources: readonly Source[], signal?: AbortSignal): Promise<void> {
    return this.ensure(segmentsOf(sources), signal)
  }

  private unverified(segments: readonly SegmentMeta[]): SegmentMeta[] {
    return segments.filter(({ id }) => {
      const known = trustOf(this.trust, id)
      return known !== Trust.TRUSTED && known !== Trust.VERIFIED
    })
  }

  private async verify(segment: SegmentMeta, signal: AbortSignal | undefined): Promise<void> {
    const { trust } = this
    const { id, file } = segment
    let takeOver = false
    for (;;) {
      signal?.throwIfAborted()
      const known = trustOf(trust, id)
      if (known === Trust.TRUSTED || known === Trust.VERIFIED) return
      if (known === Trust.CORRUPT) throw corruptSegment(file, 'it is corrupt')
      const place = trustPlace(trust, id)
      if (takeOver || Atomics.compareExchange(trust.states, place, Trust.UNVERIFIED, Trust.CHECKING) === Trust.UNVERIFIED) {
        await this.check(segment, signal)
        continue
      }
      const waiting = Atomics.waitAsync(trust.states, place, Trust.CHECKING, this.patienceMs)
      takeOver = waiting.async && (await waiting.value) === 'timed-out'
    }
  }

  private async check(segment: SegmentMeta, signal: AbortSignal | undefined): Promise<void> {
    let found: number = Trust.UNVERIFIED
    try {
      const fault = await segmentFault(this.dataDir, segment, signal === undefined ? undefined : async () => signal.throwIfAborted())
      found = fault === undefined ? Trust.VERIFIED : Trust.CORRUPT
      if (fault !== undefined) this.report({ kind: 'corrupt', segment: segment.id, cause: fault })
      this.prefetched(fault === undefined ? segment.bytes : 0)
    } finally {
      const place = trustPlace(this.trust, segment.id)
      Atomics.store(this.trust.states, place, found)
      Atomics.notify(this.trust.states, place)
    }
  }
}

export function segmentsOf(sources: readonly Source[]): SegmentMeta[] {
  return sources.flatMap(({ segment }) => segment ?? [])
}
