/** Matching two vectors step by step: for groups that several series share in turn, and for fill modifiers. */
import type { BinaryExpr, VectorMatching } from '../ast.ts'
import { ExecutionError } from '../errors.ts'
import { LabelList, type Labels } from '../labels.ts'
import { type Evaluation, vectorBytes } from './context.ts'
import { SAME_LABELSET } from './finish.ts'
import type { Notes } from './operators.ts'
import { pairSamples } from './pair.ts'
import { type ChangedLabels, changeLabels } from './series-views.ts'
import { labelText, matchLabels } from './signature.ts'
import { ABSENT, HISTOGRAM, type VectorValue } from './value.ts'
import { copyCell, newVector } from './vectors.ts'

/** One side of the operator. */
interface Side {
  value: VectorValue
  groups: Int32Array
  /** What stands in when this side has no series for a group. */
  fill: number | undefined
}

export async function matchBySteps(
  expr: BinaryExpr,
  matching: VectorMatching,
  change: ChangedLabels,
  lhs: VectorValue,
  left: Int32Array,
  rhs: VectorValue,
  right: Int32Array,
  count: number,
  evaluation: Evaluation,
): Promise<VectorValue> {
  const swapped = matching.card === 'one-to-many'
  const sides: [Side, Side] = [
    { value: swapped ? rhs : lhs, groups: swapped ? right : left, fill: swapped ? matching.fillRight : matching.fillLeft },
    { value: swapped ? lhs : rhs, groups: swapped ? left : right, fill: swapped ? matching.fillLeft : matching.fillRight },
  ]
  const matcher = new StepMatcher(expr, matching, change, sides[0], sides[1], count, evaluation)
  for (let t = 0; t < lhs.steps; t++) {
    await matcher.step(t)
    if (evaluation.pacer.due(left.length + right.length)) await evaluation.pacer.pause()
  }
  return matcher.finish()
}

/** What a pair that is matched costs, in cells: the first time its labels are made. */
const MATCH_CELLS = 8

class StepMatcher {
  private readonly expr: BinaryExpr
  private readonly matching: VectorMatching
  private readonly change: ChangedLabels
  private readonly many: Side
  private readonly one: Side
  private readonly evaluation: Evaluation
  private readonly notes: Notes
  private readonly steps: number
  /** By group: the row of the one side that has a sample at this step, and the step it was seen at. */
  private readonly owner: Int32Array
  private readonly ownerStep: Int32Array
  /** By group: the step at which a pair was matched last, and the rows it went to. */
  private readonly matchedStep: Int32Array
  private readonly matchedRows: Set<number>[] = []
  /** Rows of the result: by pair of series, and by labels. */
  private readonly rowOfPair = new Map<number, number>()
  private readonly rowOfLabels = new Map<string, number>()
  private readonly labels: Labels[] = []
  private readonly rows: VectorValue[] = []

  constructor(expr: BinaryExpr, matching: VectorMatching, change: ChangedLabels, many: Side, one: Side, count: number, evaluation: Evaluation) {
    this.expr = expr
    this.matching = matching
    this.change = change
    this.many = many
    this.one = one
    this.evaluation = evaluation
    this.notes = { sink: evaluation.context.annotations, pos: expr.pos }
    this.steps = many.value.steps
    this.owner = new Int32Array(count)
    this.ownerStep = new Int32Array(count).fill(-1)
    this.matchedStep = new Int32Array(count).fill(-1)
  }

  async step(t: number): Promise<void> {
    const { many, one } = this
    const { pacer } = this.evaluation
    const empty = [many, one].filter((side) => !hasSample(side, t)).length
    if (empty === 2 || (empty === 1 && many.fill === undefined && one.fill === undefined)) return
    this.findOwners(t)
    for (let i = 0; i < many.groups.length; i++) {
      if (many.value.kinds[i * this.steps + t] === ABSENT) continue
      const group = many.groups[i]
      const owned = this.ownerStep[group] === t
      if (owned || one.fill !== undefined) this.match(i, owned ? this.owner[group] : -1, group, t)
      if (pacer.due(MATCH_CELLS)) await pacer.pause()
    }
    if (many.fill === undefined) return
    for (let i = 0; i < one.groups.length; i++) {
      if (one.value.kinds[i * this.steps + t] !== ABSENT && this.matchedStep[one.groups[i]] !== t) this.match(-1, i, one.groups[i], t)
      if (pacer.due(MATCH_CELLS)) await pacer.pause()
    }
  }

  finish(): VectorValue {
    const { budget } = this.evaluation.context
    const out = newVector(new LabelList(this.labels), this.steps, budget)
    for (const [row, cells] of this.rows.entries()) {
      for (let t = 0; t < this.steps; t++) if (cells.kinds[t] !== ABSENT) copyCell(cells, t, out, row * this.steps + t)
    }
    budget.give(vectorBytes(this.rows.length, this.steps, false))
    if (this.expr.returnBool) out.dropName = new Uint8Array(this.rows.length).fill(1)
    return out
  }

  private findOwners(t: number): void {
    const { value, groups } = this.one
    for (let i = 0; i < groups.length; i++) {
      if (value.kinds[i * this.steps + t] === ABSENT) continue
      if (this.ownerStep[groups[i]] === t) this.failDuplicate(value, this.owner[groups[i]], i)
      this.owner[groups[i]] = i
      this.ownerStep[groups[i]] = t
    }
  }

  private failDuplicate({ labels }: VectorValue, first: number, second: number): never {
    const group = labelText(matchLabels(labels.at(second), this.matching))
    const both = [labelText(labels.at(first)), labelText(labels.at(second))].sort().join(', ')
    const side = this.matching.card === 'one-to-many' ? 'left' : 'right'
    throw new ExecutionError(
      `found duplicate series for the match group ${group} on the ${side} hand-side of the operation: [${both}]` +
        ';many-to-many matching not allowed: matching labels must be unique on one side',
    )
  }

  /** @param manyRow, oneRow -1 for a side that is filled in. */
  private match(manyRow: number, oneRow: number, group: number, t: number): void {
    const { expr, steps, matching } = this
    const m = sampleOf(this.many, manyRow * steps + t, manyRow)
    const o = sampleOf(this.one, oneRow * steps + t, oneRow)
    const [a, b] = matching.card === 'one-to-many' ? [o, m] : [m, o]
    // The pair is tried before its row is known: samples that do not go together match nothing.
    scratch.kinds[0] = ABSENT
    if (!pairSamples(expr.op, expr.returnBool, a.value, a.histogram, b.value, b.histogram, scratch, 0, this.notes)) return
    const row = this.rowOf(manyRow, oneRow)
    this.claim(group, row, t)
    if (scratch.kinds[0] === ABSENT) return
    if (this.rows[row].kinds[t] !== ABSENT) throw new ExecutionError(SAME_LABELSET)
    copyCell(scratch, 0, this.rows[row], t)
  }

  /** One result a group, or with grouping several of different labels. */
  private claim(group: number, row: number, t: number): void {
    if (this.matchedStep[group] !== t) {
      this.matchedStep[group] = t
      this.matchedRows[group] = new Set([row])
      return
    }
    if (this.matching.card === 'one-to-one') {
      throw new ExecutionError('multiple matches for labels: many-to-one matching must be explicit (group_left/group_right)')
    }
    const rows = this.matchedRows[group]
    if (rows.has(row)) throw new ExecutionError('multiple matches for labels: grouping labels must ensure unique matches')
    rows.add(row)
  }

  private rowOf(manyRow: number, oneRow: number): number {
    const pair = (manyRow + 1) * (this.one.groups.length + 1) + oneRow + 1
    let row = this.rowOfPair.get(pair)
    if (row === undefined) {
      const labels = this.labelsOf(manyRow, oneRow)
      row = this.rowOfLabels.get(labels.key) ?? this.addRow(labels)
      this.rowOfPair.set(pair, row)
    }
    return row
  }

  private labelsOf(manyRow: number, oneRow: number): Labels {
    const many = manyRow < 0 ? undefined : this.many.value.labels.at(manyRow)
    const one = oneRow < 0 ? undefined : this.one.value.labels.at(oneRow)
    // A side that is filled in has the labels of the match group.
    const base = many ?? matchLabels(one as Labels, this.matching)
    return changeLabels(base, one ?? matchLabels(base, this.matching), this.change)
  }

  private addRow(labels: Labels): number {
    const row = this.labels.push(labels) - 1
    this.rowOfLabels.set(labels.key, row)
    this.evaluation.context.budget.take(vectorBytes(1, this.steps, false))
    this.rows.push(newVector(new LabelList([labels]), this.steps, this.evaluation.context.budget))
    return row
  }
}

const scratch: VectorValue = { type: 'vector', labels: new LabelList([]), steps: 1, values: new Float64Array(1), kinds: new Uint8Array(1) }

function hasSample({ value, groups }: Side, t: number): boolean {
  for (let i = 0; i < groups.length; i++) if (value.kinds[i * value.steps + t] !== ABSENT) return true
  return false
}

function sampleOf({ value, fill }: Side, cell: number, row: number): { value: number; histogram: NonNullable<VectorValue['histograms']>[number] } {
  if (row < 0) return { value: fill ?? NaN, histogram: undefined }
  return { value: value.values[cell], histogram: value.kinds[cell] === HISTOGRAM ? value.histograms?.[cell] : undefined }
}
