/** Rows to leave out of a batch. */

import type { Column } from 'svcdb/lib/columns'
import type { SvcError } from 'svcdb/lib/errors'
import type { Rows } from './rows.ts'

/** Rows to leave out, found column by column; a row is counted once. */
export class Refusals {
  /** A byte a row, 1 = refused; absent while none is. */
  flags: Uint8Array | undefined
  private readonly rows: Rows
  private readonly reject: (reason: () => SvcError, position: number) => void

  /** @param reject counts a row and names it. */
  constructor(rows: Rows, reject: (reason: () => SvcError, position: number) => void) {
    this.rows = rows
    this.reject = reject
  }

  has(row: number): boolean {
    return this.flags !== undefined && this.flags[row] === 1
  }

  row(row: number, reason: () => SvcError): void {
    if (this.has(row)) return
    this.flags ??= new Uint8Array(this.rows.rows)
    this.flags[row] = 1
    this.reject(reason, this.rows.position[row])
  }

  /** All rows that have the column. */
  all(column: Column, reason: () => SvcError): void {
    for (let row = 0; row < this.rows.rows; row++) if (column.has(row)) this.row(row, reason)
  }
}
