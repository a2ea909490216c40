/** The order that the Prometheus API gives matrices in: by label names and values, the shorter set first. */
import type { LabelSets, Labels } from '../labels.ts'
import { compareText } from '../text-order.ts'

/** Keeps small limits from sorting at every few series. */
const SPARE = 1024

export function compareLabels(a: Labels, b: Labels): number {
  const left = a.pairs
  const right = b.pairs
  const length = Math.min(left.length, right.length)
  for (let i = 0; i < length; i++) {
    if (left[i] !== right[i]) return compareText(left[i], right[i])
  }
  return left.length - right.length
}

export interface OrderedSeries {
  series: number
  labels: Labels
}

interface Ordered {
  list: OrderedSeries[]
  /** There were more than the limit. */
  truncated: boolean
}

/** The first `limit` by label order of the series that `wanted` picks. Labels are looked at once each, and never held for many more than the limit. */
export function orderOf(sets: LabelSets, wanted: (series: number) => boolean, limit: number): Ordered {
  let list: Ordered['list'] = []
  let truncated = false
  const cut = (): void => {
    sort(list)
    truncated ||= list.length > limit
    if (truncated) list = list.slice(0, limit)
  }
  for (let series = 0; series < sets.length; series++) {
    if (!wanted(series)) continue
    list.push({ series, labels: sets.at(series) })
    if (list.length >= 2 * limit + SPARE) cut()
  }
  cut()
  return { list, truncated }
}

export function sortLabels(list: Labels[]): void {
  for (let i = 1; i < list.length; i++) if (compareLabels(list[i - 1], list[i]) > 0) return void list.sort(compareLabels)
}

/** Storages mostly give series in order already. */
function sort(list: Ordered['list']): void {
  for (let i = 1; i < list.length; i++) {
    if (compareLabels(list[i - 1].labels, list[i].labels) > 0) return void list.sort((a, b) => compareLabels(a.labels, b.labels))
  }
}
