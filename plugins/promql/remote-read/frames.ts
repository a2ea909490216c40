/**
 * The stream of a remote read answered in chunks: frames of a length (varint), a CRC-32C (big endian) and a ChunkedReadResponse of one series, as
 * the Prometheus remote read description has it. A series with more than fits a frame goes on in the next.
 */
import type { JobIo } from 'svcdb'
import { crc32c } from 'svcdb/lib/files'
import { ProtobufWriter } from 'svcdb/lib/protobuf'
import type { Labels } from '../labels.ts'
import { writeLabelPairs } from './messages.ts'
import type { Chunk } from './series-chunks.ts'

/** Bytes gathered before they are handed over. */
const FLUSH_BYTES = 64 * 1024
/** Of a chunk beside its data: two times, type, lengths. */
const CHUNK_OVERHEAD = 20

export class FrameWriter {
  private readonly io: JobIo
  private readonly maxBytes: number
  private readonly message = new ProtobufWriter(4096)
  private readonly out = new ProtobufWriter(FLUSH_BYTES)

  /** @param maxBytes of a frame; exceeded by at most a chunk. */
  constructor(io: JobIo, maxBytes: number) {
    this.io = io
    this.maxBytes = maxBytes
  }

  async series(query: number, labels: Labels, chunks: readonly Chunk[]): Promise<void> {
    let labelBytes = 0
    for (const text of labels.pairs) labelBytes += text.length + 4
    for (let at = 0; at < chunks.length; ) {
      const begin = at
      let left = this.maxBytes - labelBytes
      do left -= chunks[at++].data.length + CHUNK_OVERHEAD
      while (left > 0 && at < chunks.length)
      this.frame(query, labels, chunks.slice(begin, at))
      if (this.out.at >= FLUSH_BYTES) await this.flush()
    }
  }

  /** Hands over what there is. */
  async flush(): Promise<void> {
    if (this.out.at > 0) await this.io.emit(this.out.take())
  }

  private frame(query: number, labels: Labels, chunks: readonly Chunk[]): void {
    const { message, out } = this
    const series = message.open(1)
    writeLabelPairs(message, 1, labels)
    for (const { minTime, maxTime, encoding, data } of chunks) {
      const chunk = message.open(2)
      message.int(1, minTime)
      message.int(2, maxTime)
      message.int(3, encoding)
      message.blob(4, data)
      message.close(chunk)
    }
    message.close(series)
    if (query > 0) message.int(2, query)
    const bytes = message.take()
    out.varint(bytes.length)
    const checksum = crc32c(bytes, 0, bytes.length)
    out.append(Uint8Array.of(checksum >>> 24, checksum >>> 16, checksum >>> 8, checksum))
    out.append(bytes)
  }
}
