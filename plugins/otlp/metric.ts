/** A measurement that a decoder has met, and where its points go in the write at hand. */
import type { MeasurementRef } from 'svcdb'
import type { Column, TableBatch } from 'svcdb/lib/columns'

/** A column and the table it is in. */
export interface Slot {
  table: TableBatch
  column: Column
}

export class Metric {
  readonly ref: MeasurementRef
  /** Number of the write that what follows is of. */
  serial = 0
  gauge: Slot | undefined
  sum: Slot | undefined
  histogram: Slot | undefined

  constructor(ref: MeasurementRef) {
    this.ref = ref
  }

  begin(serial: number): void {
    this.serial = serial
    this.gauge = this.sum = this.histogram = undefined
  }
}
