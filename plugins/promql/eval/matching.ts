/**
 * Arithmetic and comparison between two vectors.
 *
 * Which series match is a matter of every single step: two series of one match group are an error only where both have a sample. When no
 * group has two series on the side that must be unique, which is nearly always so, each series has one partner for all steps and rows are
 * calculated one by one; else `match-steps.ts` goes step by step.
 */
import type { BinaryExpr, VectorMatching } from '../ast.ts'
import { type LabelSets, METADATA } from '../labels.ts'
import type { Evaluation } from './context.ts'
import { matchBySteps } from './match-steps.ts'
import { ARITHMETIC, COMPARE, isArithmetic, isComparison, type Notes } from './operators.ts'
import { pairSamples } from './pair.ts'
import { groupByLabels, labelNames, SomeSeries } from './series-sets.ts'
import { type ChangedLabels, ChangedSeries } from './series-views.ts'
import { matchNames } from './signature.ts'
import { ABSENT, FLOAT, type VectorValue } from './value.ts'
import { dropAllNames, newVector } from './vectors.ts'

const NO_NAMES: ReadonlySet<string> = new Set()
const ONE_TO_ONE: VectorMatching = { card: 'one-to-one', on: false, labels: [], include: [] }

export async function matchVectors(expr: BinaryExpr, lhs: VectorValue, rhs: VectorValue, evaluation: Evaluation): Promise<VectorValue> {
  const matching = expr.matching ?? ONE_TO_ONE
  const sides = [lhs.labels, rhs.labels]
  const groups = groupByLabels(sides, matchNames(matching, sides))
  const [left, right] = groups.ordinals
  const change = labelChange(expr, matching, sides)
  const swapped = matching.card === 'one-to-many'
  const many = swapped ? right : left
  const partners =
    matching.fillLeft === undefined && matching.fillRight === undefined ? partnersOf(many, swapped ? left : right, groups.count, matching) : undefined
  if (partners !== undefined) {
    const manyRows = Int32Array.from(many.keys()).filter((i) => partners[i] >= 0)
    const oneRows = manyRows.map((i) => partners[i])
    const labels = new ChangedSeries(
      new SomeSeries(swapped ? rhs.labels : lhs.labels, manyRows),
      new SomeSeries(swapped ? lhs.labels : rhs.labels, oneRows),
      change,
    )
    // With one side's labels taken over, two series may come to have the same.
    if (matching.card === 'one-to-one' || groupByLabels([labels], labelNames(labels)).count === labels.length) {
      const [leftRows, rightRows] = swapped ? [oneRows, manyRows] : [manyRows, oneRows]
      return matchRows(expr, lhs, leftRows, rhs, rightRows, labels, evaluation)
    }
  }
  return matchBySteps(expr, matching, change, lhs, left, rhs, right, groups.count, evaluation)
}

/** How the labels of the many side (the left one of one-to-one) become those of the result. */
function labelChange({ op }: BinaryExpr, { card, on, labels, include }: VectorMatching, sides: readonly LabelSets[]): ChangedLabels {
  const drop = isArithmetic(op) ? METADATA : NO_NAMES
  if (card !== 'one-to-one') return { drop, include: include.length === 0 ? include : labelsOnSides(include, sides) }
  return on ? { keep: new Set(labels), drop, include } : { drop: new Set([...drop, ...labels]), include }
}

/** Of the names, those that series of a side have: the others change nothing, and a query may list tens of thousands, which each series would be asked for. */
function labelsOnSides(names: readonly string[], sides: readonly LabelSets[]): string[] {
  const known = new Set(sides.flatMap(labelNames))
  return [...new Set(names)].filter((name) => known.has(name))
}

/** The partner of each series of the many side, -1 for none; undefined when a group has two series on a side that must be unique. */
function partnersOf(many: Int32Array, one: Int32Array, count: number, { card }: VectorMatching): Int32Array | undefined {
  const owner = new Int32Array(count).fill(-1)
  for (let i = 0; i < one.length; i++) {
    if (owner[one[i]] !== -1) return undefined
    owner[one[i]] = i
  }
  if (card === 'one-to-one') {
    const seen = new Uint8Array(count)
    for (const group of many) {
      if (seen[group] === 1) return undefined
      seen[group] = 1
    }
  }
  return many.map((group) => owner[group])
}

async function matchRows(
  expr: BinaryExpr,
  lhs: VectorValue,
  leftRows: Int32Array,
  rhs: VectorValue,
  rightRows: Int32Array,
  labels: ChangedSeries,
  { context, pacer }: Evaluation,
): Promise<VectorValue> {
  const { steps } = lhs
  const out = newVector(labels, steps, context.budget)
  const notes: Notes = { sink: context.annotations, pos: expr.pos }
  const floats = lhs.histograms === undefined && rhs.histograms === undefined && expr.op !== '</' && expr.op !== '>/'
  const row = floats ? floatRow : mixedRow
  for (let i = 0; i < leftRows.length; i++) {
    row(expr, lhs, leftRows[i] * steps, rhs, rightRows[i] * steps, out, i * steps, notes)
    if (pacer.due(steps)) await pacer.pause()
  }
  if (expr.returnBool) out.dropName = dropAllNames(labels.length)
  return out
}

function floatRow({ op, returnBool }: BinaryExpr, lhs: VectorValue, left: number, rhs: VectorValue, right: number, out: VectorValue, base: number): void {
  const { steps } = lhs
  if (isArithmetic(op)) {
    const f = ARITHMETIC[op]
    for (let t = 0; t < steps; t++) {
      if (lhs.kinds[left + t] === ABSENT || rhs.kinds[right + t] === ABSENT) continue
      out.values[base + t] = f(lhs.values[left + t], rhs.values[right + t])
      out.kinds[base + t] = FLOAT
    }
  } else if (isComparison(op)) {
    const holds = COMPARE[op]
    for (let t = 0; t < steps; t++) {
      if (lhs.kinds[left + t] === ABSENT || rhs.kinds[right + t] === ABSENT) continue
      const kept = holds(lhs.values[left + t], rhs.values[right + t])
      if (!kept && !returnBool) continue
      out.values[base + t] = returnBool ? (kept ? 1 : 0) : lhs.values[left + t]
      out.kinds[base + t] = FLOAT
    }
  }
}

function mixedRow(
  { op, returnBool }: BinaryExpr,
  lhs: VectorValue,
  left: number,
  rhs: VectorValue,
  right: number,
  out: VectorValue,
  base: number,
  notes: Notes,
): void {
  for (let t = 0; t < lhs.steps; t++) {
    if (lhs.kinds[left + t] === ABSENT || rhs.kinds[right + t] === ABSENT) continue
    const ha = lhs.histograms?.[left + t]
    const hb = rhs.histograms?.[right + t]
    pairSamples(op, returnBool, lhs.values[left + t], ha, rhs.values[right + t], hb, out, base + t, notes)
  }
}
