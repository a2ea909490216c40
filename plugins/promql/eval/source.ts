/** Where the evaluator gets series from: the storage, or a test's own samples. */
import type { AggregateRequest, SampleWindows, StoredRows } from 'svcdb/lib/columns'
import type { LabelMatcher } from '../ast.ts'
import type { LabelSets } from '../labels.ts'
import type { SampleBlock } from './value.ts'

export interface SelectRequest {
  matchers: readonly LabelMatcher[]
  /** Milliseconds; samples later than `after` up to and with `upTo`. */
  after: number
  upTo: number
  /** Only the newest sample of each series in that range is wanted (staleness markers count as samples). */
  newestOnly?: boolean
  /** Of each window only the first and last sample, their number, and where values fall, matter: others may be left out. */
  windows?: SampleWindows
}

/** Series that match, ordered as the storage has them; some may turn out to have no samples in the range. */
export interface Selection {
  labels: LabelSets
  /** Can be read once; a block's arrays are used again once the next one is asked for. Series without samples have empty ranges in their block, or no block at all. */
  blocks(): AsyncIterable<SampleBlock>
  /** Instead of `blocks`: some may come where they are stored. Absent where none would. */
  stored?(): AsyncIterable<SampleBlock | StoredRows>
}

export interface AggregateSelectRequest
  extends Pick<SelectRequest, 'matchers' | 'after' | 'upTo'>,
    Pick<AggregateRequest, 'windows' | 'window' | 'group' | 'tags' | 'without' | 'maxCells'> {}

/** Cells as those of a vector (value.ts): group by group, all windows of each. */
export interface AggregateSelection {
  /** Of the groups; no two are the same. */
  labels: LabelSets
  values: Float64Array
  /** ABSENT or FLOAT. */
  present: Uint8Array
  /** The one that was selected. */
  metric: string
  samples: number
}

export interface SampleSource {
  select(request: SelectRequest): Promise<Selection>
  /** As Reader.aggregate; also declined where not exactly one metric is selected. Absent where it always would be. */
  aggregate?(request: AggregateSelectRequest): Promise<AggregateSelection | undefined>
  /** Something was selected whose series follow from the whole range that was asked for, or from which other metrics there are: a step alone does not say what it comes to. */
  readonly beyondSteps?: boolean
}
