/**
 * One DoPut of record batches into a measurement: each batch is a write of its own as soon as it is there, several at a time. What cannot be
 * stored is counted and told at the end, when what can be is stored. While the storage can take no more the client is held back.
 */
import { randomInt } from 'node:crypto'
import type { RecordBatch, Schema } from 'apache-arrow'
import { type CallContext, type Counter, partialWrite, type Rejection, type Svc } from 'svcdb'
import { type ErrorCode, SvcError } from 'svcdb/lib/errors'
import type { GrpcCall } from 'svcdb/lib/grpc'
import { patiently } from 'svcdb/lib/source'
import { PutWriter } from './put/put-writer.ts'

export interface PutLimits {
  maxFields: number
  maxTextBytes: number
  /** Writes under way. */
  maxInFlight: number
  /** Bytes of record batches kept to be written again, should a later message say `backfill`. */
  maxHeldBytes: number
  /** How long a batch waits for room in the storage. */
  maxWaitMs: number
}

export interface PutTarget {
  measurement: string
  /** Decided beforehand. */
  backfill?: boolean | undefined
}

/** A record batch, and what has become of it. Written again, it is the same points: their time is fixed with the first try. */
interface PendingBatch {
  batch: RecordBatch
  /** What the batch lies in. */
  message: Uint8Array
  /** What it takes in memory. */
  bytes: number
  firstRow: number
  now: bigint
  state: 'new' | 'done' | 'blocked'
  /** Its values that are not finite are in the metric. */
  counted: boolean
  outcome: Outcome
}

interface Outcome {
  written: number
  rejected: number
  rejections: Rejection[]
}

/** Faults of the rows themselves: others of the stream may be stored all the same. */
const OF_ROWS: ReadonlySet<ErrorCode> = new Set(['SCHEMA_ERROR', 'INVALID_POINT', 'FUTURE_TIMESTAMP', 'CARDINALITY_EXCEEDED', 'PARTIAL_WRITE'])
const MAX_REASONS = 16
/** What a batch costs that is kept, besides its values. */
const PENDING_BYTES = 1024
/** A flush takes about a second. */
const PAUSES = { firstPauseMs: 100, maxPauseMs: 400 }

export class PutStream {
  private readonly svc: Svc
  private readonly context: CallContext
  private readonly limits: PutLimits
  private readonly points: Counter
  private readonly call: GrpcCall<CallContext>
  private readonly writer: PutWriter
  private readonly underWay = new Set<Promise<void>>()
  /** Begun, the first of them not done yet. */
  private readonly window: PendingBatch[] = []
  /** Of batches that may still be written again. */
  private readonly refused = new Set<Outcome>()
  /** Of all others: a stream may go on for ever. */
  private readonly final: Outcome = { written: 0, rejected: 0, rejections: [] }
  /** The first batch that was refused in part, and all behind it: written again, they come in the same order. */
  private readonly held = new Set<PendingBatch>()
  private heldBytes = 0
  /** There were more than may be held. */
  private overfull = false
  private backfill: boolean | undefined
  private rows = 0
  private written = 0
  private failure: unknown

  /** @throws BAD_REQUEST for a schema that is no measurement's. */
  constructor(svc: Svc, context: CallContext, schema: Schema, target: PutTarget, limits: PutLimits, points: Counter, call: GrpcCall<CallContext>) {
    this.svc = svc
    this.context = context
    this.limits = limits
    this.points = points
    this.call = call
    this.backfill = target.backfill
    const { resolver } = svc.storage
    const { dataNamespace: namespace } = context
    const { maxFields, maxTextBytes } = limits
    this.writer = new PutWriter({ resolver, namespace, measurement: target.measurement, schema, maxFields, maxTextBytes, seed: randomInt(2 ** 31) })
  }

  /** The first message with metadata decides: batches before it that were refused in part are then written again. */
  async decide(backfill: boolean): Promise<void> {
    if (this.backfill !== undefined) return
    // A batch that was being written twice at a time could be forgotten by the first write, and what became of the second not be seen.
    if (backfill) await this.room(1)
    this.backfill = backfill
    if (!backfill) return this.letGo()
    const again = [...this.held].sort((a, b) => a.firstRow - b.firstRow)
    this.held.clear()
    for (const pending of again) {
      this.begin(pending)
      await this.room()
    }
  }

  /** Resolves when there is room for another one. @param message the batch lies in it; it is the stream's from now on. @throws what nothing more can be stored for. */
  async add(batch: RecordBatch, message: Uint8Array): Promise<void> {
    const outcome: Outcome = { written: 0, rejected: 0, rejections: [] }
    // Unpacked, a batch may be a thousand times as large as its message.
    const bytes = PENDING_BYTES + Math.max(message.buffer.byteLength, batch.data.byteLength)
    const pending: PendingBatch = { batch, message, bytes, firstRow: this.rows, now: this.svc.clock.nowNanos(), state: 'new', counted: false, outcome }
    this.rows += batch.numRows
    this.call.keep(bytes)
    if (this.held.size > 0) this.hold(pending)
    this.begin(pending)
    await this.room()
  }

  /** Waits for all of it. @returns rows written. @throws PARTIAL_WRITE and others with both counts when some were refused. */
  async end(): Promise<number> {
    await this.room(1)
    const outcomes = [...this.refused, this.final]
    const all: Outcome = {
      written: this.written,
      rejected: outcomes.reduce((sum, { rejected }) => sum + rejected, 0),
      rejections: outcomes.flatMap(({ rejections }) => rejections).sort((a, b) => a.position - b.position),
    }
    if (all.rejected > 0)
      throw partialWrite(all, { place: (position) => `row ${position + 1}`, counted: (written) => `${written} row${written === 1 ? '' : 's'}` })
    return all.written
  }

  private begin(pending: PendingBatch): void {
    pending.state = 'new'
    // It may still be there, done, behind one that is not: it is forgotten once.
    if (!this.window.includes(pending)) this.window.push(pending)
    const running: Promise<void> = this.write(pending)
      .catch((error: unknown) => {
        if (isBackpressure(error)) pending.state = 'blocked'
        else this.failure ??= error
      })
      .finally(() => {
        this.underWay.delete(running)
        while (this.window[0]?.state === 'done') this.forget(this.window.shift() as PendingBatch)
      })
    this.underWay.add(running)
  }

  /** Waits until fewer than so many writes are under way. */
  private async room(many = this.limits.maxInFlight): Promise<void> {
    const blocked = () => this.window.some(({ state }) => state === 'blocked')
    while (this.underWay.size >= many && !blocked() && this.failure === undefined) await Promise.race(this.underWay)
    if (blocked() && this.failure === undefined) await this.unblock()
    if (this.failure !== undefined) throw this.failure
  }

  /**
   * Writes what found no room once there is some, one after the other; what was begun after it is written again behind it, for the last write of a
   * point is the one that counts.
   */
  private async unblock(): Promise<void> {
    while (this.underWay.size > 0) await Promise.race(this.underWay)
    const { signal } = this.call
    const patience = { ...PAUSES, signal, maxWaitMs: this.limits.maxWaitMs, monotonic: () => this.svc.clock.monotonic() }
    for (const pending of this.window) {
      signal.throwIfAborted()
      await patiently(() => this.write(pending), { ...patience, transient: isBackpressure })
    }
    for (const pending of this.window.splice(0)) this.forget(pending)
  }

  /** Frees its memory at once: megabytes a message would otherwise have the garbage collector called in all the time. */
  private forget(pending: PendingBatch): void {
    if (this.held.has(pending)) return
    this.call.keep(-pending.bytes)
    const { final } = this
    if (this.refused.delete(pending.outcome)) {
      final.rejected += pending.outcome.rejected
      final.rejections.push(...pending.outcome.rejections.slice(0, MAX_REASONS - final.rejections.length))
    }
    const { buffer, byteLength } = pending.message
    if (byteLength === buffer.byteLength && buffer instanceof ArrayBuffer) buffer.transfer(0)
  }

  private async write(pending: PendingBatch): Promise<void> {
    const { svc, context, backfill } = this
    const { batch, firstRow } = pending
    try {
      const { filled, ...result } = await svc.ingest.write(context, { backfill: backfill === true }, (write) =>
        this.writer.turns.run(
          () => this.writer.append(batch, write, firstRow, pending.now),
          () => (this.call.signal.aborted ? this.call.signal.reason : undefined),
        ),
      )
      const { refusals, nonFinite } = filled
      if (!pending.counted) svc.ingest.countNonFinite(nonFinite)
      pending.counted = true
      this.settle(pending, result.written, refusals.count + result.rejected, [...refusals.reasons, ...result.rejections])
      if (result.rejected > 0 && backfill === undefined) this.undecided(pending)
    } catch (error) {
      if (!(error instanceof SvcError) || !OF_ROWS.has(error.code)) throw error
      this.settle(pending, 0, batch.numRows, [{ code: error.code, message: error.message, position: firstRow }])
    }
  }

  private settle(pending: PendingBatch, written: number, rejected: number, rejections: Rejection[]): void {
    const { outcome } = pending
    const more = written - outcome.written
    this.written += more
    if (more > 0) this.points.inc(more)
    pending.state = 'done'
    Object.assign(outcome, { written, rejected, rejections: rejections.slice(0, MAX_REASONS) })
    if (rejected > 0) this.refused.add(outcome)
    else this.refused.delete(outcome)
  }

  /** Some rows were refused before a message said whether they are a backfill; meanwhile one may have said that they are none. */
  private undecided(pending: PendingBatch): void {
    if (this.backfill !== undefined) return
    for (const later of [pending, ...this.window]) if (later.firstRow >= pending.firstRow) this.hold(later)
  }

  /** Without room for all, none is written again: an older value of a point would come behind a newer one. */
  private hold(pending: PendingBatch): void {
    if (this.overfull || this.held.has(pending)) return
    this.heldBytes += pending.bytes
    this.held.add(pending)
    this.overfull = this.heldBytes > this.limits.maxHeldBytes
    if (this.overfull) this.letGo()
  }

  private letGo(): void {
    const begun = new Set(this.window)
    for (const pending of this.held) if (!begun.has(pending)) this.call.keep(-pending.bytes)
    this.held.clear()
  }
}

function isBackpressure(error: unknown): boolean {
  return error instanceof SvcError && error.code === 'BACKPRESSURE'
}
