/** Rows of a record batch that are not written, and why. */
import type { Rejection } from 'svcdb'
import type { ErrorCode } from 'svcdb/lib/errors'

/** As many reasons as the storage gives for its own refusals. */
const MAX_REASONS = 16

export class RowRefusals {
  count = 0
  readonly reasons: Rejection[] = []
  private readonly rows: number
  private readonly firstRow: number
  private refused: Uint8Array | undefined

  /** @param firstRow place of the batch's first row in all that the client sends. */
  constructor(rows: number, firstRow: number) {
    this.rows = rows
    this.firstRow = firstRow
  }

  /** The first reason of a row stays. */
  refuse(row: number, code: ErrorCode, message: string): void {
    this.refused ??= new Uint8Array(this.rows)
    if (this.refused[row] === 1) return
    this.refused[row] = 1
    this.count++
    if (this.reasons.length < MAX_REASONS) this.reasons.push({ code, message, position: this.firstRow + row })
  }

  has(row: number): boolean {
    return this.refused !== undefined && this.refused[row] === 1
  }
}
