/** Where the attributes of a data point lie: in the message, as nearly every encoder writes them, or joined when other fields lie between them. */
import type { ProtobufReader } from 'svcdb/lib/protobuf'
import type { Bytes } from './streams.ts'

const NO_BYTES = new Uint8Array(0)
const NO_VIEW = new DataView(NO_BYTES.buffer)

export class AttributeRun implements Bytes {
  bytes: Uint8Array = NO_BYTES
  view: DataView = NO_VIEW
  start = 0
  end = 0
  /** Those before the last run. */
  private readonly earlier: Uint8Array[] = []

  begin(reader: ProtobufReader): void {
    this.bytes = reader.bytes
    this.view = reader.view
    this.start = this.end = -1
    this.earlier.length = 0
  }

  /** One more attribute, the field from its tag at `start` to `end`. */
  add(start: number, end: number): void {
    if (this.start < 0) this.start = start
    else if (this.end !== start) {
      this.earlier.push(this.bytes.subarray(this.start, this.end))
      this.start = start
    }
    this.end = end
  }

  /** Call when all have been added. */
  finish(): void {
    if (this.start < 0) this.start = this.end = 0
    if (this.earlier.length === 0) return
    const joined = Buffer.concat([...this.earlier, this.bytes.subarray(this.start, this.end)])
    this.earlier.length = 0
    this.bytes = joined
    this.view = new DataView(joined.buffer, joined.byteOffset, joined.length)
    this.start = 0
    this.end = joined.length
  }

  /** Lets go of the bytes. */
  release(): void {
    this.bytes = NO_BYTES
    this.view = NO_VIEW
    this.earlier.length = 0
  }
}
