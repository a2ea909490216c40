/** Archived segments as a job sees them: before a statement reads one, the main thread is asked to make it readable, and it stays so for the job. */
import { type ErrorCode, SvcError } from 'svcdb/lib/errors'
import { type SegmentGate, segmentsOf, UnverifiedSegments } from '../segment/verify.ts'
import type { ArchivedObject, FromWorker, WireError } from '../threads/messages.ts'
import type { SegmentMeta } from '../threads/segment-entry.ts'
import type { Source } from './sources.ts'

/** Requests of one engine thread that wait for the main thread. */
export class ArchiveRequests {
  private readonly waiting = new Map<number, { resolve: () => void; reject: (error: unknown) => void }>()
  private readonly post: (message: Extract<FromWorker, { kind: 'fetch' }>) => void
  private next = 0

  constructor(post: (message: Extract<FromWorker, { kind: 'fetch' }>) => void) {
    this.post = post
  }

  async fetch(job: number, objects: readonly ArchivedObject[], signal: AbortSignal): Promise<void> {
    signal.throwIfAborted()
    const request = this.next++
    let stop: (() => void) | undefined
    try {
      await new Promise<void>((resolve, reject) => {
        stop = () => reject(signal.reason)
        signal.addEventListener('abort', stop)
        this.waiting.set(request, { resolve, reject })
        this.post({ kind: 'fetch', id: job, request, objects: objects.map(({ file, bytes, crc }) => ({ file, bytes, crc })) })
      })
    } finally {
      this.waiting.delete(request)
      if (stop !== undefined) signal.removeEventListener('abort', stop)
    }
  }

  answered(request: number, error: WireError | undefined): void {
    const waiting = this.waiting.get(request)
    if (error === undefined) waiting?.resolve()
    else waiting?.reject(new SvcError(error.code as ErrorCode, error.message))
  }
}

export class JobSegments implements SegmentGate {
  private readonly local: SegmentGate | undefined
  private readonly fetch: (objects: readonly ArchivedObject[]) => Promise<void>
  private readonly ready = new Set<number>()

  /** @param local for segments that are not archived. */
  constructor(local: SegmentGate | undefined, fetch: (objects: readonly ArchivedObject[]) => Promise<void>) {
    this.local = local
    this.fetch = fetch
  }

  require(sources: readonly Source[]): void {
    this.local?.require(sources.filter(({ segment }) => !segment?.archived))
    const wanted = this.missing(segmentsOf(sources))
    if (wanted.length > 0) throw new UnverifiedSegments(wanted)
  }

  async ensure(segments: readonly SegmentMeta[], signal?: AbortSignal): Promise<void> {
    const wanted = this.missing(segments)
    await this.local?.ensure(
      segments.filter(({ archived }) => !archived),
      signal,
    )
    if (wanted.length === 0) return
    await this.fetch(wanted)
    for (const { id } of wanted) this.ready.add(id)
  }

  ensureSources(sources: readonly Source[], signal?: AbortSignal): Promise<void> {
    return this.ensure(segmentsOf(sources), signal)
  }

  private missing(segments: readonly SegmentMeta[]): SegmentMeta[] {
    return segments.filter(({ id, archived }) => archived && !this.ready.has(id))
  }
}
