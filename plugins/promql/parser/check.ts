/** Types and numbers of arguments, and what binary operators refuse: run over a tree that is well formed. */
import type { AggregateExpr, BinaryExpr, CallExpr, Expr, LabelMatcher, Pos, ValueType, VectorSelector } from '../ast.ts'
import { AGGREGATES, FUNCTIONS, type Signature } from '../functions/signatures.ts'
import { METRIC_NAME } from '../labels.ts'
import type { Cursor } from './cursor.ts'
import { quote } from './go-text.ts'
import { matchesEmpty } from './regex-syntax.ts'

const COMPARISONS = new Set<string>(['==', '!=', '<', '<=', '>', '>='])
const SET_OPERATORS = new Set<string>(['and', 'or', 'unless'])
const NOT_OPERAND = 'binary expression must contain only scalar and instant vector types'

/** @returns the type of `expr`. @throws ParseError */
export function check(cursor: Cursor, expr: Expr, depth = 1): ValueType {
  if (depth > cursor.limits.maxDepth) throw cursor.tooDeep(expr.pos)
  switch (expr.kind) {
    case 'number':
      return 'scalar'
    case 'string':
      return 'string'
    case 'paren':
      return check(cursor, expr.expr, depth + 1)
    case 'unary': {
      const type = check(cursor, expr.expr, depth + 1)
      if (type === 'scalar' || type === 'vector') return type
      throw cursor.error(expr.pos, `unary expression only allowed on expressions of type scalar or instant vector, got ${quote(typeName(type))}`)
    }
    case 'binary':
      return checkBinary(cursor, expr, check(cursor, expr.lhs, depth + 1), check(cursor, expr.rhs, depth + 1))
    case 'aggregate':
      return checkAggregate(cursor, expr, depth)
    case 'call':
      return checkCall(cursor, expr, depth)
    case 'vector':
      return checkSelector(cursor, expr)
    case 'matrix':
      checkSelector(cursor, expr.vector)
      return 'matrix'
    case 'subquery': {
      const type = check(cursor, expr.expr, depth + 1)
      if (type !== 'vector') throw cursor.error(expr.pos, `subquery is only allowed on instant vector, got ${type} instead`)
      return 'matrix'
    }
  }
}

/** The type an expression has if all in it is well. */
function typeOf(expr: Expr): ValueType {
  switch (expr.kind) {
    case 'number':
      return 'scalar'
    case 'string':
      return 'string'
    case 'paren':
    case 'unary':
      return typeOf(expr.expr)
    case 'binary':
      return typeOf(expr.lhs) === 'scalar' && typeOf(expr.rhs) === 'scalar' ? 'scalar' : 'vector'
    case 'call':
      return expr.type
    case 'matrix':
    case 'subquery':
      return 'matrix'
    default:
      return 'vector'
  }
}

/** The name the documentation has for a type. */
function typeName(type: ValueType): string {
  return type === 'vector' ? 'instant vector' : type === 'matrix' ? 'range vector' : type
}

function expectType(cursor: Cursor, expr: Expr, wanted: ValueType, context: string, depth: number): void {
  const type = check(cursor, expr, depth + 1)
  if (type !== wanted) throw cursor.error(expr.pos, `expected type ${typeName(wanted)} in ${context}, got ${typeName(type)}`)
}

function checkAggregate(cursor: Cursor, expr: AggregateExpr, depth: number): ValueType {
  expectType(cursor, expr.expr, 'vector', 'aggregation expression', depth)
  const type = AGGREGATES[expr.op].param
  if (type !== undefined) expectType(cursor, expr.param as Expr, type, 'aggregation parameter', depth)
  return 'vector'
}

function checkBinary(cursor: Cursor, expr: BinaryExpr, left: ValueType, right: ValueType): ValueType {
  const { op, matching } = expr
  const comparison = COMPARISONS.has(op)
  const setOperator = SET_OPERATORS.has(op)
  const scalars = left === 'scalar' && right === 'scalar'
  if (expr.returnBool && !comparison) throw cursor.error(operatorPos(cursor, expr), 'bool modifier can only be used on comparison operators')
  if (comparison && !expr.returnBool && scalars) throw cursor.error(operatorPos(cursor, expr), 'comparisons between scalars must use BOOL modifier')
  const included = matching?.on && matching.include.length > 0 ? new Set(matching.include) : undefined
  const twice = included === undefined ? undefined : matching?.labels.find((label) => included.has(label))
  if (twice !== undefined) throw cursor.error(operatorPos(cursor, expr), `label ${quote(twice)} must not occur in ON and GROUP clause at once`)
  if (left !== 'scalar' && left !== 'vector') throw cursor.error(expr.lhs.pos, NOT_OPERAND)
  if (right !== 'scalar' && right !== 'vector') throw cursor.error(expr.rhs.pos, NOT_OPERAND)
  const fills = matching?.fillLeft !== undefined || matching?.fillRight !== undefined
  if (left === 'vector' && right === 'vector') {
    if (setOperator && matching !== undefined) {
      if (matching.card !== 'one-to-one') throw cursor.error(expr.pos, `no grouping allowed for ${quote(op)} operation`)
      matching.card = 'many-to-many'
      if (fills) throw cursor.error(expr.pos, 'filling in missing series not allowed for set operators')
    }
    return 'vector'
  }
  if (matching !== undefined && matching.labels.length > 0) throw cursor.error(expr.pos, 'vector matching only allowed between instant vectors')
  if (fills) throw cursor.error(expr.pos, 'filling in missing series only allowed between instant vectors')
  if (setOperator) throw cursor.error(expr.pos, `set operator ${quote(op)} not allowed in binary scalar expression`)
  delete expr.matching
  return scalars ? 'scalar' : 'vector'
}

/** From the operator to the last character before the right side. */
function operatorPos(cursor: Cursor, { lhs, rhs }: BinaryExpr): Pos {
  let start = lhs.pos.end
  while (/[ \t\r\n]/.test(cursor.query[start])) start++
  return { start, end: rhs.pos.start }
}

function checkCall(cursor: Cursor, expr: CallExpr, depth: number): ValueType {
  const signature = FUNCTIONS.get(expr.name) as Signature
  const { name, args } = expr
  const cause = wrongCount(signature, args.length)
  if (cause !== undefined) throw cursor.error(expr.pos, `expected ${cause} argument(s) in call to ${quote(name)}, got ${args.length}`)
  if (name === 'info' && args.length > 1) checkInfoSelector(cursor, expr)
  const context = `call to function ${quote(name)}`
  for (const [i, arg] of args.entries()) {
    if (name === 'info' && i === 1) continue
    expectType(cursor, arg, signature.args[Math.min(i, signature.args.length - 1)], context, depth)
  }
  return signature.returns
}

function wrongCount(signature: Signature, count: number): string | undefined {
  const { args, variadic } = signature
  if (variadic === 0) return count === args.length ? undefined : `${args.length}`
  const least = args.length - 1
  if (count < least) return `at least ${least}`
  return variadic > 0 && count > least + variadic ? `at most ${least + variadic}` : undefined
}

/** The second argument of info() selects labels: no metric name, and it may match everything. */
function checkInfoSelector(cursor: Cursor, expr: CallExpr): void {
  const selector = expr.args[1]
  if (selector.kind !== 'vector') {
    const type = typeOf(selector)
    if (type !== 'vector') throw cursor.error(expr.pos, `expected type instant vector in call to function "info", got ${typeName(type)}`)
    throw cursor.error(selector.pos, 'expected label selectors only')
  }
  if (selector.name !== '') throw cursor.error(selector.pos, 'expected label selectors only, got vector selector instead')
}

function checkSelector(cursor: Cursor, { name, matchers, pos }: VectorSelector): ValueType {
  if (name !== '') {
    // The last matcher is that of the name before the braces.
    const other = matchers.slice(0, -1).find((matcher) => matcher.name === METRIC_NAME)
    if (other !== undefined) throw cursor.error(pos, `metric name must not be set twice: ${quote(name)} or ${quote(other.value)}`)
  } else if (matchers.every(matchesNothing)) {
    throw cursor.error(pos, 'vector selector must contain at least one non-empty matcher')
  }
  return 'vector'
}

/** Whether a label that a series does not have passes. */
export function matchesNothing({ op, value }: LabelMatcher): boolean {
  if (op === '=') return value === ''
  if (op === '!=') return value !== ''
  return matchesEmpty(value) === (op === '=~')
}
