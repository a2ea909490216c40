/** Window functions. */
import type { PlanNode } from '../../embedded/sql/bind.ts'
import { printAggregate } from './aggregates.ts'
import { type Expr, type Inputs, printExpr } from './expr.ts'
import { nullable, raise, typeOf } from './types.ts'

const WHOLE = 'ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING'
const BEFORE = 'ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING'

/** What a window function is over, with a frame or without. */
type PrintOver = (frame: string) => string

/** @param orders printed by the caller, which knows how ClickHouse orders. */
export function printWindow(node: PlanNode, inputs: Inputs, orders: (orders: readonly PlanNode[], inputs: Inputs) => string): Expr {
  if (node.exclude_clause !== undefined && node.exclude_clause !== 'NO_OTHER') raise('EXCLUDE in frames of windows')
  const type = typeOf(node.return_type)
  const partitions = ((node.partitions ?? []) as PlanNode[]).map((part) => printExpr(part, inputs).text)
  const order = orders((node.orders ?? []) as PlanNode[], inputs)
  const partitionBy = partitions.length === 0 ? '' : `PARTITION BY ${partitions.join(', ')}`
  const over: PrintOver = (frame) => ` OVER (${[partitionBy, order, frame].filter(Boolean).join(' ')})`
  if (node.type !== 'WINDOW_AGGREGATE') {
    if (order === '') raise(`${functionName(node)}() without ORDER BY`)
    return printFunction(node, inputs, type, over)
  }
  if (node.name === 'list' && printFrame(node, inputs) === WHOLE) return printList(node, inputs, type, partitions)
  return printAggregate(node, inputs, over(order === '' ? WHOLE : printFrame(node, inputs)))
}

/** list() over whole partitions: each row has its value, and the number of the partition that the answer gathers it by. */
function printList(node: PlanNode, inputs: Inputs, type: Expr['type'], partitions: readonly string[]): Expr {
  const values = printExpr(node.children[0], inputs)
  const number = partitions.length === 0 ? 'toInt64(1)' : `toInt64(dense_rank() OVER (ORDER BY ${partitions.join(', ')}))`
  if (node.filters !== undefined || node.distinct === true) raise('FILTER and DISTINCT within list() OVER')
  return { text: `tuple(CAST(${values.text} AS ${nullable(values.type)}), ${number})`, type, series: true }
}

function printFunction(node: PlanNode, inputs: Inputs, type: Expr['type'], over: PrintOver): Expr {
  const args = ((node.children ?? []) as PlanNode[]).map((child) => printExpr(child, inputs))
  if (node.filters !== undefined || node.distinct === true || ((node.arg_orders ?? []) as unknown[]).length > 0)
    raise('FILTER, DISTINCT or ORDER BY within a window function')
  const value = args[0] === undefined ? '' : `CAST(${args[0].text} AS ${nullable(args[0].type)})`
  switch (node.type) {
    case 'WINDOW_ROW_NUMBER':
      return { text: `toInt64(row_number()${over('')})`, type }
    case 'WINDOW_RANK':
      return { text: `toInt64(rank()${over('')})`, type }
    case 'WINDOW_RANK_DENSE':
      return { text: `toInt64(dense_rank()${over('')})`, type }
    case 'WINDOW_PERCENT_RANK':
      return { text: `percent_rank()${over('')}`, type, numbers: true }
    case 'WINDOW_CUME_DIST':
      return { text: `cume_dist()${over('')}`, type, numbers: true }
    case 'WINDOW_LAG':
    case 'WINDOW_LEAD':
      return { text: printShifted(node, inputs, type, value, over), type }
    case 'WINDOW_FIRST_VALUE':
    case 'WINDOW_LAST_VALUE': {
      const name = node.type === 'WINDOW_FIRST_VALUE' ? 'first_value' : 'last_value'
      const nulls = node.ignore_nulls === true ? 'OrNull' : '_respect_nulls'
      return { text: `${name}${nulls}(${value})${over(printFrame(node, inputs))}`, type }
    }
    default:
      return raise(`window function ${functionName(node)}()`)
  }
}

/** lag() and lead(). */
function printShifted(node: PlanNode, inputs: Inputs, type: Expr['type'], value: string, over: PrintOver): string {
  const offset = node.offset_expr === undefined ? 1n : printExpr(node.offset_expr, inputs).constant?.value
  const given = node.default_expr === undefined ? undefined : printExpr(node.default_expr, inputs)
  if (typeof offset !== 'bigint' || offset < 0n) return raise('lag() and lead() by a number of rows that is no constant')
  if (node.ignore_nulls === true) {
    if (offset !== 1n || given !== undefined || node.type === 'WINDOW_LEAD') raise('IGNORE NULLS of others than lag(x, 1)')
    return `anyLastOrNull(${value})${over(BEFORE)}`
  }
  const fallback = given === undefined || given.constant?.value === undefined ? '' : `, CAST(${given.text} AS ${nullable(type)})`
  return `${node.type === 'WINDOW_LAG' ? 'lagInFrame' : 'leadInFrame'}(${value}, ${offset}${fallback})${over(WHOLE)}`
}

const functionName = (node: PlanNode): string => String(node.type).replace('WINDOW_', '').toLowerCase()

/** The unit at the end of a frame's bound, as DuckDB's plan names it. */
const UNIT = /_(ROWS|GROUPS|RANGE)$/

function printFrame({ start, end, start_expr, end_expr }: PlanNode, inputs: Inputs): string {
  const unit = UNIT.exec(String(end))?.[1] ?? UNIT.exec(String(start))?.[1] ?? 'ROWS'
  if (unit === 'GROUPS') raise('GROUPS in frames of windows')
  const bound = (kind: string, expr: PlanNode | undefined): string => {
    const word = kind.replace(UNIT, '')
    if (!word.startsWith('EXPR')) return word.replace('_', ' ')
    const rows = expr === undefined ? undefined : printExpr(expr, inputs).constant?.value
    if (unit !== 'ROWS' || typeof rows !== 'bigint' || rows < 0n) return raise('frames of windows by a range of values')
    return `${rows} ${word === 'EXPR_PRECEDING' ? 'PRECEDING' : 'FOLLOWING'}`
  }
  return `${unit} BETWEEN ${bound(String(start), start_expr)} AND ${bound(String(end), end_expr)}`
}
