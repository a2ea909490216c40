/** Repeated numbers of a message whose count is not known before; buffers are reused. */
import { BYTES, type ProtobufReader } from './reader.ts'

/** Numbers of a repeated field. @param most numbers that are kept; all are counted. */
export class NumberList {
  /** Of all that were sent; what lies beyond `most` is not kept. */
  length = 0
  values: Float64Array = new Float64Array(32)
  private readonly most: number

  constructor(most: number) {
    this.most = most
  }

  push(value: number): void {
    const at = this.length++
    if (at >= this.most) return
    if (at === this.values.length) {
      const grown = new Float64Array(at * 2)
      grown.set(this.values)
      this.values = grown
    }
    this.values[at] = value
  }

  /** Repeated fixed64, packed or not, as numbers. */
  fixed64s(reader: ProtobufReader): void {
    if (reader.wire !== BYTES) {
      reader.fixed64()
      this.push(reader.unsigned)
      return
    }
    const { view } = reader
    const end = this.packed(reader)
    for (let at = end.from; at < end.to; at += 8) this.push(view.getUint32(at + 4, true) * 4294967296 + view.getUint32(at, true))
  }

  /** Repeated double, packed or not. */
  doubles(reader: ProtobufReader): void {
    if (reader.wire !== BYTES) {
      this.push(reader.double())
      return
    }
    const { view } = reader
    const { from, to } = this.packed(reader)
    for (let at = from; at < to; at += 8) this.push(view.getFloat64(at, true))
  }

  /** Repeated uint64, packed or not. */
  varints(reader: ProtobufReader): void {
    if (reader.wire !== BYTES) {
      reader.int64()
      this.push(reader.unsigned)
      return
    }
    const outer = reader.enter()
    while (reader.at < reader.end) {
      const b = reader.bytes[reader.at]
      if (b < 0x80) {
        reader.at++
        this.push(b)
        continue
      }
      reader.varint()
      this.push(reader.unsigned)
    }
    reader.leave(outer)
  }

  /** Repeated sint64, packed or not. */
  zigzags(reader: ProtobufReader): void {
    if (reader.wire !== BYTES) {
      reader.sint64()
      this.push(reader.signed)
      return
    }
    const outer = reader.enter()
    while (reader.at < reader.end) {
      reader.zigzag()
      this.push(reader.signed)
    }
    reader.leave(outer)
  }

  copy(): Float64Array {
    return this.values.slice(0, this.length)
  }

  private packed(reader: ProtobufReader): { from: number; to: number } {
    const from = reader.span()
    if ((reader.at - from) % 8 !== 0) throw reader.fault('packed numbers of 8 bytes do not fill their field', from)
    return { from, to: reader.at }
  }
}
