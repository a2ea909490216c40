/** The series that the conditions of a statement on tags leave. */
import type { SeriesView } from '../series/series-view.ts'
import { tagColumns } from '../series/tag-source.ts'
import type { TagHint } from '../sql/host.ts'
import { likeMatcher } from '../sql/like.ts'
import type { MeasurementDef } from '../threads/definitions.ts'

/** @returns ascending; undefined for all. */
export function hintedSeries(view: SeriesView, measurement: MeasurementDef, hints: readonly TagHint[]): Int32Array | undefined {
  const named = tagColumns(measurement, view.tagKeys(measurement.id))
  let wanted: Int32Array | undefined
  for (const hint of hints) {
    const tag = named.find(({ column }) => column === hint.tag)
    if (tag === undefined) continue
    const key = view.keySymbol(measurement.id, tag.key)
    const series = wanted ?? view.of(measurement.id)
    if ('values' in hint) wanted = view.withTag(measurement.id, series, key, hint.values)
    else wanted = view.withTagLike(measurement.id, series, key, hint.like, likeMatcher(hint.like))
  }
  return wanted
}
