/** The batches of one write, and which of their rows are of which message. */
import type { TableBatch, WriteBatch } from '../columns/index.ts'

export class MessageRows {
  /** Where most rows go. */
  readonly batch: WriteBatch
  private readonly open: () => WriteBatch
  private readonly further = new Map<string, WriteBatch>()
  /** Rows of each table that are of messages before. */
  private readonly kept = new Map<TableBatch, number>()

  constructor(open: () => WriteBatch) {
    this.open = open
    this.batch = open()
  }

  get empty(): boolean {
    return this.batches().every(({ rows }) => rows === 0)
  }

  readonly more = (name: string): WriteBatch => {
    let batch = this.further.get(name)
    if (batch === undefined) this.further.set(name, (batch = this.open()))
    return batch
  }

  /** What has come since is of message number `message`: positions in refusals say so from now on. */
  keep(message: number): void {
    for (const table of this.tables()) {
      table.position.fill(message, this.kept.get(table) ?? 0, table.rows)
      this.kept.set(table, table.rows)
    }
  }

  /** Takes back what has come since. */
  takeBack(): void {
    for (const table of this.tables()) {
      const kept = this.kept.get(table) ?? 0
      while (table.rows > kept) table.dropRow()
    }
  }

  private tables(): TableBatch[] {
    return this.batches().flatMap(({ tables }) => tables)
  }

  private batches(): WriteBatch[] {
    return [this.batch, ...this.further.values()]
  }
}
