/** Window functions. */
import type { PlanNode } from '../../embedded/sql/bind.ts'
import { printAggregate } from './aggregates.ts'
import { type Expr, type Inputs, printExpr } from './expr.ts'
import { nullable, raise, typeOf } from './types.ts'

const WHOLE = 'ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING'
const BEFORE = 'ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING'

/** @param orders printed by the caller, which knows how ClickHouse orders. */
export function printWindow(node: PlanNode, inputs: Inputs, orders: (orders: readonly PlanNode[], inputs: Inputs) => string): Expr {
  if (node.exclude_clause !== undefined && node.exclude_clause !== 'NO_OTHER') raise('EXCLUDE in frames of windows')
  const type = typeOf(node.return_type)
  const partitions = ((node.partitions ?? []) as PlanNode[]).map((part) => printExpr(part, inputs).text)
  const order = orders((node.orders ?? []) as PlanNode[], inputs)
  const over = (frame: string): string =>
    ` OVER (${[partitions.length === 0 ? '' : `PARTITION BY ${partitions.join(', ')}`, order, frame].filter(Boolean).join(' ')})`
  if (node.type === 'WINDOW_AGGREGATE' && node.name === 'list' && frameOf(node) === WHOLE) {
    const values = printExpr(node.children[0], inputs)
    const number = partitions.length === 0 ? 'toInt64(1)' : `toInt64(dense_rank() OVER (ORDER BY ${partitions.join(', ')}))`
    if (node.filters !== undefined || node.distinct === true) raise('FILTER and DISTINCT within list() OVER')
    return { text: `tuple(CAST(${values.text} AS ${nullable(values.type)}), ${number})`, type, series: true }
  }
  if (node.type === 'WINDOW_AGGREGATE') return printAggregate(node, inputs, over(order === '' ? WHOLE : frameOf(node)))
  if (order === '') raise(`${String(node.type).replace('WINDOW_', '').toLowerCase()}() without ORDER BY`)
  const args = ((node.children ?? []) as PlanNode[]).map((child) => printExpr(child, inputs))
  if (node.filters !== undefined || node.distinct === true || ((node.arg_orders ?? []) as unknown[]).length > 0)
    raise('FILTER, DISTINCT or ORDER BY within a window function')
  const ignores = node.ignore_nulls === true
  const value = args[0] === undefined ? '' : `CAST(${args[0].text} AS ${nullable(args[0].type)})`
  const of = (text: string): Expr => ({ text, type })
  switch (node.type) {
    case 'WINDOW_ROW_NUMBER':
      return of(`toInt64(row_number()${over('')})`)
    case 'WINDOW_RANK':
      return of(`toInt64(rank()${over('')})`)
    case 'WINDOW_RANK_DENSE':
      return of(`toInt64(dense_rank()${over('')})`)
    case 'WINDOW_PERCENT_RANK':
      return { ...of(`percent_rank()${over('')}`), numbers: true }
    case 'WINDOW_CUME_DIST':
      return { ...of(`cume_dist()${over('')}`), numbers: true }
    case 'WINDOW_LAG':
    case 'WINDOW_LEAD': {
      const offset = node.offset_expr === undefined ? 1n : printExpr(node.offset_expr, inputs).constant?.value
      const given = node.default_expr === undefined ? undefined : printExpr(node.default_expr, inputs)
      if (typeof offset !== 'bigint' || offset < 0n) return raise('lag() and lead() by a number of rows that is no constant')
      if (ignores) {
        if (offset !== 1n || given !== undefined || node.type === 'WINDOW_LEAD') raise('IGNORE NULLS of others than lag(x, 1)')
        return of(`anyLastOrNull(${value})${over(BEFORE)}`)
      }
      const fallback = given === undefined || given.constant?.value === undefined ? '' : `, CAST(${given.text} AS ${nullable(type)})`
      return of(`${node.type === 'WINDOW_LAG' ? 'lagInFrame' : 'leadInFrame'}(${value}, ${offset}${fallback})${over(WHOLE)}`)
    }
    case 'WINDOW_FIRST_VALUE':
    case 'WINDOW_LAST_VALUE': {
      const name = node.type === 'WINDOW_FIRST_VALUE' ? 'first_value' : 'last_value'
      return of(`${name}${ignores ? 'OrNull' : '_respect_nulls'}(${value})${over(frameOf(node))}`)
    }
    default:
      return raise(`window function ${String(node.type).replace('WINDOW_', '').toLowerCase()}()`)
  }

  function frameOf({ start, end, start_expr, end_expr }: PlanNode): string {
    const unit = /_(ROWS|GROUPS|RANGE)$/.exec(String(end))?.[1] ?? /_(ROWS|GROUPS|RANGE)$/.exec(String(start))?.[1] ?? 'ROWS'
    if (unit === 'GROUPS') raise('GROUPS in frames of windows')
    const bound = (kind: string, expr: PlanNode | undefined): string => {
      const word = kind.replace(/_(ROWS|GROUPS|RANGE)$/, '')
      if (!word.startsWith('EXPR')) return word.replace('_', ' ')
      const rows = expr === undefined ? undefined : printExpr(expr, inputs).constant?.value
      if (unit !== 'ROWS' || typeof rows !== 'bigint' || rows < 0n) return raise('frames of windows by a range of values')
      return `${rows} ${word === 'EXPR_PRECEDING' ? 'PRECEDING' : 'FOLLOWING'}`
    }
    return `${unit} BETWEEN ${bound(String(start), start_expr)} AND ${bound(String(end), end_expr)}`
  }
}
