/** What a sink needs of a client library. */
import type { Access } from '../client.ts'

export interface SinkRecord {
  topic: string
  /** Records of one key are in one partition, in their order. */
  key: Buffer
  value: Buffer
  headers: Record<string, string>
}

export const COMPRESSIONS = ['none', 'gzip', 'snappy', 'zstd'] as const
export type Compression = (typeof COMPRESSIONS)[number]

export interface SinkProducerOptions {
  /** Asked at each connection: files may have changed. */
  access(): Promise<Access>
  compression: Compression
  timeoutMs: number
  /** Lines of the library. */
  log(text: string): void
}

/** Of one session: after a failure it is closed, and another opened. */
export interface SinkProducer {
  /**
   * Resolves when all replicas in sync have all of them, each once, whatever was tried again within. One call at a time.
   * @throws SendError
   */
  send(records: readonly SinkRecord[]): Promise<void>
  /** Never rejects. */
  close(): Promise<void>
}

export interface SinkLibrary {
  /** @throws SendError */
  open(options: SinkProducerOptions): Promise<SinkProducer>
}

/** `away`: brokers cannot be reached, or are busy with themselves. `refused`: they say no, which somebody may mend. `record`: they never take such a record, or so many at once. */
type SendFailure = 'away' | 'refused' | 'record'

export class SendError extends Error {
  readonly kind: SendFailure

  constructor(kind: SendFailure, message: string, options?: ErrorOptions) {
    super(message, options)
    this.kind = kind
  }
}
