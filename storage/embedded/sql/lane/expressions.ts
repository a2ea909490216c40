/**
 * What a statement makes of the numbers of a group, such as `100 - avg(usage_idle)` or `round(sum(errors) / count(*), 2)`: doubles, as DuckDB computes them. Arithmetic of integers
 * and decimals among themselves, whose types and limits are others, is left to it; so is whatever is not finite, and a division by zero, which it refuses.
 */
import type { Node } from '../ast.ts'
import type { Cells } from './accumulate.ts'
import { exactNumber } from './conditions.ts'
import { deviation, isDeviation } from './deviations.ts'
import { OPERATION, only } from './members.ts'
import type { AggregatePlan, Expression } from './plan.ts'

/** Of a literal it depends on what stands beside it. */
type NumberKind = 'literal' | 'integer' | 'double'

interface Typed {
  expression: Expression
  kind: NumberKind
}

type Compute = (...operands: number[]) => number

const BINARY: Record<string, Compute> = { '+': (a, b) => a + b, '-': (a, b) => a - b, '*': (a, b) => a * b, '/': (a, b) => a / b }
const UNARY: Record<string, Compute> = { '-': (a) => -a, abs: Math.abs, floor: Math.floor, ceil: Math.ceil, ceiling: Math.ceil, round: (a) => roundedHalf(a) }
const MAX_DIGITS = 15
/** Of calls in each other. */
const MAX_DEPTH = 16

/** Numbers of a group by cell. NaN = null. */
export type Values = (cell: number) => number

/** @param aggregateOf the number of an aggregate and what it is. @returns undefined for what is no expression over aggregates, or DuckDB's. */
export function expressionOf(node: Node, aggregateOf: (node: Node) => readonly [number, AggregatePlan] | undefined): Expression | undefined {
  const found = typed(node, aggregateOf, 0)
  return found?.kind === 'double' && found.expression.kind === 'call' ? found.expression : undefined
}

function typed(node: Node, aggregateOf: (node: Node) => readonly [number, AggregatePlan] | undefined, depth: number): Typed | undefined {
  const value = exactNumber(node)
  if (value !== undefined) return { expression: { kind: 'number', value }, kind: 'literal' }
  const aggregate = aggregateOf(node)
  if (aggregate !== undefined) {
    const [number, plan] = aggregate
    return plan.type === 'time' ? undefined : { expression: { kind: 'aggregate', aggregate: number }, kind: isDouble(plan) ? 'double' : 'integer' }
  }
  if (node.class !== 'FUNCTION' || depth === MAX_DEPTH || !only(node, OPERATION) || node.order_bys?.orders !== undefined) return undefined
  const name = String(node.function_name)
  const operands = ((node.children ?? []) as Node[]).map((child) => typed(child, aggregateOf, depth + 1))
  return operands.includes(undefined) || !isComputed(name, operands as Typed[]) ? undefined : call(name, operands as Typed[])
}

function call(name: string, operands: readonly Typed[]): Typed {
  return { expression: { kind: 'call', name, operands: operands.map(({ expression }) => expression) }, kind: 'double' }
}

/** Whether the operator, or function, has a double as its result. */
function isComputed(name: string, [first, second, ...more]: readonly Typed[]): boolean {
  if (first === undefined || more.length > 0) return false
  if (second === undefined) return Object.hasOwn(UNARY, name) && first.kind === 'double'
  if (name === 'round') return first.kind === 'double' && isDigits(second.expression)
  if (!Object.hasOwn(BINARY, name) || (first.kind === 'literal' && second.kind === 'literal')) return false
  return name === '/' || first.kind === 'double' || second.kind === 'double'
}

function isDigits(expression: Expression): boolean {
  return expression.kind === 'number' && Number.isInteger(expression.value) && expression.value >= 0 && expression.value <= MAX_DIGITS
}

function isDouble({ kind, type }: AggregatePlan): boolean {
  return kind === 'avg' || kind === 'quantile' || isDeviation(kind) || (type === 'float64' && kind !== 'count' && kind !== 'rows')
}

/** Away from zero where it is half. */
function roundedHalf(value: number): number {
  const whole = Math.trunc(value)
  return Math.abs(value - whole) >= 0.5 ? whole + Math.sign(value) : whole
}

/** What it takes to compute for a cell. */
export function stepsOf(expression: Expression): number {
  return expression.kind === 'call' ? expression.operands.reduce((sum, operand) => sum + stepsOf(operand), 1) : 1
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

function calling({ name, operands }: Extract<Expression, { kind: 'call' }>, aggregates: readonly Cells[], fault: { found: boolean }): Values {
  const [first, second] = operands.map((operand) => compiled(operand, aggregates, fault))
  const compute = second === undefined ? UNARY[name] : name === 'round' ? roundedTo : BINARY[name]
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
