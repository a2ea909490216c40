/**
 * What a client sends while its call reads nothing waits in the stream, within HTTP/2's windows. As node has it there, it takes far more than the windows
 * count: each part of DATA is an object of its own, however small, and a view of the up to 64 KiB that the socket received at once, with whatever else
 * was sent beside it. So what cannot be handed on at once is copied, and small parts are gathered.
 */
import type { ServerHttp2Stream } from 'node:http2'

/** Parts below this are gathered. */
const SMALL_BYTES = 4096
const GATHER_BYTES = 16_384
/** Grows as it is filled: any number of calls may wait with a byte each. */
const FIRST_BYTES = 256

/** Call it before anything is read. */
export function copyWhatWaits(stream: ServerHttp2Stream): void {
  const push = stream.push.bind(stream)
  let gathered: Buffer | undefined
  let length = 0
  const flush = (): void => {
    if (gathered === undefined) return
    const bytes = gathered.subarray(0, length)
    gathered = undefined
    length = 0
    push(bytes)
  }
  stream.push = (chunk: Buffer | null): boolean => {
    // Whoever listens gets it now, and copies what it keeps.
    if (gathered === undefined && stream.readableFlowing === true && stream.readableLength === 0) return push(chunk)
    if (chunk === null || chunk.length >= SMALL_BYTES || length + chunk.length > GATHER_BYTES) flush()
    if (chunk === null) return push(null)
    if (chunk.length >= SMALL_BYTES) return push(Buffer.from(chunk))
    const needed = length + chunk.length
    if (gathered === undefined || needed > gathered.length) {
      const larger = Buffer.allocUnsafeSlow(Math.min(GATHER_BYTES, Math.max(FIRST_BYTES, 2 * needed)))
      gathered?.copy(larger, 0, 0, length)
      gathered = larger
    }
    length += chunk.copy(gathered, length)
    if (stream.readableFlowing === true) flush()
    // Without more of the window the client is held back.
    return false
  }
  stream.on('resume', flush)
}
