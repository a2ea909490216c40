/** Compressed bodies to messages, in bounded memory. */

import { SvcError } from 'svcdb/lib/errors'
import { decompress } from 'svcdb/lib/network'
import type { Sender } from './json-thread.ts'

/** @throws PAYLOAD_TOO_LARGE, BAD_REQUEST, what `ended` returns. */
export async function decodePayload(body: Buffer, compression: string, limit: number, { namespace, ended }: Sender): Promise<Buffer> {
  try {
    return await decompress(body, compression, limit, { owner: namespace, ...(ended && { ended }) })
  } catch (error) {
    if (!(error instanceof SvcError) || error.code !== 'PAYLOAD_TOO_LARGE') throw error
    throw new SvcError(
      'PAYLOAD_TOO_LARGE',
      `cannot read a body of more than ${limit} bytes after decompression; send smaller batches or raise otlp.max_decompressed_bytes`,
    )
  }
}
