/** Where selectors and range functions leave the results of one series after the other. */
import type { FloatHistogram } from '../histogram/float-histogram.ts'
import type { LabelSets } from '../labels.ts'

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

/** Called once, when it is known which series there are. */
export type OpenSink = (labels: LabelSets) => RowSink
