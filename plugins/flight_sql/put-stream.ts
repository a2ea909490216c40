/**
 * One DoPut of record batches into a measurement: each batch is a write of its own as soon as it is there, several at a time, in their order.
 * What cannot be stored is counted and told at the end, when what can be is stored.
 */
import { randomInt } from 'node:crypto'
import type { RecordBatch, Schema } from 'apache-arrow'
import type { CallContext } from '../../kernel/auth.ts'
import { type ErrorCode, SvcError } from '../../kernel/errors.ts'
import type { Counter } from '../../kernel/metrics.ts'
import { partialWrite } from '../../kernel/partial-write.ts'
import type { Svc } from '../../kernel/plugin.ts'
import type { Rejection } from '../../kernel/storage.ts'
import { PutWriter } from './put/put-writer.ts'

export interface PutLimits {
  maxFields: number
  /** Writes under way. */
  maxInFlight: number
  /** Bytes of record batches kept to be written again, should a later message say `backfill`. */
  maxHeldBytes: number
}

export interface PutTarget {
  measurement: string
  /** Decided beforehand. */
  backfill?: boolean | undefined
}

/** What becomes of one record batch. */
interface Outcome {
  written: number
  rejected: number
  rejections: Rejection[]
}

interface Held {
  batch: RecordBatch
  firstRow: number
  outcome: Outcome
}

/** Faults of the rows themselves: others of the stream may be stored all the same. */
const OF_ROWS: ReadonlySet<ErrorCode> = new Set(['SCHEMA_ERROR', 'INVALID_POINT', 'FUTURE_TIMESTAMP', 'CARDINALITY_EXCEEDED', 'PARTIAL_WRITE'])
const MOST_REASONS = 16

export class PutStream {
  private readonly svc: Svc
  private readonly context: CallContext
  private readonly limits: PutLimits
  private readonly points: Counter
  private readonly writer: PutWriter
  private readonly outcomes: Outcome[] = []
  private readonly underWay = new Set<Promise<void>>()
  private readonly held: Held[] = []
  private heldBytes = 0
  private backfill: boolean | undefined
  private firstRow = 0
  private failure: unknown

  /** @throws BAD_REQUEST for a schema that is no measurement's. */
  constructor(svc: Svc, context: CallContext, schema: Schema, target: PutTarget, limits: PutLimits, points: Counter) {
    this.svc = svc
    this.context = context
    this.limits = limits
    this.points = points
    this.backfill = target.backfill
    const { resolver } = svc.storage
    const { dataNamespace: namespace } = context
    this.writer = new PutWriter({ resolver, namespace, measurement: target.measurement, schema, maxFields: limits.maxFields, seed: randomInt(2 ** 31) })
  }

  /** The first message with metadata decides: batches before it that were refused as too old are then written again. */
  decide(backfill: boolean): void {
    if (this.backfill !== undefined) return
    this.backfill = backfill
    const again = this.held.splice(0)
    if (!backfill) return
    for (const { batch, firstRow, outcome } of again) this.begin(batch, firstRow, outcome, 0)
  }

  /** Resolves when there is room for another one. @throws what nothing more can be stored for. */
  async add(batch: RecordBatch, bytes: number): Promise<void> {
    const { firstRow } = this
    this.firstRow += batch.numRows
    const outcome: Outcome = { written: 0, rejected: 0, rejections: [] }
    this.outcomes.push(outcome)
    this.begin(batch, firstRow, outcome, bytes)
    while (this.underWay.size >= this.limits.maxInFlight) await Promise.race(this.underWay)
    if (this.failure !== undefined) throw this.failure
  }

  /** Waits for all of it. @returns rows written. @throws PARTIAL_WRITE and others with both counts when some were refused. */
  async end(): Promise<number> {
    while (this.underWay.size > 0) await Promise.race(this.underWay)
    if (this.failure !== undefined) throw this.failure
    const all: Outcome = { written: 0, rejected: 0, rejections: [] }
    for (const { written, rejected, rejections } of this.outcomes) {
      all.written += written
      all.rejected += rejected
      all.rejections.push(...rejections.slice(0, MOST_REASONS - all.rejections.length))
    }
    if (all.rejected > 0)
      throw partialWrite(all, { place: (position) => `row ${position + 1}`, counted: (written) => `${written} row${written === 1 ? '' : 's'}` })
    return all.written
  }

  private begin(batch: RecordBatch, firstRow: number, outcome: Outcome, bytes: number): void {
    const running: Promise<void> = this.write(batch, firstRow, outcome, bytes)
      .catch((error: unknown) => {
        this.failure ??= error
      })
      .finally(() => this.underWay.delete(running))
    this.underWay.add(running)
  }

  private async write(batch: RecordBatch, firstRow: number, outcome: Outcome, bytes: number): Promise<void> {
    const { svc, context, backfill } = this
    const { storage } = svc
    const write = storage.batch(context.dataNamespace)
    let handedOver = false
    try {
      const { refusals, nonFinite } = this.writer.append(batch, write, firstRow, svc.clock.nowNanos())
      svc.ingest.countNonFinite(nonFinite)
      handedOver = true
      const result = await svc.ingest.write(write, context, { backfill: backfill === true, surface: svc.id })
      this.points.inc(Math.max(0, result.written - outcome.written))
      outcome.written = result.written
      outcome.rejected = refusals.count + result.rejected
      outcome.rejections = [...refusals.reasons, ...result.rejections].slice(0, MOST_REASONS)
      if (result.rejected > 0 && backfill === undefined) await this.undecided({ batch, firstRow, outcome }, bytes)
    } catch (error) {
      if (!(error instanceof SvcError) || !OF_ROWS.has(error.code)) throw error
      outcome.rejected = batch.numRows
      outcome.rejections = [{ code: error.code, message: error.message, position: firstRow }]
    } finally {
      if (!handedOver) storage.recycle(write)
    }
  }

  /** Some rows were refused before a message said whether they are a backfill; meanwhile one may have. */
  private async undecided(held: Held, bytes: number): Promise<void> {
    if (this.backfill === true) return this.write(held.batch, held.firstRow, held.outcome, bytes)
    if (this.backfill === false || this.heldBytes + bytes > this.limits.maxHeldBytes) return
    this.heldBytes += bytes
    this.held.push(held)
  }
}

/** `{"backfill": true}`; undefined when there is no metadata. @throws BAD_REQUEST for anything else. */
export function backfillOf(appMetadata: Uint8Array): boolean | undefined {
  if (appMetadata.length === 0) return undefined
  let members: unknown
  try {
    members = JSON.parse(Buffer.from(appMetadata.buffer, appMetadata.byteOffset, appMetadata.length).toString('utf8'))
  } catch (error) {
    throw new SvcError('BAD_REQUEST', 'cannot read app_metadata: it is no JSON; send {"backfill": true} or nothing', { cause: error })
  }
  if (typeof members !== 'object' || members === null || Array.isArray(members))
    throw new SvcError('BAD_REQUEST', 'cannot read app_metadata: it is no JSON object; send {"backfill": true} or nothing')
  const unknown = Object.keys(members).find((key) => key !== 'backfill')
  if (unknown !== undefined)
    throw new SvcError('BAD_REQUEST', `cannot read app_metadata: the key ${JSON.stringify(unknown.slice(0, 64))} is unknown; there is "backfill"`)
  const { backfill } = members as { backfill?: unknown }
  if (backfill !== undefined && typeof backfill !== 'boolean') throw new SvcError('BAD_REQUEST', 'cannot read app_metadata: "backfill" is not true or false')
  return backfill ?? false
}
