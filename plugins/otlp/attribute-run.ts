/** Where the attributes of a data point lie: in the message, as nearly every encoder writes them, or joined when other fields lie between them. */
import type { ProtobufReader } from '../../kernel/decode/protobuf.ts'
import type { Bytes } from './streams.ts'

const NO_BYTES = new Uint8Array(0)
const NO_VIEW = new DataView(NO_BYTES.buffer)

export class AttributeRun implements Bytes {
  bytes: Uint8Array = NO_BYTES
  view: DataView = NO_VIEW
  start = 0
  end = 0

  begin(reader: ProtobufReader): void {
    this.bytes = reader.bytes
    this.view = reader.view
    this.start = this.end = -1
  }

  /** One more attribute, the field from its tag at `start` to `end`. */
  add(reader: ProtobufReader, start: number, end: number): void {
    if (this.start < 0) {
      this.start = start
      this.end = end
    } else if (this.bytes === reader.bytes && this.end === start) this.end = end
    else {
      const joined = new Uint8Array(this.end - this.start + end - start)
      joined.set(this.bytes.subarray(this.start, this.end))
      joined.set(reader.bytes.subarray(start, end), this.end - this.start)
      this.bytes = joined
      this.view = new DataView(joined.buffer)
      this.start = 0
      this.end = joined.length
    }
  }

  /** Call when all have been added. */
  finish(): void {
    if (this.start < 0) this.start = this.end = 0
  }

  /** Lets go of the bytes. */
  release(): void {
    this.bytes = NO_BYTES
    this.view = NO_VIEW
  }
}
