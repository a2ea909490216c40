/** Syntax tree to the JSON of /api/v1/parse_query, which the tree view of Prometheus' user interface reads. */
import type { AtModifier, BinaryExpr, Duration, DurationExpr, Expr, SubqueryExpr, VectorSelector } from '../ast.ts'
import { FUNCTIONS, type Signature } from '../functions/signatures.ts'
import { formatFloat } from './go-text.ts'

type JsonNode = Record<string, unknown>

export function toJson(expr: Expr): JsonNode {
  switch (expr.kind) {
    case 'number':
      return { type: 'numberLiteral', val: formatFloat(expr.value) }
    case 'string':
      return { type: 'stringLiteral', val: expr.value.toWellFormed() }
    case 'paren':
      return { type: 'parenExpr', expr: toJson(expr.expr) }
    case 'unary':
      return { type: 'unaryExpr', op: expr.op, expr: toJson(expr.expr) }
    case 'binary':
      return binary(expr)
    case 'aggregate': {
      const { op, grouping, without } = expr
      return { type: 'aggregation', op, expr: toJson(expr.expr), param: expr.param === undefined ? null : toJson(expr.param), grouping, without }
    }
    case 'call': {
      const { name, args, variadic, returns } = FUNCTIONS.get(expr.name) as Signature
      return { type: 'call', func: { name, argTypes: args, variadic, returnType: returns }, args: expr.args.map(toJson) }
    }
    case 'vector':
      return { type: 'vectorSelector', ...selector(expr) }
    case 'matrix':
      return { type: 'matrixSelector', ...selector(expr.vector), ...duration('range', expr.range) }
    case 'subquery':
      return {
        type: 'subquery',
        expr: toJson(expr.expr),
        ...duration('range', expr.range),
        ...duration('step', expr.step ?? 0),
        ...times(expr),
      }
  }
}

function binary({ op, lhs, rhs, matching, returnBool }: BinaryExpr): JsonNode {
  const match = matching && {
    card: matching.card,
    labels: matching.labels,
    on: matching.on,
    include: matching.include,
    fillValues: { lhs: matching.fillLeft ?? null, rhs: matching.fillRight ?? null },
  }
  return { type: 'binaryExpr', op, lhs: toJson(lhs), rhs: toJson(rhs), matching: match ?? null, bool: returnBool }
}

function selector(vector: VectorSelector): JsonNode {
  return {
    name: vector.name,
    ...times(vector),
    matchers: vector.matchers.map(({ name, op, value }) => ({ name: name.toWellFormed(), value: value.toWellFormed(), type: op })),
    anchored: vector.modifier === 'anchored',
    smoothed: vector.modifier === 'smoothed',
  }
}

function times({ offset, at }: VectorSelector | SubqueryExpr): JsonNode {
  return { ...duration('offset', offset), ...atTime(at) }
}

function atTime(at: AtModifier | undefined): JsonNode {
  return typeof at === 'number' ? { timestamp: at, startOrEnd: null } : { timestamp: null, startOrEnd: at ?? null }
}

/** Two members: the milliseconds, and the expression that stands for them. */
function duration(name: string, value: Duration): JsonNode {
  return typeof value === 'number' ? { [name]: value, [`${name}Expr`]: null } : { [name]: 0, [`${name}Expr`]: durationNode(value, false) }
}

function durationNode(expr: DurationExpr, wrapped: boolean): JsonNode {
  const node = (op: string, lhs: DurationExpr | null, rhs: DurationExpr | null) => ({
    type: 'durationExpr',
    op,
    lhs: lhs && durationNode(lhs, false),
    rhs: rhs && durationNode(rhs, false),
    wrapped,
  })
  switch (expr.kind) {
    case 'duration':
      return { type: 'numberLiteral', val: formatFloat(expr.seconds), duration: !expr.bare }
    case 'step':
    case 'range':
      return node(expr.kind, null, null)
    case 'duration-unary':
      return node(expr.op, null, expr.expr)
    case 'duration-binary':
      return node(expr.op, expr.lhs, expr.rhs)
    case 'duration-call':
      return node(`${expr.name}_of`, expr.args[0], expr.args[1])
    case 'duration-paren':
      // A number in parentheses reads as one with a plus before it.
      return expr.expr.kind === 'duration' ? { ...node('+', null, expr.expr), wrapped: true } : durationNode(expr.expr, true)
  }
}
