/** What a request is: Content-Type names the message, Content-Encoding and the first bytes of the body the compression. Pure. */
import { SvcError } from 'svcdb/lib/errors'

export type Version = 1 | 2

const V1 = 'prometheus.WriteRequest'
const V2 = 'io.prometheus.write.v2.Request'
const SUPPORTED = `application/x-protobuf;proto=${V1} (remote write 1.0, also without proto) and application/x-protobuf;proto=${V2} (2.0)`

/** @throws UNSUPPORTED_MEDIA_TYPE naming both messages. */
export function versionOf(contentType: string | undefined): Version {
  const given = contentType ?? ''
  const [type, ...parameters] = given.split(';').map((part) => part.trim())
  if (type !== '' && type.toLowerCase() !== 'application/x-protobuf') throw unsupported('Content-Type', given)
  let version: Version = 1
  for (const parameter of parameters) {
    const [name, value = ''] = parameter.split('=', 2).map((part) => part.trim())
    if (name.toLowerCase() !== 'proto') continue
    const message = value.replace(/^"(.*)"$/, '$1')
    if (message === V2) version = 2
    else if (message === V1) version = 1
    else throw unsupported('Content-Type', given)
  }
  return version
}

/** Snappy is what the documents of the protocol have; vmagent sends zstd, Fluent Bit and Vector gzip where they are told to. */
const ENCODINGS = new Set(['', 'snappy', 'zstd', 'gzip'])

/**
 * Without the header it is snappy, as in the first senders. What is called gzip has to be it: no sender calls anything else so, and the compliance
 * suite of Prometheus sends snappy under that name, for which it asks 415.
 * @throws UNSUPPORTED_MEDIA_TYPE
 */
export function checkEncoding(contentEncoding: string | undefined, body: Uint8Array | undefined): void {
  const encoding = (contentEncoding ?? '').trim().toLowerCase()
  if (!ENCODINGS.has(encoding)) throw unsupported('Content-Encoding', contentEncoding as string)
  if (encoding === 'gzip' && body !== undefined && body.length > 0 && encodingOf(body) !== 'gzip') {
    throw new SvcError('UNSUPPORTED_MEDIA_TYPE', 'cannot read a body of Content-Encoding "gzip": it does not begin as gzip does')
  }
}

/**
 * By the bytes: every zstd frame and every gzip member begins with its magic number, which no snappy block can: after the length it would be a copy of
 * bytes that are not there yet.
 */
export function encodingOf(body: Uint8Array): 'snappy' | 'zstd' | 'gzip' {
  if (body.length >= 4 && body[0] === 0x28 && body[1] === 0xb5 && body[2] === 0x2f && body[3] === 0xfd) return 'zstd'
  return body[0] === 0x1f && body[1] === 0x8b ? 'gzip' : 'snappy'
}

function unsupported(header: string, given: string): SvcError {
  return new SvcError(
    'UNSUPPORTED_MEDIA_TYPE',
    `cannot read a body of ${header} "${given.slice(0, 128)}": remote write takes ${SUPPORTED}, with Content-Encoding snappy (block format), zstd or gzip`,
  )
}
