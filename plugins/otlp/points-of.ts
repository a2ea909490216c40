/** The message that holds a metric's data points: all kinds have them in field 1. */
import { type ProtobufReader, VARINT } from '../../kernel/decode/protobuf.ts'

const POINTS = 1
const TEMPORALITY = 2
const MONOTONIC = 3
const POINT_TAG = 0x0a

export interface PointsReader {
  /** Takes the data point in [start, end); the reader's place is the callee's to change. */
  point(start: number, end: number): void
}

export class PointsMessage {
  /** What `scan` found. */
  points = 0
  temporality = 0
  monotonic = false

  /** Counts the points in [start, end), and checks that they are fields of a message. */
  scan(reader: ProtobufReader, start: number, end: number): void {
    const { bytes } = reader
    this.points = this.temporality = 0
    this.monotonic = false
    let at = start
    while (at < end) {
      const next = shortPoint(bytes, at, end)
      if (next > 0) {
        this.points++
        at = next
        continue
      }
      reader.at = at
      reader.end = end
      reader.next()
      if (reader.field === POINTS) {
        reader.span()
        this.points++
      } else if (reader.field === TEMPORALITY && reader.wire === VARINT) this.temporality = reader.int32()
      else if (reader.field === MONOTONIC && reader.wire === VARINT) {
        reader.int64()
        this.monotonic = reader.low !== 0 || reader.high !== 0
      } else reader.skip()
      at = reader.at
    }
  }

  /** Hands out the points in [start, end), which has been scanned. */
  read(reader: ProtobufReader, start: number, end: number, into: PointsReader): void {
    const { bytes } = reader
    let at = start
    while (at < end) {
      const next = shortPoint(bytes, at, end)
      if (next > 0) {
        into.point(bytes[at + 1] < 0x80 ? at + 2 : at + 3, next)
        at = next
        continue
      }
      reader.at = at
      reader.end = end
      reader.next()
      if (reader.field === POINTS) {
        const from = reader.span()
        at = reader.at
        into.point(from, at)
      } else {
        reader.skip()
        at = reader.at
      }
    }
  }
}

/** The end of a point whose tag lies at `at` and whose length takes one or two bytes; 0 where it must be read with care. */
function shortPoint(bytes: Uint8Array, at: number, end: number): number {
  if (bytes[at] !== POINT_TAG || at + 3 > end) return 0
  const first = bytes[at + 1]
  if (first < 0x80) return at + 2 + first <= end ? at + 2 + first : 0
  const second = bytes[at + 2]
  if (second >= 0x80) return 0
  const next = at + 3 + (first & 0x7f) + second * 128
  return next <= end ? next : 0
}
