/** Which rows of a batch are of which message. */
import type { TableBatch, WriteBatch } from '../columns/index.ts'

export class RowMarks {
  private readonly batch: WriteBatch
  /** Rows of each table that are of messages before. */
  private readonly kept = new Map<TableBatch, number>()

  constructor(batch: WriteBatch) {
    this.batch = batch
  }

  /** What has come since is of message number `message`: positions in refusals say so from now on. */
  keep(message: number): void {
    for (const table of this.batch.tables) {
      table.position.fill(message, this.kept.get(table) ?? 0, table.rows)
      this.kept.set(table, table.rows)
    }
  }

  /** Takes back what has come since. */
  takeBack(): void {
    for (const table of this.batch.tables) {
      const kept = this.kept.get(table) ?? 0
      while (table.rows > kept) table.dropRow()
    }
  }
}
