/** Snappy in its block format, as the Prometheus wire has it (github.com/google/snappy, format_description.txt). */
import { compress, uncompress, uncompressSync } from 'snappy'
import { SvcError } from '../errors/index.ts'
import { snappyLength } from './fill.ts'

export { snappyLength } from './fill.ts'

/** Below this the thread pool costs more than it saves. */
const SMALL = 64 * 1024

/** @param limit bytes after decoding; what is longer is refused before any memory is taken. @param setting the key that sets it, for the message. @throws PAYLOAD_TOO_LARGE, BAD_REQUEST. */
export async function decodeSnappy(bytes: Uint8Array, limit: number, setting = 'server.max_body_size'): Promise<Uint8Array> {
  const length = snappyLength(bytes)
  if (length < 0) throw corrupt('it does not begin with a length')
  if (length > limit) throw new SvcError('PAYLOAD_TOO_LARGE', `the body is larger than ${limit} bytes when decoded; send less at once or raise ${setting}`)
  let decoded: Uint8Array
  try {
    decoded = (length < SMALL ? uncompressSync(bytes) : await uncompress(bytes)) as Uint8Array
  } catch (error) {
    throw corrupt(`it does not decompress to the ${length} bytes that it names; send it again`, error)
  }
  if (decoded.length !== length) throw corrupt(`it has ${decoded.length} bytes, not the ${length} it names`)
  return decoded
}

/** Bytes in the block format; the work is done off the main thread. */
export function encodeSnappy(bytes: Uint8Array): Promise<Uint8Array> {
  return compress(bytes)
}

function corrupt(reason: string, cause?: unknown): SvcError {
  return new SvcError('BAD_REQUEST', `cannot decompress the body as snappy (block format): ${reason}`, { cause })
}
