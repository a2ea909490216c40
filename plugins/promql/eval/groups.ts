/** The groups that aggregations put series into. */
import type { AggregateExpr } from '../ast.ts'
import { type LabelSets, METADATA } from '../labels.ts'
import { firstOfGroups, groupByLabels, labelNames, markDistinct, SomeSeries } from './series-sets.ts'
import { ChangedSeries } from './series-views.ts'

/** Series by group. */
export interface Groups {
  /** The group of each series. */
  of: Int32Array
  count: number
  /** What the series of each group have in common. */
  labels: LabelSets
}

export function groupSeries({ grouping, without }: AggregateExpr, labels: LabelSets): Groups {
  const left = without ? new Set([...METADATA, ...grouping]) : new Set(grouping)
  const names = without ? labelNames(labels).filter((name) => !left.has(name)) : [...left]
  const { ordinals, count } = groupByLabels([labels], names)
  const first = new SomeSeries(labels, firstOfGroups(ordinals[0], count))
  const change = without ? { drop: left, include: [] } : { keep: left, drop: new Set<string>(), include: [] }
  return { of: ordinals[0], count, labels: markDistinct(new ChangedSeries(first, first, change)) }
}

/** A group with a series whose name is to go loses its own. */
export function droppedGroups(dropName: Uint8Array | undefined, groups: Groups): Uint8Array | undefined {
  if (!dropName?.includes(1)) return undefined
  const out = new Uint8Array(groups.count)
  for (let i = 0; i < dropName.length; i++) if (dropName[i] === 1) out[groups.of[i]] = 1
  return out
}
