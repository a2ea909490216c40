/** A series message whose fields come in an order that no encoder writes, though the format allows it, in the usual one: its labels first. */
import type { ProtobufReader } from 'svcdb/lib/protobuf'
import { LABELS } from './series-body.ts'

/** Of a series that is read twice, in one go. */
const MAX_BYTES = 4_194_304

export function labelsFirst(reader: ProtobufReader, start: number, end: number): Uint8Array {
  if (end - start > MAX_BYTES) throw reader.fault('the labels of a large series do not come first', start)
  const ordered = new Uint8Array(end - start)
  let length = 0
  for (const labels of [true, false]) {
    reader.at = start
    reader.end = end
    for (let from = start; reader.next(); from = reader.at) {
      const { field } = reader // a group that is skipped leaves that of its end
      reader.skip()
      if ((field === LABELS) !== labels) continue
      ordered.set(reader.bytes.subarray(from, reader.at), length)
      length += reader.at - from
    }
  }
  return ordered
}
