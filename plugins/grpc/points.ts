/**
 * The points of a write, from the bytes of the message to columns, never an object a point.
 *
 * Measurement and tags stand first in what encoders write: those bytes are the key by which a series is recognised, and the series that came
 * after the last one is tried before anything is hashed. Fields may come in any order all the same (protobuf.dev, "Encoding"), and then cost a second pass.
 * What is no message is refused as a whole; a point that cannot be stored is left out, with the reason.
 */
import type { MeasurementRef, Rejection, SeriesResolver } from 'svcdb'
import { KeyTable, type TableBatch, type WriteBatch } from 'svcdb/lib/columns'
import { SvcError } from 'svcdb/lib/errors'
import { OneByOne, type Work } from 'svcdb/lib/event-loop'
import { Int64 } from 'svcdb/lib/numbers'
import { ProtobufReader, readText } from 'svcdb/lib/protobuf'
import { FieldReader, refused } from './fields.ts'
import { readTag } from './tag.ts'

export interface PointsOptions {
  /** The time of points that carry none, nanoseconds since the epoch. */
  now: bigint
  maxFields: number
  /** Refusals kept. */
  maxFailures: number
}

export interface PointsOutcome {
  /** Rows appended. */
  rows: number
  /** Points left out. */
  rejected: number
  rejections: Rejection[]
}

const SHOWN = 64
/** Between two places where the work can be interrupted: whichever comes first. */
const SLICE_POINTS = 64
const SLICE_BYTES = 524_288
/** Of measurement and tags as they are sent: hashed and taken apart in one go. */
const MAX_KEY_BYTES = 1_048_576
/** What an engine can be set to take at most (`database.max_tags_per_series`). */
const MAX_TAGS = 1024
/** Of a point beside tags and fields: there are two, and what later versions add. */
const MAX_OTHERS = 1024
/** First bytes of a point's `measurement` and `tags`. */
const MEASUREMENT = 0x0a
const TAG = 0x12
/** What keeps a point out, and not the points beside it. */
const OF_POINTS: ReadonlySet<string> = new Set(['INVALID_POINT', 'SCHEMA_ERROR', 'CARDINALITY_EXCEEDED', 'RATE_LIMITED'])

export class PointsDecoder {
  readonly turns = new OneByOne()
  private readonly resolver: SeriesResolver
  private readonly namespace: string
  private readonly keys: KeyTable
  private readonly measurements: MeasurementRef[] = []
  private readonly byName = new Map<string, number>()
  private epoch: number
  /** Entry of the point before, -1 = none. */
  private last = -1
  private readonly reader = new ProtobufReader()
  private readonly fields = new FieldReader(this.reader)
  private readonly now = new Int64()
  /** Of the point at hand: its measurement's place in `measurements`, and its series. */
  private group = 0
  private series = 0
  /** Members that a point may have beside its tags. */
  private most = 0

  /** @param maxInternedBytes bytes of keys kept; @param seed any number, best a random one */
  constructor(resolver: SeriesResolver, namespace: string, maxInternedBytes: number, seed: number) {
    this.resolver = resolver
    this.namespace = namespace
    this.keys = new KeyTable(maxInternedBytes, seed)
    this.epoch = resolver.epoch
  }

  /**
   * Appends the points of a message whose field 1 they are, in turns; until it is done the decoder does nothing else (`turns`).
   * @param firstPosition what the first point is called in rejections.
   * @throws BAD_REQUEST for bytes that are no such message; rows appended until then are taken back.
   */
  *decode(message: Uint8Array, batch: WriteBatch, options: PointsOptions, firstPosition = 0): Work<PointsOutcome> {
    if (this.epoch !== this.resolver.epoch) this.forget()
    this.now.setBigInt(options.now)
    const marks = batch.tables.map(({ rows }) => rows)
    const outcome: PointsOutcome = { rows: 0, rejected: 0, rejections: [] }
    const { reader } = this
    let index = firstPosition
    let sliceEnd = SLICE_BYTES
    this.most = options.maxFields + MAX_OTHERS
    try {
      reader.begin(message)
      while (reader.next()) {
        if (reader.field !== 1) {
          reader.skip()
          continue
        }
        const outer = reader.enter()
        this.point(batch, index++, options, outcome)
        reader.leave(outer)
        if (index % SLICE_POINTS !== 0 && reader.at < sliceEnd) continue
        yield
        sliceEnd = reader.at + SLICE_BYTES
        if (this.epoch !== this.resolver.epoch) this.forget()
      }
      return outcome
    } catch (error) {
      for (const [i, table] of batch.tables.entries()) table.dropRows(marks[i] ?? 0)
      throw error
    } finally {
      reader.release()
    }
  }

  private forget(): void {
    this.keys.clear()
    this.measurements.length = 0
    this.byName.clear()
    this.last = -1
    this.epoch = this.resolver.epoch
  }

  private point(batch: WriteBatch, position: number, options: PointsOptions, outcome: PointsOutcome): void {
    const { reader } = this
    const { end } = reader
    const start = reader.at
    try {
      const ordered = this.identify(start, end)
      if (!this.row(batch, position, options.maxFields, ordered, end)) {
        this.collect(start, end)
        this.from(start, end)
        this.row(batch, position, options.maxFields, false, end)
      }
      outcome.rows++
    } catch (error) {
      if (!isRefusal(error)) throw placed(error, position)
      outcome.rejected++
      if (outcome.rejections.length < options.maxFailures) outcome.rejections.push({ code: error.code, message: error.message, position })
      this.from(end, end)
    }
  }

  /**
   * Appends the row of the point whose series is known.
   * @param ordered nothing of what the series was found by is expected in what follows.
   * @returns false when there is, and the row was not appended.
   */
  private row(batch: WriteBatch, position: number, maxFields: number, ordered: boolean, end: number): boolean {
    const start = this.reader.at
    const table = batch.tableForRow(this.measurements[this.group])
    const row = table.addRow(this.series, this.now.low, this.now.high, position)
    let complete = false
    try {
      complete = this.values(batch, table, row, maxFields, ordered)
    } catch (error) {
      // A refusal may be due to the wrong measurement.
      if (!ordered || !isRefusal(error) || !this.scattered(start, end)) {
        table.dropRow()
        throw error
      }
    }
    if (!complete) table.dropRow()
    return complete
  }

  /**
   * Finds measurement and series, by the bytes that the point begins with.
   * @returns true when the reader stands behind those; false when it stands at the start, for they are not all there is.
   */
  private identify(start: number, end: number): boolean {
    const { keys, reader } = this
    const { view, bytes } = reader
    if (this.last >= 0) {
      const next = keys.following[this.last]
      const keyEnd = keys.matchEnd(next, view, start)
      if (keyEnd >= 0 && keyEnd <= end && (keyEnd === end || (bytes[keyEnd] !== TAG && bytes[keyEnd] !== MEASUREMENT))) {
        this.last = next
        this.take(next)
        reader.at = keyEnd
        return true
      }
    }
    while (reader.at < end && reader.at - start <= MAX_KEY_BYTES && (bytes[reader.at] === MEASUREMENT || bytes[reader.at] === TAG)) {
      reader.next()
      reader.skip()
    }
    const keyEnd = reader.at
    if (keyEnd - start > MAX_KEY_BYTES) throw refused(`its measurement and tags have ${keyEnd - start} bytes; they have at most ${MAX_KEY_BYTES}`)
    const hash = keys.hashOf(view, start, keyEnd)
    const entry = keys.find(view, start, keyEnd, hash)
    if (entry >= 0) {
      this.follow(entry)
      this.take(entry)
      return true
    }
    const scattered = this.scattered(keyEnd, end)
    this.collect(start, scattered ? end : keyEnd)
    this.from(scattered ? start : keyEnd, end)
    if (!scattered) this.follow(keys.add(bytes, start, keyEnd, hash, this.series, this.group))
    return !scattered
  }

  /** Whether measurement or tags are among the fields in [start, end). */
  private scattered(start: number, end: number): boolean {
    const { reader } = this
    this.from(start, end)
    for (let members = 1; reader.next(); members++) {
      if (reader.field <= 2) return true
      this.bound(members)
      reader.skip()
    }
    return false
  }

  private bound(others: number): void {
    if (others > this.most) throw refused(`it has more than ${this.most} members beside its tags`)
  }

  private from(at: number, end: number): void {
    this.reader.at = at
    this.reader.end = end
  }

  private take(entry: number): void {
    this.group = this.keys.group[entry]
    this.series = this.keys.series[entry]
  }

  /** Remembers that the series of `entry` came after the last one. */
  private follow(entry: number): void {
    if (entry >= 0 && this.last >= 0 && this.last < this.keys.size) this.keys.following[this.last] = entry
    this.last = entry
  }

  /** Measurement and series from all of [start, end). */
  private collect(start: number, end: number): void {
    const { reader } = this
    this.from(start, end)
    let measurement = ''
    const tags: string[] = []
    const seen = new Set<string>()
    let others = 0
    while (reader.next()) {
      if (reader.field !== 2) this.bound(++others)
      if (reader.field === 1) measurement = readText(reader, 'measurement')
      else if (reader.field === 2) {
        if (seen.size === MAX_TAGS) throw refused(`it has more than ${MAX_TAGS} tags`)
        const { key, value } = readTag(reader)
        if (seen.has(key)) throw refused(`tag "${key.slice(0, SHOWN)}" occurs twice`)
        seen.add(key)
        tags.push(key, value)
      } else reader.skip()
    }
    let group = this.byName.get(measurement)
    if (group === undefined) {
      const ref = this.resolver.measurement(this.namespace, measurement)
      group = this.measurements.length
      this.measurements.push(ref)
      this.byName.set(measurement, group)
    }
    this.series = this.resolver.series(this.measurements[group], tags)
    this.group = group
  }

  /**
   * Fields and time. @param ordered measurement and tags have all been seen.
   * @returns false when they have not, against expectation.
   */
  private values(batch: WriteBatch, table: TableBatch, row: number, maxFields: number, ordered: boolean): boolean {
    const { reader, fields } = this
    let count = 0
    let others = 0
    fields.begin()
    for (;;) {
      const known = fields.expected(batch, table, row)
      if (!known && !reader.next()) break
      if (known || reader.field === 3) {
        if (count++ === maxFields) throw refused(`it has more than ${maxFields} fields, grpc.max_fields_per_point`)
        if (known) continue
        const outer = reader.enter()
        fields.field(batch, table, row)
        reader.leave(outer)
        continue
      }
      if (reader.field > 2 && ++others > MAX_OTHERS) throw refused(`it has more than ${MAX_OTHERS} members beside its tags and fields`)
      if (reader.field === 4) {
        reader.int64()
        if (reader.low !== 0 || reader.high !== 0) {
          table.time[row * 2] = reader.low
          table.time[row * 2 + 1] = reader.high
        } else {
          table.time[row * 2] = this.now.low
          table.time[row * 2 + 1] = this.now.high
        }
      } else if (reader.field <= 2 && ordered) return false
      else reader.skip()
    }
    if (count === 0) throw refused('it has no field')
    return true
  }
}

function isRefusal(error: unknown): error is SvcError {
  return error instanceof SvcError && OF_POINTS.has(error.code)
}

function placed(error: unknown, position: number): unknown {
  return error instanceof SvcError ? new SvcError(error.code, `points[${position}]: ${error.message}`, { cause: error }) : error
}
