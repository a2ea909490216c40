/** Compressed bodies to messages, in bounded memory. */
import { snappyLength } from '../../kernel/decode/snappy.ts'
import type { SnappyBlockDecoder } from '../../kernel/decode/snappy-block.ts'
import { SvcError } from '../../kernel/errors.ts'
import { decompress } from '../../kernel/http/body.ts'

/**
 * Snappy or zstd, told apart by their bytes and not by the header: vmagent has sent zstd blocks under the name of snappy. Every zstd frame
 * begins with its magic number, which no snappy block can: after the length it would be a copy of bytes that are not there yet.
 * @returns the message, which for snappy is good until the decoder is used again. @throws PAYLOAD_TOO_LARGE, BAD_REQUEST.
 */
export function decodePayload(body: Buffer, limit: number, snappy: SnappyBlockDecoder): Uint8Array | Promise<Uint8Array> {
  if (body.length === 0) return body
  if (isZstd(body)) return decodeZstd(body, limit)
  if (snappyLength(body) > limit) throw tooLarge(limit)
  return snappy.decode(body)
}

async function decodeZstd(body: Buffer, limit: number): Promise<Uint8Array> {
  try {
    return await decompress(body, 'zstd', limit)
  } catch (error) {
    throw error instanceof SvcError && error.code === 'PAYLOAD_TOO_LARGE' ? tooLarge(limit) : error
  }
}

function isZstd(body: Uint8Array): boolean {
  return body.length >= 4 && body[0] === 0x28 && body[1] === 0xb5 && body[2] === 0x2f && body[3] === 0xfd
}

function tooLarge(limit: number): SvcError {
  return new SvcError(
    'PAYLOAD_TOO_LARGE',
    `cannot read a body of more than ${limit} bytes after decompression; send smaller batches or raise remote_write.max_decompressed_bytes`,
  )
}
