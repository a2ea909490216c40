/** Label sets of a metric's series: their tags and the metric's name. */
import type { SeriesSet } from 'svcdb/lib/columns'
import { labelNames } from '../eval/series-sets.ts'
import { type LabelColumn, type LabelSets, Labels, METRIC_NAME } from '../labels.ts'
import type { Metric } from './metric-catalog.ts'

export class MetricLabels implements LabelSets {
  distinct = false
  readonly length: number
  private readonly metric: Metric
  private readonly set: SeriesSet

  constructor(metric: Metric, set: SeriesSet) {
    this.metric = metric
    this.set = set
    this.length = set.series.length
  }

  /** Series that differ by a tag called like the metric's name have the same labels. */
  get mayRepeat(): boolean {
    return this.set.tags.keys().includes(METRIC_NAME)
  }

  at(i: number): Labels {
    return this.metric.labelsOf(this.set.series[i], () => named(this.set.tags.at(i), this.metric.name))
  }

  names(): readonly string[] {
    return [METRIC_NAME, ...this.set.tags.keys()]
  }

  column(name: string): LabelColumn {
    return name === METRIC_NAME ? { codes: new Int32Array(this.length), texts: [this.metric.name] } : this.set.tags.column(name)
  }
}

function named(tags: readonly string[], metric: string): Labels {
  let at = 0
  while (at < tags.length && tags[at] < METRIC_NAME) at += 2
  // A tag of that name could not be told from the metric's.
  const rest = tags[at] === METRIC_NAME ? at + 2 : at
  return new Labels([...tags.slice(0, at), METRIC_NAME, metric, ...tags.slice(rest)])
}

/** Several label sets as one, one after the other. */
export class JoinedLabels implements LabelSets {
  distinct = false
  readonly length: number
  private readonly parts: readonly LabelSets[]
  /** Where each part begins. */
  private readonly starts: Int32Array

  constructor(parts: readonly LabelSets[]) {
    this.parts = parts
    this.starts = new Int32Array(parts.length + 1)
    for (const [i, { length }] of parts.entries()) this.starts[i + 1] = this.starts[i] + length
    this.length = this.starts[parts.length]
  }

  at(i: number): Labels {
    let low = 0
    let high = this.parts.length - 1
    while (low < high) {
      const middle = (low + high + 1) >> 1
      if (this.starts[middle] <= i) low = middle
      else high = middle - 1
    }
    return this.parts[low].at(i - this.starts[low])
  }

  names(): readonly string[] {
    return [...new Set(this.parts.flatMap(labelNames))]
  }

  column(name: string): LabelColumn {
    const codes = new Int32Array(this.length)
    const texts: string[] = []
    const known = new Map<string, number>()
    for (const [p, part] of this.parts.entries()) {
      const column = part.column(name)
      const translated = new Int32Array(column.texts.length).fill(-1)
      for (let i = 0; i < part.length; i++) {
        const code = column.codes[i]
        if (code >= 0 && translated[code] < 0) translated[code] = codeOf(column.texts[code], texts, known)
        codes[this.starts[p] + i] = code < 0 ? code : translated[code]
      }
    }
    return { codes, texts }
  }
}

function codeOf(text: string, texts: string[], known: Map<string, number>): number {
  let code = known.get(text)
  if (code === undefined) {
    known.set(text, (code = texts.length))
    texts.push(text)
  }
  return code
}
