/**
 * What a statement makes of numbers: of those of a group, such as `100 - avg(usage_idle)` or `round(sum(errors) / count(*), 2)`, or of the fields of a row (computed-fields.ts). Doubles, as
 * DuckDB computes them, and sums and products of 64-bit integers. Other arithmetic of integers and decimals among themselves, whose types and limits are others, is left to it; so is
 * whatever is not finite, and a division by zero.
 */
import { constantInteger, type Node } from '../ast.ts'
import type { Cells } from './accumulate.ts'
import { exactNumber } from './conditions.ts'
import { deviation, isDeviation } from './deviations.ts'
import { OPERATION, only } from './members.ts'
import type { AggregatePlan, Arithmetic, ArithmeticCall, Expression } from './plan.ts'

/** Of a literal it depends on what stands beside it, the more so of one that is a 32-bit integer. `bigint`: 64 bits with a sign; `integer`: any other. */
type NumberKind = 'literal' | 'int32' | 'integer' | 'bigint' | 'double'

interface Typed<L> {
  expression: Arithmetic<L>
  kind: NumberKind
}

/** What arithmetic is made of, and what it is. */
export interface Leaf<L> {
  leaf: L
  kind: 'integer' | 'bigint' | 'double'
}

export type Compute = (...operands: number[]) => number

const BINARY: Record<string, Compute> = { '+': (a, b) => a + b, '-': (a, b) => a - b, '*': (a, b) => a * b, '/': (a, b) => a / b }
const UNARY: Record<string, Compute> = { '-': (a) => -a, abs: Math.abs, floor: Math.floor, ceil: Math.ceil, ceiling: Math.ceil, round: (a) => roundedHalf(a) }
const MAX_DIGITS = 15
const INT32 = 2 ** 31
/** Of calls in each other. */
const MAX_DEPTH = 16

/** Numbers of a group by cell. NaN = null. */
export type Values = (cell: number) => number

/** @param leafOf undefined for what is none. @returns undefined for what is no arithmetic whose result is a double, or a 64-bit integer (`whole`). */
export function arithmeticOf<L>(node: Node, leafOf: (node: Node) => Leaf<L> | undefined): ArithmeticCall<L> | undefined {
  return callOf(node, leafOf, 0)
}

/** Of aggregates. @param aggregateOf the number of an aggregate and what it is. */
export function expressionOf(node: Node, aggregateOf: (node: Node) => readonly [number, AggregatePlan] | undefined): Expression | undefined {
  return arithmeticOf(node, (each) => {
    const [aggregate, plan] = aggregateOf(each) ?? []
    if (aggregate === undefined || plan === undefined || plan.type === 'time') return undefined
    return { leaf: { kind: 'aggregate', aggregate }, kind: isDouble(plan) ? 'double' : 'integer' }
  })
}

function typed<L>(node: Node, leafOf: (node: Node) => Leaf<L> | undefined, depth: number): Typed<L> | undefined {
  const value = exactNumber(node)
  if (value !== undefined) {
    const kind = constantInteger(node) !== undefined && Math.abs(value) < INT32 ? 'int32' : 'literal'
    return { expression: { kind: 'number', value }, kind }
  }
  const found = leafOf(node)
  if (found !== undefined) return { expression: found.leaf, kind: found.kind }
  const call = callOf(node, leafOf, depth)
  return call === undefined ? undefined : { expression: call, kind: call.whole === true ? 'bigint' : 'double' }
}

function callOf<L>(node: Node, leafOf: (node: Node) => Leaf<L> | undefined, depth: number): ArithmeticCall<L> | undefined {
  if (node.class !== 'FUNCTION' || depth === MAX_DEPTH || !only(node, OPERATION) || node.order_bys?.orders !== undefined) return undefined
  const name = String(node.function_name)
  const operands: Typed<L>[] = []
  for (const child of (node.children ?? []) as Node[]) {
    const operand = typed(child, leafOf, depth + 1)
    if (operand === undefined) return undefined
    operands.push(operand)
  }
  const kind = resultOf(name, operands)
  if (kind === undefined) return undefined
  return { kind: 'call', name, operands: operands.map(({ expression }) => expression), ...(kind === 'bigint' && { whole: true }) }
}

/** Undefined for an operator, or function, whose result is neither. */
function resultOf<L>(name: string, [first, second, ...more]: readonly Typed<L>[]): 'double' | 'bigint' | undefined {
  if (first === undefined || more.length > 0) return undefined
  if (second === undefined) {
    if (!Object.hasOwn(UNARY, name)) return undefined
    return first.kind === 'double' ? 'double' : first.kind === 'bigint' && (name === '-' || name === 'abs') ? 'bigint' : undefined
  }
  if (name === 'round') return first.kind === 'double' && isDigits(second) ? 'double' : undefined
  if (!Object.hasOwn(BINARY, name) || (isLiteral(first) && isLiteral(second))) return undefined
  if (name === '/' || first.kind === 'double' || second.kind === 'double') return 'double'
  const isWhole = ({ kind }: Typed<L>): boolean => kind === 'bigint' || kind === 'int32'
  return isWhole(first) && isWhole(second) ? 'bigint' : undefined
}

const isLiteral = ({ kind }: { kind: NumberKind }): boolean => kind === 'literal' || kind === 'int32'

function isDigits<L>({ kind, expression }: Typed<L>): boolean {
  if (kind !== 'int32') return false
  const { value } = expression as { value: number }
  return Number.isInteger(value) && value >= 0 && value <= MAX_DIGITS
}

function isDouble({ kind, type }: AggregatePlan): boolean {
  return kind === 'avg' || kind === 'quantile' || isDeviation(kind) || (type === 'float64' && kind !== 'count' && kind !== 'rows')
}

/** @param operands how many: one or two. */
export function computeOf(name: string, operands: number): Compute {
  return operands === 1 ? UNARY[name] : name === 'round' ? roundedTo : BINARY[name]
}

/** Away from zero where it is half. */
function roundedHalf(value: number): number {
  const whole = Math.trunc(value)
  return Math.abs(value - whole) >= 0.5 ? whole + Math.sign(value) : whole
}

/** What it takes to compute once. */
export function stepsOf<L extends { kind: string }>(expression: Arithmetic<L>): number {
  return 'operands' in expression ? expression.operands.reduce((sum, operand) => sum + stepsOf(operand), 1) : 1
}

/** A value of an aggregate; undefined for null. */
export function aggregateValue(cells: Cells, cell: number): number | undefined {
  const { kind, values, counts, squares } = cells
  if (squares !== undefined) return deviation(cells, cell)
  const value = values[cell]
  if (counts !== undefined) return counts[cell] === 0 ? undefined : kind === 'avg' ? value / counts[cell] : value
  return Number.isFinite(value) ? value : undefined
}

/** The values of all cells. Undefined where some are DuckDB's to compute, or to refuse. */
export function expressionValues(expression: Expression, aggregates: readonly Cells[], cells: number): Float64Array | undefined {
  const fault = { found: false }
  const values = compiled(expression, aggregates, fault)
  const out = new Float64Array(cells)
  for (let cell = 0; cell < cells; cell++) out[cell] = values(cell)
  return fault.found ? undefined : out
}

function compiled(expression: Expression, aggregates: readonly Cells[], fault: { found: boolean }): Values {
  switch (expression.kind) {
    case 'number':
      return () => expression.value
    case 'aggregate':
      return (cell) => aggregateValue(aggregates[expression.aggregate], cell) ?? Number.NaN
    case 'call':
      return calling(expression, aggregates, fault)
  }
}

function calling(
  { name, operands }: ArithmeticCall<{ kind: 'aggregate'; aggregate: number }>,
  aggregates: readonly Cells[],
  fault: { found: boolean },
): Values {
  const [first, second] = operands.map((operand) => compiled(operand, aggregates, fault))
  const compute = computeOf(name, operands.length)
  return (cell) => {
    const [a, b] = [first(cell), second === undefined ? 0 : second(cell)]
    if (Number.isNaN(a) || Number.isNaN(b)) return Number.NaN
    const value = compute(a, b)
    if (value - value !== 0) fault.found = true
    return value
  }
}

/** As DuckDB does: what is beyond the digits of a double stays as it is. */
function roundedTo(value: number, digits: number): number {
  const scale = 10 ** digits
  const rounded = roundedHalf(value * scale) / scale
  return Number.isFinite(rounded) ? rounded : value
}
