/** Files that others put there, and whose size is therefore not known. */
import { constants } from 'node:fs'
import { open } from 'node:fs/promises'

/** A plain file's bytes. @throws Error in a few words for one that is larger or no file; NodeJS.ErrnoException. */
export async function readBounded(path: string, maxBytes: number): Promise<Buffer> {
  // Without waiting for the other end of a pipe.
  const file = await open(path, constants.O_RDONLY | constants.O_NONBLOCK)
  try {
    const status = await file.stat()
    if (!status.isFile()) throw new Error('it is no file')
    const buffer = Buffer.allocUnsafe(Math.min(maxBytes, status.size) + 1)
    let length = 0
    while (length < buffer.length) {
      const { bytesRead } = await file.read(buffer, length, buffer.length - length)
      if (bytesRead === 0) return buffer.subarray(0, length)
      length += bytesRead
    }
    throw new Error(length > maxBytes ? `it has more than ${maxBytes} bytes` : 'it grew while it was read')
  } finally {
    await file.close()
  }
}
