/**
 * Syntax tree to text for people: what does not fit a line of 100 bytes is broken up and indented. Lines of what is nested hundreds of levels deep would be blanks for the
 * most part, and so their number is bounded by the length of the query.
 */

import type { Expr } from '../ast.ts'
import { ExecutionError } from '../errors.ts'
import { aggregateText, isLonger, operatorText, print, subqueryText } from './print.ts'

const MAX_LINE = 100
const INDENT = '  '

/** Blanks for each character of a query, and those of any. */
const MOST_BLANKS = 16
const LEAST_BLANKS = 65_536

/** @param length of the query. @throws ExecutionError when it would be blanks for the most part. */
export function pretty(expr: Expr, length: number = Number.POSITIVE_INFINITY): string {
  return format(expr, 0, { left: length * MOST_BLANKS + LEAST_BLANKS })
}

interface Blanks {
  left: number
}

/** @param level 0: the text goes on in the line it is put in; else it begins a line that far in. */
function format(expr: Expr, level: number, blanks: Blanks): string {
  // The line that begins here, and the one that ends it.
  blanks.left -= 2 * INDENT.length * level
  if (blanks.left < 0)
    throw new ExecutionError(`cannot lay out the query: more than ${MOST_BLANKS} blanks would stand before each of its characters; nest less`)
  const indent = INDENT.repeat(level)
  // As Prometheus has them: a sign keeps its operand on its line, a short subquery is never indented.
  if (expr.kind === 'unary') return `${indent}${expr.op}${format(expr.expr, level, blanks).trim()}`
  if (!isLonger(expr, MAX_LINE)) return expr.kind === 'subquery' ? print(expr) : `${indent}${print(expr)}`
  switch (expr.kind) {
    case 'paren':
      return block(indent, '', [expr.expr], level, blanks)
    case 'binary':
      return `${format(expr.lhs, level + 1, blanks)}\n${indent}${operatorText(expr)}\n${format(expr.rhs, level + 1, blanks)}`
    case 'aggregate':
      return block(indent, aggregateText(expr), expr.param === undefined ? [expr.expr] : [expr.param, expr.expr], level, blanks)
    case 'call':
      return block(indent, expr.name, expr.args, level, blanks)
    case 'subquery':
      return `${format(expr.expr, level, blanks)}${subqueryText(expr)}`
    default:
      return `${indent}${print(expr)}`
  }
}

function block(indent: string, head: string, parts: readonly Expr[], level: number, blanks: Blanks): string {
  return `${indent}${head}(\n${parts.map((part) => format(part, level + 1, blanks)).join(',\n')}\n${indent})`
}
