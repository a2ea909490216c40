/** The order that the Prometheus API gives matrices in: by label names and values, the shorter set first. */
import type { LabelSets, Labels } from '../labels.ts'

export function compareLabels(a: Labels, b: Labels): number {
  const left = a.pairs
  const right = b.pairs
  const length = Math.min(left.length, right.length)
  for (let i = 0; i < length; i++) {
    const x = left[i]
    const y = right[i]
    if (x !== y) return x < y ? -1 : 1
  }
  return left.length - right.length
}

/** Places of the series that `wanted` picks, by their labels, which are looked at once each. */
export function orderOf(sets: LabelSets, wanted: (series: number) => boolean): { series: number; labels: Labels }[] {
  const list: { series: number; labels: Labels }[] = []
  for (let series = 0; series < sets.length; series++) if (wanted(series)) list.push({ series, labels: sets.at(series) })
  for (let i = 1; i < list.length; i++) if (compareLabels(list[i - 1].labels, list[i].labels) > 0) return list.sort((a, b) => compareLabels(a.labels, b.labels))
  return list
}
