/** What a request is, by its headers: Content-Type names the encoding of the message, Content-Encoding the compression. Pure. */
import { SvcError } from 'svcdb/lib/errors'

export type Encoding = 'protobuf' | 'json'

const TYPES: Record<Encoding, string> = { protobuf: 'application/x-protobuf', json: 'application/json' }
const COMPRESSIONS: readonly string[] = ['gzip', 'zstd', 'deflate']

/** @returns undefined for a type that is neither. */
export function encodingOf(contentType: string | undefined): Encoding | undefined {
  const type = (contentType ?? '').split(';', 1)[0].trim().toLowerCase()
  if (type === TYPES.json) return 'json'
  return type === TYPES.protobuf || type === 'application/protobuf' ? 'protobuf' : undefined
}

/** The type of an answer to a request: its own, and JSON for what is neither. */
export function answerType(contentType: string | undefined): string {
  return TYPES[encodingOf(contentType) ?? 'json']
}

/** @throws UNSUPPORTED_MEDIA_TYPE. */
export function requireEncoding(contentType: string | undefined): Encoding {
  const encoding = encodingOf(contentType)
  if (encoding === undefined) throw unsupported('Content-Type', contentType ?? '')
  return encoding
}

/** @returns undefined when it is not compressed. @throws UNSUPPORTED_MEDIA_TYPE. */
export function compressionOf(contentEncoding: string | undefined): string | undefined {
  const given = (contentEncoding ?? '').trim().toLowerCase()
  if (given === '' || given === 'identity') return undefined
  const compression = given === 'x-gzip' ? 'gzip' : given
  if (!COMPRESSIONS.includes(compression)) throw unsupported('Content-Encoding', contentEncoding as string)
  return compression
}

function unsupported(header: string, given: string): SvcError {
  return new SvcError(
    'UNSUPPORTED_MEDIA_TYPE',
    `cannot read a body of ${header} "${given.slice(0, 128)}": OTLP metrics come as ${TYPES.protobuf} or ${TYPES.json}, with Content-Encoding gzip, zstd, deflate or identity`,
  )
}
