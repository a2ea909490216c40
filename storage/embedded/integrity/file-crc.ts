/** The checksum of a whole file: CRC-32 (IEEE), which zlib computes at several gigabytes a second. */
import { crc32 } from 'node:zlib'
import { type FileSystem, realFileSystem } from '../../common/log/file-system.ts'

/** Small enough not to hold a thread up, large enough that the calls do not matter. */
const CHUNK_BYTES = 512 << 10

interface FileSum {
  crc: number
  bytes: number
}

/** @param pause awaited after each chunk with its size; what it throws ends the reading. */
export async function fileCrc(path: string, pause?: (bytes: number) => Promise<void> | undefined, fs: FileSystem = realFileSystem): Promise<FileSum> {
  const handle = await fs.promises.open(path, 'r')
  try {
    const { size } = await handle.stat()
    // A byte more than a small file has: that it has ended shows at once.
    const length = Math.min(CHUNK_BYTES, size + 1)
    const chunk = Buffer.allocUnsafe(length)
    const sum: FileSum = { crc: 0, bytes: 0 }
    for (;;) {
      const { bytesRead } = await handle.read(chunk, 0, length, sum.bytes)
      if (bytesRead === 0) return sum
      sum.crc = crc32(chunk.subarray(0, bytesRead), sum.crc)
      sum.bytes += bytesRead
      await pause?.(bytesRead)
    }
  } finally {
    await handle.close()
  }
}
