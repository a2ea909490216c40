/** `svc.ingest.points`: the slow, easy way in. It takes a point a call and writes what it has gathered as one batch. */
import type { CallContext } from '../auth/auth.ts'
import { inTurns } from '../lib/event-loop/index.ts'
import { type Fields, PointBuffer, type Refusals, type Tags } from '../lib/points/index.ts'
import type { WriteResult } from '../storage/storage.ts'
import type { Ingest, IngestOptions } from './ingest.ts'
import { partialWrite } from './partial-write.ts'

/** Options of the writes, and bounds of what may wait for one. */
export interface PointsOptions extends IngestOptions {
  /** Points that may wait; default `server.max_write_batch_size`. */
  maxPoints?: number
  /** Bytes of points that may wait; default `server.max_body_size`. */
  maxBytes?: number
}

/** What `Svc.ingest.points` gives. */
export interface Points {
  /** Points that wait to be written. */
  readonly length: number
  /**
   * @param fields number: float64, bigint: int64, boolean, string; `uint64`, `decimal` and `histogram` of `svcdb/lib/points` for the other types.
   * @param time nanoseconds since 1970, or a Date; default now. @throws INVALID_POINT, PAYLOAD_TOO_LARGE: nothing was added.
   */
  add(measurement: string, tags: Tags, fields: Fields, time?: bigint | Date): Points
  /**
   * Writes what was added; resolves when it is durable. Calls at a time go one after the other.
   * @throws SvcError PARTIAL_WRITE or the one code of all refused points, naming the first: all others are stored, and none waits any more. Whatever
   * else `ingest.write` throws: nothing was stored, and all wait for the next `write()`.
   */
  write(): Promise<WriteResult>
  /** Forgets what waits. */
  clear(): void
}

export class PointWriter implements Points {
  private readonly ingest: Ingest
  private readonly context: CallContext
  private readonly options: IngestOptions
  private readonly buffer: PointBuffer
  private readonly now: () => bigint
  private last: Promise<unknown> = Promise.resolve()

  constructor(ingest: Ingest, context: CallContext, options: Required<Pick<PointsOptions, 'maxPoints' | 'maxBytes'>> & IngestOptions, now: () => bigint) {
    this.ingest = ingest
    this.context = context
    this.options = options
    this.buffer = new PointBuffer({ ...options, nonFinite: options.nonFinite === true })
    this.now = now
  }

  get length(): number {
    return this.buffer.length
  }

  add(measurement: string, tags: Tags, fields: Fields, time: bigint | Date = this.now()): this {
    this.buffer.add(measurement, tags, fields, time)
    return this
  }

  clear(): void {
    this.buffer.clear()
  }

  write(): Promise<WriteResult> {
    const written = this.last.then(() => this.writeNow())
    this.last = written.catch(() => {})
    return written
  }

  private async writeNow(): Promise<WriteResult> {
    const { buffer } = this
    // What is added meanwhile is of the next write.
    const { length: count, epoch } = buffer
    const { filled, ...result } = await this.ingest.write(this.context, this.options, (batch) => inTurns(buffer.fill(batch, count)))
    const whole = together(filled, result)
    const refused = whole.rejected === 0 ? undefined : partialWrite(whole, { place: (position) => buffer.name(position) })
    if (buffer.epoch === epoch) buffer.drop(count)
    if (refused !== undefined) throw refused
    return whole
  }
}

function together(filled: Refusals, { written, rejected, rejections }: WriteResult): WriteResult {
  const all = [...filled.rejections, ...rejections].sort((a, b) => a.position - b.position)
  return { written, rejected: filled.rejected + rejected, rejections: all }
}
