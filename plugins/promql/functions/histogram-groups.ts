/**
 * The histograms of a vector: native ones as they are, classic ones put together from their `le` series. A native and a classic histogram
 * with the same labels otherwise are one group: where both have a sample, neither counts.
 */

import type { Pos } from '../ast.ts'
import { groupByLabels, labelNames, markDistinct, SomeSeries } from '../eval/series-sets.ts'
import { FLOAT, HISTOGRAM, type VectorValue } from '../eval/value.ts'
import { type LabelColumn, LabelList, type LabelSets, type Labels, METRIC_NAME } from '../labels.ts'
import type { AnnotationSink } from './contract.ts'
import { badBucketLabel, mixedClassicNative } from './messages.ts'

const BUCKET = 'le'
const NONE = -1

export interface HistogramGroups {
  vector: VectorValue
  labels: LabelSets
  /** Classic series of group g: members[starts[g]] to members[starts[g + 1]], by ascending bound. */
  starts: Int32Array
  members: Int32Array
  /** The bound of each series of the vector. */
  bounds: Float64Array
  /** The native series of each group, -1 where there is none. */
  natives: Int32Array
}

/** Says so of series with floats whose bound does not parse. */
export function groupHistograms(vector: VectorValue, annotations: AnnotationSink, pos: Pos): HistogramGroups {
  const { labels } = vector
  const count = labels.length
  const names = labelNames(labels).filter((name) => name !== BUCKET)
  const { ordinals, count: groups } = groupByLabels([labels], names)
  const le = labels.column(BUCKET)
  const bounds = boundsOf(le)
  const natives: number[] = new Array(groups).fill(NONE)
  const members: number[][] = Array.from({ length: groups }, () => [])
  const keepsBound: number[] = []
  for (let i = 0; i < count; i++) {
    const { floats, histograms } = kindsOf(vector, i)
    const group = ordinals[0][i]
    if (histograms) {
      if (le.codes[i] < 0) natives[group] = i
      else keepsBound.push(i)
    }
    if (!floats) continue
    if (Number.isNaN(bounds[i])) reportBound(labels.at(i), annotations, pos)
    else members[group].push(i)
  }
  const used: number[] = []
  for (let g = 0; g < groups; g++) if (natives[g] !== NONE || members[g].length > 0) used.push(g)
  const starts = new Int32Array(used.length + keepsBound.length + 1)
  const flat = new Int32Array(members.reduce((sum, list) => sum + list.length, 0))
  for (const [g, group] of used.entries()) {
    const list = members[group].sort((a, b) => bounds[a] - bounds[b])
    flat.set(list, starts[g])
    starts[g + 1] = starts[g] + list.length
  }
  starts.fill(flat.length, used.length + 1)
  const first = used.map((group) => (natives[group] === NONE ? members[group][0] : natives[group]))
  return {
    vector,
    labels: markDistinct(keepsBound.length === 0 ? new WithoutBound(new SomeSeries(labels, Int32Array.from(first))) : listOf(labels, first, keepsBound)),
    starts,
    members: flat,
    bounds,
    natives: Int32Array.from([...used.map((group) => natives[group]), ...keepsBound]),
  }
}

/** Says that a native and a classic histogram stand in each other's way. */
export function reportConflict({ labels }: HistogramGroups, group: number, annotations: AnnotationSink, pos: Pos): void {
  annotations.warning(mixedClassicNative(labels.at(group).get(METRIC_NAME)), pos)
}

function kindsOf({ kinds, steps, histograms }: VectorValue, series: number): { floats: boolean; histograms: boolean } {
  const found = { floats: false, histograms: false }
  for (let cell = series * steps; cell < (series + 1) * steps; cell++) {
    if (kinds[cell] === FLOAT) found.floats = true
    else if (kinds[cell] === HISTOGRAM) found.histograms = true
    if (found.floats && (found.histograms || histograms === undefined)) break
  }
  return found
}

/** NaN where there is none or none that parses. */
function boundsOf({ codes, texts }: LabelColumn): Float64Array {
  const values = texts.map(parseBound)
  return Float64Array.from(codes, (code) => (code < 0 ? NaN : values[code]))
}

function parseBound(text: string): number {
  const infinite = /^([+-]?)inf(?:inity)?$/i.exec(text)
  if (infinite !== null) return infinite[1] === '-' ? -Infinity : Infinity
  if (!/^[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:e[+-]?\d+)?$/i.test(text)) return NaN
  const value = Number(text)
  return Number.isFinite(value) ? value : NaN
}

function reportBound(labels: Labels, annotations: AnnotationSink, pos: Pos): void {
  annotations.warning(badBucketLabel(labels.get(METRIC_NAME), labels.get(BUCKET)), pos)
}

const BOUND_ONLY: ReadonlySet<string> = new Set([BUCKET])

function listOf(labels: LabelSets, first: readonly number[], keepsBound: readonly number[]): LabelSets {
  return new LabelList([...first.map((i) => labels.at(i).drop(BOUND_ONLY)), ...keepsBound.map((i) => labels.at(i))])
}

/** Series less their `le`. */
class WithoutBound implements LabelSets {
  distinct = false
  private readonly base: SomeSeries

  constructor(base: SomeSeries) {
    this.base = base
  }

  get length(): number {
    return this.base.length
  }

  at(i: number): Labels {
    return this.base.at(i).drop(BOUND_ONLY)
  }

  column(name: string): LabelColumn {
    return name === BUCKET ? { codes: new Int32Array(this.length).fill(-1), texts: [] } : this.base.column(name)
  }

  names(): readonly string[] {
    return this.base.names().filter((name) => name !== BUCKET)
  }
}
