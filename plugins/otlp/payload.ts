/** Compressed bodies to messages, in bounded memory. */

import { SvcError } from 'svcdb/lib/errors'
import { decompress } from 'svcdb/lib/network'

/** @param ended asked before it begins: why nobody waits for it any more. @throws PAYLOAD_TOO_LARGE, BAD_REQUEST. */
export async function decodePayload(body: Buffer, compression: string, limit: number, ended: () => Error | undefined): Promise<Buffer> {
  try {
    return await decompress(body, compression, limit, undefined, ended)
  } catch (error) {
    if (!(error instanceof SvcError) || error.code !== 'PAYLOAD_TOO_LARGE') throw error
    throw new SvcError(
      'PAYLOAD_TOO_LARGE',
      `cannot read a body of more than ${limit} bytes after decompression; send smaller batches or raise otlp.max_decompressed_bytes`,
    )
  }
}
