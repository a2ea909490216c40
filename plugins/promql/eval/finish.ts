/** The end of an evaluation: metric names that operations took away go now, and no label set may come twice at one step. */
import { ExecutionError } from '../errors.ts'
import { type LabelColumn, type LabelSets, type Labels, METADATA } from '../labels.ts'
import type { Budget } from './context.ts'
import { firstOfGroups, groupByLabels, labelNames, markDistinct, SomeSeries } from './series-sets.ts'
import { ABSENT, type VectorValue } from './value.ts'
import { copyCell, newVector } from './vectors.ts'

export const SAME_LABELSET = 'vector cannot contain metrics with the same labelset'

/** Series without the metadata labels, where `drop` says so. */
class NamesDropped implements LabelSets {
  distinct = false
  private readonly base: LabelSets
  private readonly drop: Uint8Array

  constructor(base: LabelSets, drop: Uint8Array) {
    this.base = base
    this.drop = drop
  }

  get length(): number {
    return this.base.length
  }

  at(i: number): Labels {
    const labels = this.base.at(i)
    return this.drop[i] === 0 ? labels : labels.drop(METADATA)
  }

  column(name: string): LabelColumn {
    const column = this.base.column(name)
    if (!METADATA.has(name)) return column
    return { codes: column.codes.map((code, i) => (this.drop[i] === 0 ? code : -1)), texts: column.texts }
  }

  names(): readonly string[] {
    return labelNames(this.base)
  }
}

export function withoutNames(value: VectorValue): VectorValue {
  const { dropName, ...rest } = value
  if (!dropName?.includes(1)) return rest
  const labels = new NamesDropped(value.labels, dropName)
  if (value.labels.distinct && ofOneMetric(value.labels)) markDistinct(labels)
  return { ...rest, labels }
}

/** Series of one metric still differ without its name. */
function ofOneMetric(labels: LabelSets): boolean {
  for (const name of METADATA) {
    const { codes } = labels.column(name)
    for (let i = 1; i < codes.length; i++) if (codes[i] !== codes[0]) return false
  }
  return true
}

/** Series with the same labels become one where they share no step. */
export function mergeSame(value: VectorValue, budget: Budget): VectorValue {
  const series = value.labels.length
  if (series < 2 || value.labels.distinct) return value
  const groups = groupByLabels([value.labels], labelNames(value.labels))
  if (groups.count === series) return value
  const [ordinals] = groups.ordinals
  const { steps } = value
  const out = newVector(new SomeSeries(value.labels, firstOfGroups(ordinals, groups.count)), steps, budget)
  for (let i = 0; i < series; i++) {
    for (let t = 0; t < steps; t++) {
      const from = i * steps + t
      const to = ordinals[i] * steps + t
      if (value.kinds[from] === ABSENT) continue
      if (out.kinds[to] !== ABSENT) throw new ExecutionError(SAME_LABELSET)
      copyCell(value, from, out, to)
    }
  }
  return out
}
