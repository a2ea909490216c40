/** Has all threads collect what they have of buffers that are not used again, each time it is worth a collection in all of them. */
import { collectGarbage } from '../duckdb/collect.ts'
import type { Publisher } from '../threads/publisher.ts'

/** A collection takes the main thread some tens of milliseconds: this much is left only after memtables stood far above what is usual. */
const COLLECT_BYTES = 32 << 20

export class LeftBuffers {
  private bytes = 0
  private readonly publisher: Publisher

  constructor(publisher: Publisher) {
    this.publisher = publisher
  }

  readonly add = (bytes: number): void => {
    this.bytes += bytes
    if (this.bytes < COLLECT_BYTES) return
    this.bytes = 0
    this.publisher.publish({ kind: 'buffers-left' })
    setImmediate(collectGarbage)
  }
}
