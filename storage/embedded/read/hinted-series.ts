/** The series that the conditions of a statement on tags leave. */
import type { Matcher } from 'svcdb/lib/columns'
import type { SeriesView, TagLike } from '../series/series-view.ts'
import { tagColumns } from '../series/tag-source.ts'
import type { TagHint } from '../sql/host.ts'
import { likeMatcher } from '../sql/like.ts'
import type { MeasurementDef } from '../threads/definitions.ts'
import { common } from './masks.ts'

/** @returns ascending; undefined for all. @throws SQL_ERROR for patterns that take too long, BAD_REQUEST for such regular expressions. */
export function hintedSeries(view: SeriesView, measurement: MeasurementDef, hints: readonly TagHint[]): Int32Array | undefined {
  const { id } = measurement
  const named = tagColumns(measurement, view.tagKeys(id))
  const patterns: TagLike[] = []
  const matchers: Matcher[] = []
  // Those of a tag together: series are looked for once, however many conditions there are.
  const values = new Map<number, ReadonlySet<string>>()
  for (const hint of hints) {
    const tag = named.find(({ column }) => column === hint.tag)
    if (tag === undefined) continue
    const key = view.keySymbol(id, tag.key)
    if ('like' in hint) patterns.push({ key, like: hint.like })
    else if ('regex' in hint) matchers.push({ tag: tag.key, op: '=~', value: hint.regex })
    else {
      const known = values.get(key)
      values.set(key, new Set(known === undefined ? hint.values : hint.values.filter((value) => known.has(value))))
    }
  }
  let wanted: Int32Array | undefined
  for (const [key, own] of values) wanted = view.withTag(id, wanted ?? view.of(id), key, [...own])
  if (matchers.length > 0) {
    const matching = view.select(id, matchers)
    wanted = wanted === undefined ? matching : common(wanted, matching)
  }
  return patterns.length === 0 ? wanted : view.withTagsLike(id, wanted ?? view.of(id), patterns, likeMatcher)
}
