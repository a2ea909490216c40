/** Which series a delete means, in memory that the main thread shares. */
import type { Matcher } from 'svcdb'
import { ByteWriter } from '../../common/log/bytes.ts'
import { encodeInts } from '../../common/log/column-codec.ts'
import { newBytes, newInt32 } from '../memtable/grow.ts'
import type { SeriesView } from './series-view.ts'

export interface SelectionRequest {
  measurement: number
  matchers: readonly Matcher[]
}

/** Both in shared memory, so that no thread copies them. */
export interface Selection {
  /** Ascending. */
  series: Int32Array
  /** As the log has them, see change-record.ts. */
  encoded: Uint8Array
}

/** Live series of a measurement that satisfy all matchers. */
export function selectionOf(view: SeriesView, measurement: number, matchers: readonly Matcher[]): Selection {
  const found = view.select(measurement, matchers)
  const series = newInt32(found.length)
  series.set(found)
  const out = new ByteWriter(found.length * 4 + 16)
  encodeInts(out, series, series.length)
  const encoded = newBytes(out.length)
  encoded.set(out.bytes.subarray(0, out.length))
  return { series, encoded }
}
