/** Changes as SubscribeResponse messages. A change that is large makes several, so that none is encoded or held as a whole. */
import type { Change, ChangeGap, ChangePosition, RowsChanged, SeriesDeleted } from 'svcdb'
import { ProtobufWriter } from 'svcdb/lib/protobuf'
import type { RowBatches } from './change-batches.ts'
import { KIND_NUMBERS } from './subscription.ts'

/** Measurements whose schema a subscriber is known to have. Above, schemas are sent once more. */
const KNOWN_SCHEMAS = 10_000
const CAUSES: Record<ChangeGap['cause'], number> = { expired: 1, other_history: 2, damaged: 3 }
const INT64_MIN = -(2n ** 63n)
const INT64_MAX = 2n ** 63n - 1n
/** Bytes field 13, length-delimited. */
const ARROW_BATCH = (13 << 3) | 2

/** The position within a change behind so many of its rows or series. */
type PositionWithin = (parts: number) => ChangePosition

export class ChangeMessages {
  /** Rows and gaps so far. */
  rows = 0
  gaps = 0
  private readonly batches: RowBatches
  private readonly messageBytes: number
  private readonly writer = new ProtobufWriter(256)
  private readonly schemas = new Map<string, number>()

  /** @param messageBytes of one message, about. */
  constructor(batches: RowBatches, messageBytes: number) {
    this.batches = batches
    this.messageBytes = messageBytes
  }

  progress(position: ChangePosition): Uint8Array {
    this.writer.string(2, position)
    return this.writer.take()
  }

  /** @param skip rows or series of the change that the subscriber has had. */
  *encode(change: Change, within: PositionWithin, skip = 0): Generator<Uint8Array> {
    switch (change.kind) {
      case 'rows':
        return yield* this.ofRows(change, within, skip)
      case 'series_deleted':
        return yield* this.ofDelete(change, within, skip)
      case 'gap': {
        const { writer } = this
        this.gaps++
        this.head(change, change.position)
        writer.string(10, change.from)
        writer.int(11, CAUSES[change.cause])
        return yield writer.take()
      }
      default:
        this.head(change, change.position)
        return yield this.writer.take()
    }
  }

  private *ofRows(change: RowsChanged, within: PositionWithin, skip: number): Generator<Uint8Array> {
    for (let at = skip; at < change.rows; ) {
      const { to, rows, schemaId, schema, batch } = this.batches.encode(change, at, this.messageBytes)
      at = to
      if (rows === 0) continue
      const { writer } = this
      this.rows += rows
      this.head(change, to === change.rows ? change.position : within(to))
      if (change.backfill) writer.int(5, 1)
      writer.int(6, rows)
      if (this.schemas.get(change.measurement) !== schemaId) {
        if (this.schemas.size >= KNOWN_SCHEMAS) this.schemas.clear()
        this.schemas.set(change.measurement, schemaId)
        writer.blob(12, schema)
      }
      writer.varint(ARROW_BATCH)
      writer.varint(batch.length)
      yield Buffer.concat([writer.take(), batch])
    }
  }

  private *ofDelete(change: SeriesDeleted, within: PositionWithin, skip: number): Generator<Uint8Array> {
    if (change.series === undefined) {
      this.headOfDelete(change, change.position)
      this.writer.int(8, 1)
      return yield this.writer.take()
    }
    // The position of a message is known when it is full, so what it lists is written aside.
    const list = new ProtobufWriter()
    let number = 0
    for (const tags of change.series()) {
      if (number++ < skip) continue
      if (list.at >= this.messageBytes) {
        this.headOfDelete(change, within(number - 1))
        this.writer.append(list.take())
        yield this.writer.take()
      }
      listSeries(list, tags)
    }
    if (list.at === 0) return
    this.headOfDelete(change, change.position)
    this.writer.append(list.take())
    yield this.writer.take()
  }

  private headOfDelete(change: SeriesDeleted, position: ChangePosition): void {
    const { writer } = this
    this.head(change, position)
    const { start, end } = change
    if (start === undefined && end === undefined) return
    const range = writer.open(9)
    int64(writer, 1, start ?? INT64_MIN)
    int64(writer, 2, end ?? INT64_MAX)
    writer.close(range)
  }

  private head(change: Change, position: ChangePosition): void {
    const { writer } = this
    writer.int(1, KIND_NUMBERS[change.kind])
    writer.string(2, position)
    writer.int(3, change.sequence)
    if (change.kind !== 'gap') writer.string(4, change.measurement)
  }
}

function listSeries(writer: ProtobufWriter, tags: Record<string, string>): void {
  const series = writer.open(7)
  for (const [key, value] of Object.entries(tags)) {
    const tag = writer.open(1)
    writer.string(1, key)
    writer.string(2, value)
    writer.close(tag)
  }
  writer.close(series)
}

function int64(writer: ProtobufWriter, field: number, value: bigint): void {
  writer.int64(field, Number(BigInt.asIntN(32, value)), Number(value >> 32n))
}
