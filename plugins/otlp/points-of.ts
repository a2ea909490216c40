/** The message that holds a metric's data points: all kinds have them in field 1. */
import { type ProtobufReader, VARINT } from 'svcdb/lib/protobuf'

const POINTS = 1
const TEMPORALITY = 2
const MONOTONIC = 3
const POINT_TAG = 0x0a
/** Of a metric, beside its points: nobody defines as many, and each costs. */
export const MAX_FIELDS = 4096
/** Between two places where the work can be interrupted. */
const SLICE_POINTS = 64
const SLICE_BYTES = 65_536

export interface PointsReader {
  /** Takes the data point in [start, end); the reader's place is the callee's to change. */
  point(start: number, end: number): void
}

export class PointsMessage {
  private readonly maxBytes: number
  private readonly refuse: (bytes: number) => void
  private readonly tired: () => boolean

  /** What `scan` found. */
  points = 0
  temporality = 0
  monotonic = false

  /** @param mostBytes of a data point, which is read in one go. @param refuse called in place of the reader for a larger one. @param tired others should have their turn before the next point. */
  constructor(maxBytes: number, refuse: (bytes: number) => void, tired: () => boolean) {
    this.maxBytes = maxBytes
    this.refuse = refuse
    this.tired = tired
  }

  /** Counts the points in [start, end), and checks that they are fields of a message. @param most ends the count: there are more. */
  scan(reader: ProtobufReader, start: number, end: number, most: number): void {
    const { bytes } = reader
    this.points = this.temporality = 0
    this.monotonic = false
    let others = 0
    let at = start
    while (at < end && this.points <= most) {
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
      } else if (++others > MAX_FIELDS) throw reader.fault('a metric has too many fields', at)
      else if (reader.field === TEMPORALITY && reader.wire === VARINT) this.temporality = reader.int32()
      else if (reader.field === MONOTONIC && reader.wire === VARINT) {
        reader.int64()
        this.monotonic = reader.low !== 0 || reader.high !== 0
      } else reader.skip()
      at = reader.at
    }
  }

  /** Hands out points of [start, end), which has been scanned, until that was some work. @returns where to go on, the end when all are out. */
  read(reader: ProtobufReader, start: number, end: number, into: PointsReader): number {
    const { bytes } = reader
    const far = start + SLICE_BYTES
    let at = start
    for (let left = SLICE_POINTS; at < end && at < far && left > 0 && !this.tired(); left--) {
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
        if (at - from > this.maxBytes) this.refuse(at - from)
        else into.point(from, at)
      } else {
        reader.skip()
        at = reader.at
      }
    }
    return at
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
