/**
 * Writes that wait for their turn. What is judged before them may wait for an answer of ClickHouse, each as long as a write may take: who has waited so long
 * is refused without a question of its own, and the bytes of all of them count as rows that wait.
 */
import { bytesPerValue, type WriteBatch } from 'svcdb/lib/columns'
import { SvcError } from 'svcdb/lib/errors'
import type { Tables } from './tables.ts'
import type { Turns } from './turns.ts'

/** Of a row, beside its values: its series, its time and its place. */
const ROW_BYTES = 16

interface Arriving {
  turns: Turns
  tables: Tables
  timeoutMs: number
  /** Called once for each batch. */
  recycle(batch: WriteBatch): void
}

export class Arrivals {
  private readonly around: Arriving

  constructor(around: Arriving) {
    this.around = around
  }

  /** @throws BACKPRESSURE at once when too much waits, WRITE_TIMEOUT when its turn comes too late: nothing of it was stored. */
  async take<T>(batch: WriteBatch, body: () => Promise<T>): Promise<T> {
    const { turns, tables, timeoutMs, recycle } = this.around
    let leave = (): void => {}
    try {
      leave = tables.wait(batch.namespace, bytesOf(batch))
    } catch (error) {
      recycle(batch)
      throw error
    }
    const last = performance.now() + timeoutMs
    return turns.take(batch.namespace, async () => {
      try {
        if (performance.now() >= last)
          throw new SvcError('WRITE_TIMEOUT', 'cannot write in ClickHouse: writes before it had no answer within write_timeout_secs; nothing of it was stored')
        return await body()
      } finally {
        leave()
        recycle(batch)
      }
    })
  }
}

function bytesOf({ heap, tables }: WriteBatch): number {
  let bytes = heap.length
  // Columns that an earlier write has left hold none of these rows.
  for (const { rows, columns } of tables) bytes += rows * columns.reduce((sum, { type, next }) => (next === 0 ? sum : sum + 1 + bytesPerValue(type)), ROW_BYTES)
  return bytes
}
