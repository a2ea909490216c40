/** Changes as records. Points are encoded out of their columns into one buffer, of which each record has a part. */
import type { Change, RowsChanged } from 'svcdb'
import { deletedJson, gapJson, measurementJson, RowJson, RowLines, seriesKey } from 'svcdb/lib/changes'
import { JsonBytes } from 'svcdb/lib/json'
import type { SinkRecord } from './producer.ts'
import type { TopicNames } from './topics.ts'

export type SinkFormat = 'json' | 'line_protocol'

/** Encoded in one turn of the event loop. */
const CHUNK_ROWS = 256
const CHUNK_BYTES = 256 * 1024
const KEPT_KEYS = 50_000

/** Records that come one after the other, up to a number of frames of their change. */
interface Chunk {
  records: SinkRecord[]
  /** Frames of the change so far: rows, or deleted series, whether they have a record or not. */
  frames: number
  /** Rows that the format cannot hold, as JSON. */
  unwritable: SinkRecord[]
  /** The change has no more. */
  last: boolean
}

export class RecordEncoder {
  private readonly format: SinkFormat
  private readonly topics: TopicNames
  private readonly json = new RowJson()
  private readonly lines = new RowLines()
  private readonly keys = new Map<number, Buffer>()

  constructor(format: SinkFormat, topics: TopicNames) {
    this.format = format
    this.topics = topics
  }

  /** @param skip frames that are with the brokers already. */
  *encode(change: Change, skip = 0): Generator<Chunk> {
    if (change.kind === 'rows') return yield* this.rows(change, skip)
    if (change.kind !== 'series_deleted') {
      const gap = change.kind === 'gap'
      const json = gap ? gapJson(change) : measurementJson(change.kind, change.measurement, change.sequence)
      const [topic, key] = gap ? [this.topics.ofGaps, 'gap'] : [this.topics.of(change.measurement), seriesKey(change.measurement, {})]
      return yield { records: [this.event(change, topic, key, json)], frames: 1, unwritable: [], last: true }
    }
    const topic = this.topics.of(change.measurement)
    let records: SinkRecord[] = []
    let frames = 0
    for (const { tags, json } of deletedJson(change)) {
      if (++frames <= skip) continue
      records.push(this.event(change, topic, seriesKey(change.measurement, tags ?? {}), json))
      if (records.length < CHUNK_ROWS) continue
      yield { records, frames, unwritable: [], last: false }
      records = []
    }
    yield { records, frames, unwritable: [], last: true }
  }

  /** A line that is a comment to those who read points. */
  private event(change: Change, topic: string, key: string, json: string): SinkRecord {
    const value = Buffer.from(this.format === 'json' ? json : `# ${json}`)
    return { topic, key: Buffer.from(key), value, headers: { 'svc-event': change.kind, 'svc-position': change.position } }
  }

  private *rows(change: RowsChanged, skip: number): Generator<Chunk> {
    const { rows, position, measurement, series } = change
    const topic = this.topics.of(measurement)
    this.json.begin(change)
    this.lines.begin(change)
    const times = new TimeText(change.times)
    for (let from = skip; from < rows; ) {
      const out = new JsonBytes()
      const found: number[] = []
      const ends: number[] = []
      const left: number[] = []
      let row = from
      for (; row < rows && row - from < CHUNK_ROWS && out.length < CHUNK_BYTES; row++) {
        const before = out.length
        const whole = this.format === 'json' ? this.json.write(out, row) : this.lines.write(out, row)
        if (out.length > before) {
          found.push(row)
          ends.push(out.length)
        } else if (!whole && this.format !== 'json') left.push(row)
      }
      const bytes = bufferOf(out.take())
      out.close()
      const records: SinkRecord[] = new Array(found.length)
      for (let i = 0; i < found.length; i++) {
        const at = found[i]
        const value = bytes.subarray(i === 0 ? 0 : ends[i - 1], ends[i])
        records[i] = { topic, key: this.keyOf(change, series[at]), value, headers: { 'svc-position': position, 'svc-time': times.of(at) } }
      }
      const unwritable = left.map((at) => ({ topic, key: this.keyOf(change, series[at]), value: this.asJson(at), headers: {} }))
      from = row
      yield { records, frames: row, unwritable, last: row === rows }
    }
    if (skip >= rows) yield { records: [], frames: rows, unwritable: [], last: true }
  }

  private asJson(row: number): Buffer {
    const out = new JsonBytes()
    this.json.write(out, row)
    const bytes = bufferOf(out.take())
    out.close()
    return bytes
  }

  private keyOf(change: RowsChanged, series: number): Buffer {
    let key = this.keys.get(series)
    if (key === undefined) {
      if (this.keys.size >= KEPT_KEYS) this.keys.clear()
      key = Buffer.from(seriesKey(change.measurement, change.tagsOf(series)))
      this.keys.set(series, key)
    }
    return key
  }
}

const bufferOf = ({ buffer, byteOffset, byteLength }: Uint8Array): Buffer => Buffer.from(buffer as ArrayBuffer, byteOffset, byteLength)

/** Nanoseconds as digits; rows that follow one another often have the same. */
class TimeText {
  private readonly times: Int32Array
  private low = 0
  private high = 0
  private text = '0'

  constructor(times: Int32Array) {
    this.times = times
  }

  of(row: number): string {
    const low = this.times[row * 2]
    const high = this.times[row * 2 + 1]
    if (low !== this.low || high !== this.high) {
      this.low = low
      this.high = high
      this.text = String((BigInt(high) << 32n) | BigInt(low >>> 0))
    }
    return this.text
  }
}
