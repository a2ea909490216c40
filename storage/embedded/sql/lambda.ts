/** Lambdas of list functions and of COLUMNS: their parameters go before columns of the same names. */
import { members, type Node, refuse } from './ast.ts'
import { foldName } from './names.ts'
import type { Printer } from './printer.ts'
import type { Scope } from './scope.ts'

export function lambdaText(p: Printer, node: Node, scope: Scope): string {
  members(node, ['class', 'type', 'alias', 'lhs', 'expr'])
  const left = node.lhs as Node
  const parameters = left.class === 'COLUMN_REF' ? [left] : left.function_name === 'row' ? (left.children as Node[]) : []
  if (parameters.length === 0 || parameters.some((each) => each.class !== 'COLUMN_REF' || each.column_names.length !== 1)) {
    throw refuse('cannot read a lambda: its parameters must be plain names')
  }
  const names = parameters.map((each) => String(each.column_names[0]))
  const hidden = new Set(names.map(foldName))
  scope.hidden.push(hidden)
  scope.parameters.push(hidden)
  const body = p.expr(node.expr, scope)
  scope.hidden.splice(scope.hidden.indexOf(hidden), 1)
  scope.parameters.pop()
  return `lambda ${names.map((name) => p.ident(name)).join(', ')}: ${body}`
}
