/** Tag of svc.proto. */
import { type ProtobufReader, readText } from 'svcdb/lib/protobuf'

/** The Tag at hand. @throws BAD_REQUEST. */
export function readTag(reader: ProtobufReader): { key: string; value: string } {
  const tag = { key: '', value: '' }
  const outer = reader.enter()
  while (reader.next()) {
    if (reader.field === 1) tag.key = readText(reader, 'key of a tag')
    else if (reader.field === 2) tag.value = readText(reader, 'value of a tag')
    else reader.skip()
  }
  reader.leave(outer)
  return tag
}
