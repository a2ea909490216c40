/**
 * StreamWrite: messages gathered into batches by points, bytes and time. While a batch is written, or waits for room, the next one is gathered, and a
 * client that is faster than that is held back.
 *
 * The first fault ends the stream. What came before it is written first, what comes after it is not looked at; the error counts what was written.
 * A message with a key is left out when its key was written within the window; keys of a batch that was not written whole are free again.
 */

import { type CallContext, partialWrite, type Rejection, type WriteResult } from 'svcdb'
import type { WriteBatch } from 'svcdb/lib/columns'
import { SvcError } from 'svcdb/lib/errors'
import type { GrpcCall } from 'svcdb/lib/grpc'
import { patiently } from 'svcdb/lib/source'
import { streamWriteResponse } from './answers.ts'
import type { DedupKeys } from './dedup-keys.ts'
import type { PointsOptions } from './points.ts'
import { streamEnvelope } from './requests.ts'
import { type PointWriter, together } from './write.ts'

/** Between tries to write what finds no room, from and to. */
const PAUSES = { firstPauseMs: 50, maxPauseMs: 200 }

interface GatheredMessage {
  /** Its first point. */
  from: number
  /** In the stream. */
  number: number
  /** Kept until it is written: a batch is gone once it was tried. */
  message: Uint8Array
  options: PointsOptions
}

/** What is gathered. Positions of its rows are numbers of points, from 0. */
interface Gathered {
  batch: WriteBatch
  /** Has it written, or given up with an error. */
  close(error?: unknown): void
  /** Settles once it is closed. */
  result: Promise<WriteResult>
  /** What becomes of it if it goes on after its WRITE_TIMEOUT. */
  late: Promise<WriteResult> | undefined
  rows: number
  bytes: number
  points: number
  rejected: number
  rejections: Rejection[]
  messages: GatheredMessage[]
  keys: string[]
}

export class StreamWrite {
  private readonly writer: PointWriter
  private readonly call: GrpcCall<CallContext>
  private readonly keys: DedupKeys
  /** Of the method. */
  private readonly path: string
  private readonly backfill: boolean
  private gathered: Gathered | undefined
  private timer: NodeJS.Timeout | undefined
  /** A message is being read, and the batch is due since. */
  private reading = false
  private due = false
  /** Resolves when the batch before is written, or was not; never rejects. */
  private writing: Promise<void> = Promise.resolve()
  private failure: unknown
  private fail: (error: unknown) => void = () => {}
  private messages = 0
  private total = 0
  private last = 0

  constructor(writer: PointWriter, call: GrpcCall<CallContext>, keys: DedupKeys, path: string) {
    this.path = path
    this.writer = writer
    this.call = call
    this.keys = keys
    this.backfill = backfillOf(call.metadata('x-backfill'))
  }

  /** @returns the answer. */
  run(requests: AsyncIterable<Uint8Array>): Promise<Uint8Array> {
    return new Promise((resolve, reject) => {
      // A batch that fails while the client is silent ends the stream at once.
      this.fail = (error) => {
        this.failure ??= error
        reject(this.failure)
      }
      this.consume(requests).then(resolve, this.fail)
    })
  }

  private async consume(requests: AsyncIterable<Uint8Array>): Promise<Uint8Array> {
    const stands = this.writer.svc.auth.standing(this.call.context, 'write', this.path)
    try {
      for await (const message of requests) {
        if (this.failure !== undefined) throw this.failure
        await stands()
        await this.take(message, this.messages++)
      }
    } catch (error) {
      // What the client has given up is not written behind its back.
      if (this.call.signal.aborted) this.discard()
      await this.flushAll()
      throw this.failure ?? this.counted(error)
    }
    await this.flushAll()
    if (this.failure !== undefined) throw this.failure
    return streamWriteResponse(this.total, this.last)
  }

  private async take(message: Uint8Array, number: number): Promise<void> {
    const { config } = this.writer
    let gathered: Gathered
    try {
      const { points, dedupKey } = streamEnvelope(message, this.writer.svc.server.max_write_batch_size)
      const key = await this.keys.claim(this.call.context, dedupKey, (under) => this.gathered?.keys.includes(under) && void this.flush())
      if (key === null) return
      gathered = await this.gather(message, number, points, key)
    } catch (error) {
      throw error instanceof SvcError ? new SvcError(error.code, `messages[${number}]: ${error.message}`, { cause: error }) : error
    }
    if (this.due || gathered.rejected > 0 || gathered.rows >= config.stream_batch_size || gathered.bytes >= config.stream_batch_bytes) await this.flush()
    else this.timer ??= setTimeout(() => this.late(), config.stream_batch_interval_ms)
  }

  /** What is gathered has waited for long enough. It is not written while a message is being read into it. */
  private late(): void {
    if (this.reading) this.due = true
    else void this.flush()
  }

  private async gather(message: Uint8Array, number: number, points: number, key: string | undefined): Promise<Gathered> {
    const gathered = this.open()
    this.reading = true
    try {
      const from = gathered.points
      const options = this.writer.options()
      const outcome = await this.writer.decode(message, gathered.batch, options, from, this.call)
      gathered.messages.push({ from, number, message, options })
      gathered.rows += outcome.rows
      gathered.points += points
      gathered.bytes += message.length
      gathered.rejected += outcome.rejected
      gathered.rejections.push(...outcome.rejections)
    } catch (error) {
      if (key !== undefined) this.keys.end(key, false)
      throw error
    } finally {
      this.reading = false
    }
    if (key !== undefined) gathered.keys.push(key)
    return gathered
  }

  private open(): Gathered {
    if (this.gathered !== undefined) return this.gathered
    const gathering = Promise.withResolvers<void>()
    let batch!: WriteBatch
    const result = this.write(
      (empty) => {
        batch = empty
        return gathering.promise
      },
      (written) => {
        gathered.late = written
      },
    )
    result.catch(nothing) // asked for only where it is written
    const close = (error?: unknown) => (error === undefined ? gathering.resolve() : gathering.reject(error))
    const gathered: Gathered = {
      batch,
      close,
      result,
      late: undefined,
      rows: 0,
      bytes: 0,
      points: 0,
      rejected: 0,
      rejections: [],
      messages: [],
      keys: [],
    }
    return (this.gathered = gathered)
  }

  /** Has what is gathered written; resolves when the batch before is. */
  private flush(): Promise<void> {
    clearTimeout(this.timer)
    this.timer = undefined
    this.due = false
    const { gathered, writing } = this
    if (gathered === undefined) return writing
    this.gathered = undefined
    this.writing = writing.then(() => this.store(gathered))
    return writing
  }

  private async flushAll(): Promise<void> {
    await this.flush()
    await this.writing
  }

  private discard(): void {
    const { gathered } = this
    this.gathered = undefined
    if (gathered === undefined) return
    gathered.close(GIVEN_UP)
    this.release(gathered, false)
  }

  private async store(gathered: Gathered): Promise<void> {
    const { written } = this.writer
    let whole = false
    try {
      let result: WriteResult = { written: 0, rejected: 0, rejections: [] }
      if (this.failure === undefined) result = await this.patient(gathered)
      else gathered.close(GIVEN_UP)
      written.inc(result.written)
      this.total += result.written
      this.last = result.written
      const refused = together(gathered, result)
      whole = refused.rejected === 0 && this.failure === undefined
      if (refused.rejected > 0) this.fail(partialWrite({ ...refused, written: this.total }, { place: (position) => placeOf(gathered, position) }))
    } catch (error) {
      this.fail(this.counted(error))
    } finally {
      this.release(gathered, whole)
    }
  }

  /** Writes, and waits for room while there is none: a load is often faster than flushing. Meanwhile the client is held back. */
  private async patient(gathered: Gathered): Promise<WriteResult> {
    const { svc, config } = this.writer
    const patience = { ...PAUSES, signal: this.call.signal, maxWaitMs: config.backpressure_wait_secs * 1000, monotonic: () => svc.clock.monotonic() }
    let result: Promise<WriteResult> | undefined = gathered.result
    gathered.close()
    return patiently(
      () => {
        const first = result
        result = undefined
        if (first !== undefined) return first
        return this.write(
          (batch) => this.again(gathered, batch),
          (written) => {
            gathered.late = written
          },
        )
      },
      { ...patience, transient: ({ code }) => code === 'BACKPRESSURE' },
    )
  }

  private write(fill: (batch: WriteBatch) => Promise<void>, late: (written: Promise<WriteResult>) => void): Promise<WriteResult> {
    return this.writer.svc.ingest.write(this.call.context, { backfill: this.backfill, late }, fill)
  }

  /** The same messages into another batch. Which points are refused may be another matter by now. */
  private async again(gathered: Gathered, batch: WriteBatch): Promise<void> {
    gathered.rejected = 0
    gathered.rejections = []
    for (const { message, options, from } of gathered.messages) {
      const { rejected, rejections } = await this.writer.decode(message, batch, options, from, this.call)
      gathered.rejected += rejected
      gathered.rejections.push(...rejections)
    }
  }

  private release({ keys, late, rejected }: Gathered, written: boolean): void {
    for (const key of keys) {
      if (late === undefined) this.keys.end(key, written)
      else this.keys.endLate(key, rejected === 0, late)
    }
  }

  /** The error with the count of what was written before it. */
  private counted(error: unknown): unknown {
    if (!(error instanceof SvcError)) return error
    const text =
      this.total === 0 ? error.message : `${error.message}; of the stream ${this.total} ${this.total === 1 ? 'point was' : 'points were'} written before`
    return new SvcError(error.code, text, { cause: error, detail: { ...error.detail, written: this.total } })
  }
}

/** Why a batch is not written. Nobody sees it. */
const GIVEN_UP = new Error('given up')
const nothing = (): void => {}

/** As HTTP reads its parameter: what is neither true nor false would otherwise pass for false. */
function backfillOf(given: string | undefined): boolean {
  if (given === undefined || given === 'true' || given === 'false') return given === 'true'
  throw new SvcError('BAD_REQUEST', `cannot use metadata x-backfill "${given.slice(0, 32)}": it is true or false`)
}

function placeOf({ messages }: Gathered, position: number): string {
  const message = messages.findLast(({ from }) => from <= position) as Gathered['messages'][number]
  return `messages[${message.number}].points[${position - message.from}]`
}
