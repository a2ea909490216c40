/**
 * The tags of a new series without making strings: for those whose keys and values are printable ASCII and text, as nearly all are. What is
 * anything else, or says a key twice, is told by -1 and left to who does make strings.
 */
import type { MeasurementRef, SeriesResolver } from 'svcdb'
import type { Bytes, OriginTags } from './streams.ts'

const KEY_TAG = 0x0a
const VALUE_TAG = 0x12
const STRING_TAG = 0x0a
const PLAIN = /^[\x20-\x7e]+$/
/** Values of `ranges` that a tag takes: start and end of key and value. */
const LANES = 4

export class PlainTags {
  /** The tags of the resource, then the attributes of the data point. */
  private bytes: Uint8Array = new Uint8Array(1024)
  private ranges = new Int32Array(64 * LANES)
  private count = 0
  private outer: OriginTags | undefined
  private outerLength = 0
  private outerCount = -1

  /** @param outer tags of the resource and scope, the same object for the same tags. @returns the number of the series, or -1. @throws as `series`. */
  resolve(resolver: SeriesResolver, measurement: MeasurementRef, outer: OriginTags, attributes: Bytes): number {
    if (resolver.seriesAscii === undefined) return -1
    if (outer !== this.outer) this.load(outer)
    if (this.outerCount < 0 || !this.read(attributes)) return -1
    return resolver.seriesAscii(measurement, this.bytes, this.ranges, this.count)
  }

  private load(outer: OriginTags): void {
    this.outer = outer
    this.outerLength = 0
    this.outerCount = -1
    const [first, second] = outer
    const count = outer.reduce((sum, { size }) => sum + size, 0)
    if (count * LANES > this.ranges.length) return
    if (second !== undefined) for (const key of second.keys()) if (first.has(key)) return
    let place = 0
    for (const tags of outer)
      for (const tag of tags)
        for (const text of tag) {
          if (!PLAIN.test(text)) return
          this.room(this.outerLength + text.length)
          this.ranges[place++] = this.outerLength
          for (let i = 0; i < text.length; i++) this.bytes[this.outerLength++] = text.charCodeAt(i)
          this.ranges[place++] = this.outerLength
        }
    this.outerCount = count
  }

  /** Takes the attributes apart; false when that needs more care. */
  private read(attributes: Bytes): boolean {
    const length = attributes.end - attributes.start
    this.room(this.outerLength + length)
    const { bytes, ranges } = this
    bytes.set(attributes.bytes.subarray(attributes.start, attributes.end), this.outerLength)
    this.count = this.outerCount
    const end = this.outerLength + length
    let at = this.outerLength
    // Only lengths of one byte: each field then says in its second byte where it ends.
    while (at < end) {
      const next = at + 2 + bytes[at + 1]
      const keyEnd = at + 4 + bytes[at + 3]
      const value = keyEnd + 4
      if (next > end || value > next || (bytes[at + 1] | bytes[at + 3]) >= 0x80 || bytes[at + 2] !== KEY_TAG) return false
      if (bytes[keyEnd] !== VALUE_TAG || bytes[keyEnd + 1] !== next - keyEnd - 2 || bytes[keyEnd + 2] !== STRING_TAG || bytes[keyEnd + 3] !== next - value)
        return false
      const place = this.count * LANES
      if (place === ranges.length || !isPlain(bytes, at + 4, keyEnd) || !isPlain(bytes, value, next) || this.has(at + 4, keyEnd)) return false
      ranges[place] = at + 4
      ranges[place + 1] = keyEnd
      ranges[place + 2] = value
      ranges[place + 3] = next
      this.count++
      at = next
    }
    return true
  }

  /** Whether the key in [start, end) has come before. */
  private has(start: number, end: number): boolean {
    const { bytes, ranges } = this
    for (let place = 0; place < this.count * LANES; place += LANES) {
      const from = ranges[place]
      if (ranges[place + 1] - from !== end - start) continue
      let same = 0
      while (start + same < end && bytes[from + same] === bytes[start + same]) same++
      if (start + same === end) return true
    }
    return false
  }

  private room(length: number): void {
    if (length <= this.bytes.length) return
    const grown = new Uint8Array(length * 2)
    grown.set(this.bytes.subarray(0, this.outerLength))
    this.bytes = grown
  }
}

function isPlain(bytes: Uint8Array, start: number, end: number): boolean {
  for (let i = start; i < end; i++) if (bytes[i] < 32 || bytes[i] > 126) return false
  return start < end
}
