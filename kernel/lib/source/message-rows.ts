/** The batches of one write, and which of their rows are of which message. */
import type { TableBatch, WriteBatch } from '../columns/index.ts'

export class MessageRows {
  /** Where most rows go. */
  readonly batch: WriteBatch
  private readonly open: () => WriteBatch
  private readonly further = new Map<string, WriteBatch>()
  /** Rows of each table that are of messages before. */
  private readonly kept = new Map<TableBatch, number>()
  /** All of them. */
  private rows = 0

  constructor(open: () => WriteBatch) {
    this.open = open
    this.batch = open()
  }

  /** No message before has rows. */
  get empty(): boolean {
    return this.rows === 0
  }

  readonly more = (name: string): WriteBatch => {
    let batch = this.further.get(name)
    if (batch === undefined) this.further.set(name, (batch = this.open()))
    return batch
  }

  /** What has come since is of message number `message`: positions in refusals say so from now on. Costs what the message has, however many tables there are. */
  keep(message: number): void {
    for (const batch of this.batches()) {
      for (const table of batch.touched) {
        const kept = this.kept.get(table) ?? 0
        table.position.fill(message, kept, table.rows)
        this.kept.set(table, table.rows)
        this.rows += table.rows - kept
      }
      batch.begin()
    }
  }

  /** Takes back what has come since. */
  takeBack(): void {
    for (const batch of this.batches()) {
      for (const table of batch.touched) {
        const kept = this.kept.get(table) ?? 0
        table.dropRows(kept)
      }
      batch.begin()
    }
  }

  private batches(): WriteBatch[] {
    return this.further.size === 0 ? [this.batch] : [this.batch, ...this.further.values()]
  }
}
