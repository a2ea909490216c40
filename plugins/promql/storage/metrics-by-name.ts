/** The metrics of several selectors in one order. */
import type { Metric } from './metric-catalog.ts'

/** Metrics by name, and whose they are. */
export interface MetricsOf<T> {
  metrics: readonly Metric[]
  of: T
}

interface Cursor<T> extends MetricsOf<T> {
  at: number
}

/** Those of one name together, by name; one that several lists have comes for each. */
export function* metricsByName<T>(lists: readonly MetricsOf<T>[]): Generator<{ metric: Metric; of: T }[]> {
  /** What is not through, the first by name at the end. */
  const left: Cursor<T>[] = []
  const put = (cursor: Cursor<T>): void => {
    if (cursor.at === cursor.metrics.length) return
    let low = 0
    let high = left.length
    while (low < high) {
      const middle = (low + high) >> 1
      if (nextName(left[middle]) > nextName(cursor)) low = middle + 1
      else high = middle
    }
    left.splice(low, 0, cursor)
  }
  for (const list of lists) put({ ...list, at: 0 })
  while (left.length > 0) {
    const name = nextName(left[left.length - 1])
    const same: { metric: Metric; of: T }[] = []
    const moved: Cursor<T>[] = []
    for (let cursor = left.at(-1); cursor !== undefined && nextName(cursor) === name; cursor = left.at(-1)) {
      for (; cursor.metrics[cursor.at]?.name === name; cursor.at++) same.push({ metric: cursor.metrics[cursor.at], of: cursor.of })
      moved.push(cursor)
      left.pop()
    }
    yield same
    moved.forEach(put)
  }
}

function nextName<T>({ metrics, at }: Cursor<T>): string {
  return metrics[at].name
}
