/** Series that came to have the same labels become one, as long as they never have a sample at the same step. */
import { ExecutionError } from '../errors.ts'
import { SAME_LABELSET } from '../eval/finish.ts'
import { firstOfGroups, groupByLabels, labelNames, markDistinct, SomeSeries } from '../eval/series-sets.ts'
import { ABSENT, type VectorValue } from '../eval/value.ts'
import type { LabelSets } from '../labels.ts'

/** `vector` with these labels instead of its own, and marks of its own for names that go. Arrays are shared when nothing merges. */
export function withLabels(vector: VectorValue, labels: LabelSets, dropName: Uint8Array | undefined): VectorValue {
  if (labels.distinct) return { ...vector, labels, dropName }
  const { ordinals, count } = groupByLabels([labels], labelNames(labels))
  if (count === labels.length) return { ...vector, labels: markDistinct(labels), dropName }
  const { steps } = vector
  const first = firstOfGroups(ordinals[0], count)
  const out: VectorValue = {
    type: 'vector',
    labels: markDistinct(new SomeSeries(labels, first)),
    steps,
    values: new Float64Array(count * steps),
    kinds: new Uint8Array(count * steps),
    ...(vector.histograms && { histograms: new Array(count * steps) }),
    dropName: dropName && Uint8Array.from(first, (i) => dropName[i]),
  }
  for (let i = 0; i < labels.length; i++) addCells(vector, i, out, ordinals[0][i])
  return out
}

function addCells(from: VectorValue, source: number, into: VectorValue, target: number): void {
  const { steps } = from
  for (let t = 0; t < steps; t++) {
    const cell = source * steps + t
    if (from.kinds[cell] === ABSENT) continue
    const place = target * steps + t
    if (into.kinds[place] !== ABSENT) throw new ExecutionError(SAME_LABELSET)
    into.kinds[place] = from.kinds[cell]
    into.values[place] = from.values[cell]
    if (into.histograms !== undefined) into.histograms[place] = from.histograms?.[cell]
  }
}
