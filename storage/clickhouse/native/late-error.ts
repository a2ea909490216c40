/**
 * What ClickHouse says when a statement fails after its answer has begun: the status is 200 by then, and the text stands behind the blocks that were sent, in a
 * frame of `__exception__` from 25.11 on and bare before. No block begins as it does, so whoever decodes fails there; then this finds the text.
 */
import { ClickHouseError, parseError } from '@clickhouse/client'

/** Of the stream's end that a text may be in; ClickHouse cuts its own at 16 KiB. */
const TAIL_BYTES = 65_536

export class LateError {
  private readonly chunks: AsyncIterator<Uint8Array>
  private tail: Uint8Array[] = []
  private ended = false

  constructor(stream: AsyncIterable<Uint8Array>) {
    this.chunks = stream[Symbol.asyncIterator]()
  }

  /** The stream; its end is left to `find`, or to whoever destroys it. */
  async *watched(): AsyncGenerator<Uint8Array> {
    for (let chunk = await this.next(); chunk !== undefined; chunk = await this.next()) yield chunk
  }

  /** Call after what read the stream has failed. @returns undefined when ClickHouse says nothing: the connection ended, say. */
  async find(): Promise<ClickHouseError | undefined> {
    try {
      for (let read = 0; read < TAIL_BYTES; ) {
        const chunk = await this.next()
        if (chunk === undefined) break
        read += chunk.length
      }
    } catch {
      // It ends in the middle, as it does before 25.11.
    }
    const text = Buffer.concat(this.tail).toString('latin1')
    const at = text.lastIndexOf('Code: ')
    const error = at < 0 ? undefined : parseError(Buffer.from(text.slice(at), 'latin1').toString())
    return error instanceof ClickHouseError ? error : undefined
  }

  private async next(): Promise<Uint8Array | undefined> {
    if (this.ended) return undefined
    try {
      const { done, value } = await this.chunks.next()
      if (done === true) {
        this.ended = true
        return undefined
      }
      this.tail = [...this.tail, value].slice(-2)
      return value
    } catch (error) {
      this.ended = true
      throw error
    }
  }
}
