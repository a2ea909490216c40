/** Which series a delete means, in memory that the main thread shares. */
import type { Matcher } from 'svcdb'
import { newBytes, newInt32 } from '../memtable/grow.ts'
import { ByteWriter } from '../wal/bytes.ts'
import { encodeInts } from '../wal/column-codec.ts'
import type { Selection } from './select-job.ts'
import type { SeriesView } from './series-view.ts'

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
