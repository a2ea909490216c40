/** Syntax tree to text for people: what does not fit a line of 100 bytes is broken up and indented. */
import type { Expr } from '../ast.ts'
import { aggregateText, isLonger, operatorText, print, subqueryText } from './print.ts'

const MAX_LINE = 100
const INDENT = '  '

export function pretty(expr: Expr): string {
  return format(expr, 0)
}

/** @param level 0: the text goes on in the line it is put in; else it begins a line that far in. */
function format(expr: Expr, level: number): string {
  const indent = INDENT.repeat(level)
  // As Prometheus has them: a sign keeps its operand on its line, a short subquery is never indented.
  if (expr.kind === 'unary') return `${indent}${expr.op}${format(expr.expr, level).trim()}`
  if (!isLonger(expr, MAX_LINE)) return expr.kind === 'subquery' ? print(expr) : `${indent}${print(expr)}`
  switch (expr.kind) {
    case 'paren':
      return block(indent, '', [expr.expr], level)
    case 'binary':
      return `${format(expr.lhs, level + 1)}\n${indent}${operatorText(expr)}\n${format(expr.rhs, level + 1)}`
    case 'aggregate':
      return block(indent, aggregateText(expr), expr.param === undefined ? [expr.expr] : [expr.param, expr.expr], level)
    case 'call':
      return block(indent, expr.name, expr.args, level)
    case 'subquery':
      return `${format(expr.expr, level)}${subqueryText(expr)}`
    default:
      return `${indent}${print(expr)}`
  }
}

function block(indent: string, head: string, parts: readonly Expr[], level: number): string {
  return `${indent}${head}(\n${parts.map((part) => format(part, level + 1)).join(',\n')}\n${indent})`
}
