/** Tag of svc.proto. */
import { SvcError } from 'svcdb/lib/errors'
import { type ProtobufReader, readText } from 'svcdb/lib/protobuf'

/** Two, and what later versions add. */
const MAX_MEMBERS = 64

/** The Tag at hand. @throws BAD_REQUEST. */
export function readTag(reader: ProtobufReader): { key: string; value: string } {
  const tag = { key: '', value: '' }
  const outer = reader.enter()
  for (let members = 1; reader.next(); members++) {
    if (members > MAX_MEMBERS) throw new SvcError('BAD_REQUEST', `cannot read a tag: it has more than ${MAX_MEMBERS} members; send what svc.proto has`)
    if (reader.field === 1) tag.key = readText(reader, 'key of a tag')
    else if (reader.field === 2) tag.value = readText(reader, 'value of a tag')
    else reader.skip()
  }
  reader.leave(outer)
  return tag
}
