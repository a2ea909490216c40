/** Series that came to have the same labels become one, as long as they never have a sample at the same step. */
import { ExecutionError } from '../errors.ts'
import { ABSENT, type VectorValue } from '../eval/value.ts'
import type { Labels } from '../labels.ts'
import { LabelList } from '../labels.ts'

export const SAME_LABELS = 'vector cannot contain metrics with the same labelset'

/** `vector` with these labels instead of its own, and marks of its own for names that go. Arrays are shared when nothing merges. */
export function withLabels(vector: VectorValue, list: readonly Labels[], dropName: Uint8Array | undefined): VectorValue {
  const rows = new Map<string, number>()
  const target = new Int32Array(list.length)
  const kept: number[] = []
  for (const [i, labels] of list.entries()) {
    const { key } = labels
    let row = rows.get(key)
    if (row === undefined) {
      rows.set(key, (row = kept.length))
      kept.push(i)
    }
    target[i] = row
  }
  if (kept.length === list.length) return { ...vector, labels: new LabelList(list), dropName }
  const { steps } = vector
  const out: VectorValue = {
    type: 'vector',
    labels: new LabelList(kept.map((i) => list[i])),
    steps,
    values: new Float64Array(kept.length * steps),
    kinds: new Uint8Array(kept.length * steps),
    ...(vector.histograms && { histograms: new Array(kept.length * steps) }),
    dropName: dropName && Uint8Array.from(kept, (i) => dropName[i]),
  }
  for (let i = 0; i < list.length; i++) addCells(vector, i, out, target[i])
  return out
}

function addCells(from: VectorValue, source: number, into: VectorValue, target: number): void {
  const { steps } = from
  for (let t = 0; t < steps; t++) {
    const cell = source * steps + t
    if (from.kinds[cell] === ABSENT) continue
    const place = target * steps + t
    if (into.kinds[place] !== ABSENT) throw new ExecutionError(SAME_LABELS)
    into.kinds[place] = from.kinds[cell]
    into.values[place] = from.values[cell]
    if (into.histograms !== undefined) into.histograms[place] = from.histograms?.[cell]
  }
}
