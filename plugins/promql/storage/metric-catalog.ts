/**
 * Metric names: `<measurement>_<field>`, the measurement alone for a field named `value`. Two fields may give the same name.
 * A native histogram `x` answers to its classic names as well (`x_bucket`, `x_count`, `x_sum`), where nothing else has that name.
 */
import type { FieldType, MeasurementFields } from 'svcdb'
import { FLOATS_BESIDE, HISTOGRAMS_BESIDE, VALUE_FIELD } from 'svcdb/lib/columns'
import { TextPattern } from 'svcdb/lib/regex'
import type { LabelMatcher } from '../ast.ts'
import { type Labels, METRIC_NAME } from '../labels.ts'
import { PatternTime } from './pattern-time.ts'

const OWN_FIELDS: readonly string[] = [VALUE_FIELD, FLOATS_BESIDE, HISTOGRAMS_BESIDE]
const CLASSIC = { _bucket: 'bucket', _count: 'count', _sum: 'sum' } as const
/** Label sets kept of all metrics of a catalog. */
const KEPT_LABELS = 200_000

export type ClassicPart = (typeof CLASSIC)[keyof typeof CLASSIC]

/** Counts the label sets that metrics keep, so that many metrics together keep no more than one may. */
export class KeptLabels {
  private readonly most: number
  private readonly holders = new Set<Map<number, Labels>>()
  private count = 0

  constructor(most: number) {
    this.most = most
  }

  /** To be asked before a map takes one more. */
  room(labels: Map<number, Labels>): void {
    if (this.count >= this.most) {
      for (const holder of this.holders) holder.clear()
      this.holders.clear()
      this.count = 0
    }
    this.holders.add(labels)
    this.count++
  }
}

export class Metric {
  readonly name: string
  readonly measurement: string
  readonly field: string
  /** Which part of a native histogram it shows; undefined: the samples as they are. */
  readonly part: ClassicPart | undefined
  private readonly labels = new Map<number, Labels>()
  private readonly kept: KeptLabels

  constructor(kept: KeptLabels, name: string, measurement: string, field: string, part?: ClassicPart) {
    this.kept = kept
    this.name = name
    this.measurement = measurement
    this.field = field
    this.part = part
  }

  /** The label set of a series, made once. */
  labelsOf(series: number, make: () => Labels): Labels {
    let labels = this.labels.get(series)
    if (labels === undefined) {
      this.kept.room(this.labels)
      this.labels.set(series, (labels = make()))
    }
    return labels
  }
}

export class MetricCatalog {
  private static readonly known = new WeakMap<readonly MeasurementFields[], MetricCatalog>()
  /** By name. */
  readonly metrics: readonly Metric[]
  private readonly byName = new Map<string, Metric[]>()
  /** Those of native histograms, by name. */
  private readonly histograms = new Map<string, Metric[]>()
  private readonly classic = new Map<string, Metric[]>()
  private readonly kept = new KeptLabels(KEPT_LABELS)

  /** @param schema as the reader gives it: the catalog is kept as long as the array is. */
  static of(schema: readonly MeasurementFields[]): MetricCatalog {
    let catalog = MetricCatalog.known.get(schema)
    if (catalog === undefined) MetricCatalog.known.set(schema, (catalog = new MetricCatalog(schema)))
    return catalog
  }

  private constructor(schema: readonly MeasurementFields[]) {
    const metrics: Metric[] = []
    for (const { name: measurement, fields } of schema)
      for (const { name: field, type } of fields) if (type !== 'string') metrics.push(this.add(measurement, field, type))
    for (const same of this.byName.values()) same.sort(byRank)
    this.metrics = metrics.sort((a, b) => (a.name < b.name ? -1 : a.name > b.name ? 1 : byRank(a, b)))
  }

  /** Metrics whose name passes the conditions on it. */
  select(matchers: readonly LabelMatcher[]): readonly Metric[] {
    const equal = matchers.find(({ op }) => op === '=')
    let found = equal === undefined ? this.metrics : this.named(equal.value)
    const time = new PatternTime(METRIC_NAME, matchers.filter(({ op }) => op === '=~' || op === '!~').length)
    for (const matcher of matchers) {
      if (matcher === equal || found.length === 0) continue
      const test = nameTest(matcher, time)
      found = found.filter((_, i) => test(found)[i] === 1)
    }
    return found
  }

  private named(name: string): readonly Metric[] {
    const known = this.byName.get(name)
    if (known !== undefined) return known
    const suffix = /_(?:bucket|count|sum)$/.exec(name)?.[0] as keyof typeof CLASSIC | undefined
    const histograms = suffix === undefined ? undefined : this.histograms.get(name.slice(0, -suffix.length))
    if (suffix === undefined || histograms === undefined) return []
    let views = this.classic.get(name)
    if (views === undefined) {
      // What else has the name has no buckets.
      views = histograms.map((metric) => new Metric(this.kept, name, metric.measurement, metric.field, CLASSIC[suffix]))
      this.classic.set(name, views)
    }
    return views
  }

  private add(measurement: string, field: string, type: FieldType): Metric {
    const name = OWN_FIELDS.includes(field) ? measurement : `${measurement}_${field}`
    const metric = new Metric(this.kept, name, measurement, field)
    put(this.byName, name, metric)
    if (type === 'histogram') put(this.histograms, name, metric)
    return metric
  }
}

function put(lists: Map<string, Metric[]>, name: string, metric: Metric): void {
  const list = lists.get(name)
  if (list === undefined) lists.set(name, [metric])
  else list.push(metric)
}

/** The field `value` comes before those beside it, whichever there was first: it has most of the samples. */
function byRank(a: Metric, b: Metric): number {
  return OWN_FIELDS.indexOf(a.field) - OWN_FIELDS.indexOf(b.field)
}

/** A byte a metric, 1 = its name passes; worked out once for the list. */
function nameTest({ op, value }: LabelMatcher, time: PatternTime): (metrics: readonly Metric[]) => Uint8Array {
  let flags: Uint8Array | undefined
  return (metrics) => {
    if (flags !== undefined) return flags
    const names = metrics.map(({ name }) => name)
    if (op === '=' || op === '!=') flags = Uint8Array.from(names, (name) => ((name === value) === (op === '=') ? 1 : 0))
    else {
      flags = time.spend(() => new TextPattern(value).flags(names))
      if (op === '!~') flags = flags.map((flag) => 1 - flag)
    }
    return flags
  }
}

/** The conditions on the name, and the others. */
export function splitMatchers(matchers: readonly LabelMatcher[]): { names: LabelMatcher[]; others: LabelMatcher[] } {
  const names = matchers.filter(({ name }) => name === METRIC_NAME)
  return { names, others: matchers.filter(({ name }) => name !== METRIC_NAME) }
}
