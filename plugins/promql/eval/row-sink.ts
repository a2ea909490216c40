/** Where selectors and range functions leave the results of one series after the other. */
import type { FloatHistogram } from '../histogram/float-histogram.ts'

export interface RowSink {
  /** The row under construction begins at `base`; its kinds are ABSENT before anything is written. */
  readonly values: Float64Array
  readonly kinds: Uint8Array
  readonly base: number
  float(step: number, value: number): void
  histogram(step: number, value: FloatHistogram): void
  /** Takes the row under construction, of one series of the selection, and begins the next. A row that is not kept has nothing in it. */
  keep(series: number): void
}
