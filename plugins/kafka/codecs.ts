/**
 * Compression of record batches that the client library leaves to others: snappy (blocks, alone or framed as xerial's Java library does), LZ4, Zstandard. And
 * gzip, which it decompresses to any size.
 */
import { promisify } from 'node:util'
import { gunzip, gzip, zstdCompress, zstdDecompress } from 'node:zlib'
import { decodeLz4, storeLz4 } from 'svcdb/lib/lz4'
import { decodeSnappy, encodeSnappy } from 'svcdb/lib/snappy'

interface Codec {
  compress(encoder: { buffer: Buffer }): Promise<Buffer>
  decompress(bytes: Buffer): Promise<Buffer>
}

/** Of one record batch, decompressed: what is larger was made to fill memory. */
const MAX_BYTES = 256 * 1024 * 1024

/** Whether that is what is wrong with them, as each of the codecs says it. */
export function isTooLarge(error: unknown): boolean {
  const { code, message } = error as Error & { code?: string }
  return code === 'ERR_BUFFER_TOO_LARGE' || code === 'PAYLOAD_TOO_LARGE' || /it has more than \d+ bytes$/.test(message)
}

const XERIAL = Buffer.from([0x82, 0x53, 0x4e, 0x41, 0x50, 0x50, 0x59, 0])
/** Two versions follow. */
const XERIAL_HEAD = XERIAL.length + 8

const bufferOf = (bytes: Uint8Array): Buffer => Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)

export async function decompressSnappy(bytes: Buffer, limit = MAX_BYTES): Promise<Buffer> {
  if (!bytes.subarray(0, XERIAL.length).equals(XERIAL)) return bufferOf(await decodeSnappy(bytes, limit))
  const parts: Uint8Array[] = []
  let left = limit
  for (let at = XERIAL_HEAD; at + 4 <= bytes.length; ) {
    const length = bytes.readUInt32BE(at)
    at += 4
    if (at + length > bytes.length) throw new Error('cannot decompress records as snappy: a block is cut')
    const part = await decodeSnappy(bytes.subarray(at, at + length), left)
    parts.push(part)
    left -= part.length
    at += length
  }
  return Buffer.concat(parts)
}

const ungzip = promisify<Buffer, object, Buffer>(gunzip)
const gzipped = promisify<Buffer, Buffer>(gzip)
const unzstd = promisify<Buffer, object, Buffer>(zstdDecompress)
const zstd = promisify<Buffer, Buffer>(zstdCompress)

/** Node.js decompresses into chunks of that, 16 KiB by default. */
const chunkOf = ({ length }: Buffer): number => Math.min(1_048_576, Math.max(16_384, length * 8))

export const decompressGzip = (bytes: Buffer, limit = MAX_BYTES): Promise<Buffer> => ungzip(bytes, { maxOutputLength: limit, chunkSize: chunkOf(bytes) })

export const GZIP: Codec = { compress: ({ buffer }) => gzipped(buffer), decompress: (bytes) => decompressGzip(bytes) }
export const SNAPPY: Codec = { compress: async ({ buffer }) => bufferOf(await encodeSnappy(buffer)), decompress: (bytes) => decompressSnappy(bytes) }
export const LZ4: Codec = { compress: async ({ buffer }) => storeLz4(buffer), decompress: (bytes) => decodeLz4(bytes, MAX_BYTES) }
export const ZSTD: Codec = {
  compress: ({ buffer }) => zstd(buffer),
  decompress: (bytes) => unzstd(bytes, { maxOutputLength: MAX_BYTES, chunkSize: chunkOf(bytes) }),
}
