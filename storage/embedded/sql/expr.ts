/** Expressions. Every class, and every member of it, is named: what is not is refused. */

import { fits, parseInstant, parseTime } from 'svcdb/lib/time-buckets'
import { withoutWritten } from './aliases.ts'
import { bare, constantInteger, constantText, decimalText, ident, literal, members, type Node, refuse } from './ast.ts'
import { printBucket } from './bucket-sql.ts'
import { columnRef } from './columns.ts'
import { COMPARISONS, printBetween, printComparison, printInList } from './comparison.ts'
import { AGGREGATES, ALIASES, BY_NAME, LAMBDA_TAKERS, OPERATORS, SCALARS, WINDOWS } from './functions.ts'
import { lambdaText } from './lambda.ts'
import { foldName } from './names.ts'
import { printParameter } from './parameters.ts'
import { NATIVE, ORIGINAL } from './plugin-functions/expand.ts'
import type { Printer } from './printer.ts'
import { kindOf, noteSubquery, resolve, type Scope } from './scope.ts'
import { printSessionCall } from './session-functions.ts'
import { star, starPattern } from './star.ts'
import { alike, checkInterval, printClock, printSum, printTimeAggregate, printTimeCall, printTimeCast } from './time-arithmetic.ts'
import { isTimeKind } from './time-kind.ts'
import { LATEST_TIME } from './tokens.ts'
import { printType } from './types.ts'

export function printExpr(p: Printer, node: Node, scope: Scope): string {
  return p.put(print(p, node, scope))
}

function print(p: Printer, node: Node, scope: Scope): string {
  const call = node[ORIGINAL] as Node | undefined
  if (call !== undefined) {
    if (p.plain) return printNode(p, call, scope)
    p.rewrites++
  }
  return printParameter(p, node) ?? printNode(p, node, scope)
}

function printNode(p: Printer, node: Node, scope: Scope): string {
  switch (node.class) {
    case 'COLUMN_REF':
      return printClock(p, node, scope) ?? columnRef(p, node, scope)
    case 'CONSTANT':
      members(node, ['class', 'type', 'alias', 'value'])
      return constant(node.value)
    case 'CAST':
      return cast(p, node, scope)
    case 'COMPARISON':
      return printComparison(p, node, scope)
    case 'BETWEEN':
      return printBetween(p, node, scope)
    case 'CONJUNCTION':
      members(node, ['class', 'type', 'alias', 'children'])
      return `(${list(p, node.children, scope, node.type === 'CONJUNCTION_OR' ? ' OR ' : ' AND ')})`
    case 'CASE':
      return caseExpr(p, node, scope)
    case 'OPERATOR':
      return operator(p, node, scope)
    case 'FUNCTION':
      return functionCall(p, node, scope)
    case 'WINDOW':
      return windowCall(p, node, scope)
    case 'SUBQUERY':
      return subquery(p, node, scope)
    case 'STAR':
      return star(p, node, scope)
    case 'LAMBDA':
      members(node, ['class', 'type', 'alias', 'lhs', 'expr'])
      return `(${printExpr(p, node.lhs, scope)} -> ${printExpr(p, node.expr, scope)})` // outside of list functions: JSON extraction
    case 'COLLATE':
      members(node, ['class', 'type', 'alias', 'child', 'collation'])
      if (!/^[A-Za-z_.]+$/.test(node.collation)) throw refuse(`cannot use collation "${node.collation}": there is no such collation`)
      return `(${printExpr(p, node.child, scope)} COLLATE ${node.collation})`
    case 'POSITIONAL_REFERENCE':
      members(node, ['class', 'type', 'alias', 'index'])
      return `#${Number(node.index)}`
    default:
      throw refuse(`cannot run this query: expressions of kind "${foldName(String(node.class))}" are not supported here`)
  }
}

function list(p: Printer, nodes: Node[] | undefined, scope: Scope, separator = ', '): string {
  return (nodes ?? []).map((node) => printExpr(p, node, scope)).join(separator)
}

function constant(value: Node): string {
  members(value, ['type', 'is_null', 'value'])
  if (value.is_null === true) return 'NULL'
  switch (value.type?.id) {
    case 'VARCHAR':
      return literal(String(value.value ?? ''))
    case 'BOOLEAN':
      return value.value === true ? 'TRUE' : 'FALSE'
    case 'DECIMAL':
      return decimalText(value)
    case 'DOUBLE':
    case 'FLOAT': {
      const text = String(Number(value.value))
      if (text.endsWith('Infinity')) return `CAST('${text}' AS DOUBLE)`
      return /e/i.test(text) ? text : `${text}e0`
    }
    default: {
      const integer = constantInteger({ class: 'CONSTANT', value })
      if (integer !== undefined) return integer < 0n ? `(${integer})` : String(integer)
      throw refuse(`cannot run this query: constants of type ${value.type?.id} are not supported here`)
    }
  }
}

/** A timestamp's text with a zone or more than six digits behind the point is read exactly; DuckDB would drop the offset and cut the digits. */
function cast(p: Printer, node: Node, scope: Scope): string {
  members(node, ['class', 'type', 'alias', 'child', 'cast_type', 'try_cast'])
  const text = constantText(node.child)
  const time = text === undefined || p.plain || node.cast_type.id !== 'TIMESTAMP' ? undefined : parseTime(text)
  if (time !== undefined && (time.offset !== undefined || time.fractionDigits > 6)) {
    p.rewrites++
    const ns = parseInstant(text as string) as bigint
    if (time.fractionDigits > 6 && fits(ns)) return `make_timestamp_ns(${ns})`
    return `make_timestamp(${ns / 1000n})`
  }
  const type = printType(node.cast_type)
  if (type === 'INTERVAL' && text !== undefined) checkInterval(text)
  const timed = printTimeCast(p, node, type, scope)
  if (timed !== undefined) return timed
  return `${node.try_cast === true ? 'TRY_CAST' : 'CAST'}(${printExpr(p, node.child, scope)} AS ${type})`
}

function caseExpr(p: Printer, node: Node, scope: Scope): string {
  members(node, ['class', 'type', 'alias', 'case_checks', 'else_expr'])
  const checks = node.case_checks as Node[]
  for (const check of checks) members(check, ['when_expr', 'then_expr'])
  const results = alike(p, [...checks.map((check) => check.then_expr), ...(node.else_expr === undefined ? [] : [node.else_expr])], scope)
  const cases = checks.map((check, i) => ` WHEN ${printExpr(p, check.when_expr, scope)} THEN ${results[i]}`)
  return `CASE${cases.join('')} ELSE ${node.else_expr === undefined ? 'NULL' : results[checks.length]} END`
}

function operator(p: Printer, node: Node, scope: Scope): string {
  members(node, ['class', 'type', 'alias', 'children'])
  if (node.type === 'COMPARE_IN' || node.type === 'COMPARE_NOT_IN') return printInList(p, node, scope)
  const children = node.children as Node[]
  const args = node.type === 'OPERATOR_COALESCE' ? alike(p, children, scope) : children.map((child) => printExpr(p, child, scope))
  switch (node.type) {
    case 'OPERATOR_NOT':
      return `(NOT ${args[0]})`
    case 'OPERATOR_IS_NULL':
      return `(${args[0]} IS NULL)`
    case 'OPERATOR_IS_NOT_NULL':
      return `(${args[0]} IS NOT NULL)`
    case 'OPERATOR_COALESCE':
      return `COALESCE(${args.join(', ')})`
    case 'OPERATOR_TRY':
      return `TRY(${args[0]})`
    case 'ARRAY_EXTRACT':
      return `(${args[0]})[${args[1]}]`
    case 'ARRAY_SLICE':
      return `(${args[0]})[${args.slice(1).join(':')}]`
    case 'STRUCT_EXTRACT':
      return `struct_extract(${args.join(', ')})`
    case 'GROUPING_FUNCTION':
      return `GROUPING(${args.join(', ')})`
    case 'ARRAY_CONSTRUCTOR':
      return `[${args.join(', ')}]`
    default:
      throw refuse(`cannot run this query: "${foldName(String(node.type))}" is not supported here`)
  }
}

const CALL = ['class', 'type', 'alias', 'function_name', 'schema', 'catalog', 'children', 'filter', 'order_bys', 'distinct', 'is_operator']

function functionCall(p: Printer, node: Node, scope: Scope): string {
  members(node, CALL)
  return AGGREGATES.has(foldName(String(node.function_name))) ? withoutWritten(scope, () => callText(p, node, scope)) : callText(p, node, scope)
}

function callText(p: Printer, node: Node, scope: Scope): string {
  if (node[NATIVE] !== undefined) return `${node.function_name}(${list(p, node.children, scope)})`
  if (node.function_name === LATEST_TIME && node.children?.length === 1) return latestTime(p, node.children[0], scope)
  const session = printSessionCall(p, node)
  if (session !== undefined) return session
  const starred = starPattern(p, node, scope)
  if (starred !== undefined) return starred
  const name = checkName(p, node)
  if (name === 'time_bucket' && !p.plain) {
    p.rewrites++
    return printBucket(p, node, scope)
  }
  const children = (node.children ?? []) as Node[]
  if (FIRST_OR_LAST.has(name) && children.length === 2 && !p.plain) {
    p.rewrites++
    const time = printExpr(p, children[1], scope)
    return printFirstOrLast(name, printExpr(p, children[0], scope), isTimeColumn(children[1], scope) ? `epoch_ns(${time})` : time, filterOf(p, node, scope))
  }
  if (name === 'count_star') return `count(*)${filterOf(p, node, scope)}`
  if (!p.plain && !SCALARS.has(name) && !OPERATORS.has(name) && !AGGREGATES.has(name)) throw unknown(name)
  checkAggregateName(name, children)
  if (isDivision(name) && children.length === 2) return division(p, name, children, scope)
  if (OPERATORS.has(name)) return operatorCall(p, name, children, scope)
  const timed =
    printClock(p, node, scope) ??
    printTimeCall(p, name, children, scope) ??
    printTimeAggregate(p, name, children, node.distinct === true, () => filterOf(p, node, scope), scope)
  if (timed !== undefined) return timed
  const args = children.map((child) => argument(p, child, name, scope))
  if (BY_EXTREME.has(name) && args.length === 2 && !p.plain && isTimeColumn(children[1], scope)) {
    // DuckDB has a fast path for integers but none for TIMESTAMP_NS.
    p.rewrites++
    args[1] = `epoch_ns(${args[1]})`
  }
  const order = orderList(p, node.order_bys, scope)
  return `${name}(${node.distinct === true ? 'DISTINCT ' : ''}${args.join(', ')}${order})${filterOf(p, node, scope)}`
}

/** The time of LATEST ON. As in QuestDB no other column says which row is the latest. */
function latestTime(p: Printer, node: Node, scope: Scope): string {
  const kind = kindOf(node, scope)
  if (kind !== undefined && !isTimeKind(kind)) {
    const name = (node.column_names as string[]).join('.')
    throw refuse(`cannot find the latest rows by "${name}": it is not a time; write LATEST ON _time, or for the largest values ORDER BY and LIMIT`)
  }
  return printExpr(p, node, scope)
}

const FIRST_OR_LAST = new Set(['first', 'last'])

/** The value at the smallest or largest time; with one argument `first` and `last` are DuckDB's own. @param rest FILTER and OVER. */
function printFirstOrLast(name: string, value: string, time: string, rest: string): string {
  return `${name === 'first' ? 'arg_min' : 'arg_max'}(${value}, ${time})${rest}`
}

const BY_EXTREME = new Set(['arg_max', 'arg_min', 'argmax', 'argmin', 'max_by', 'min_by'])

function isTimeColumn(node: Node, scope: Scope): boolean {
  return node.class === 'COLUMN_REF' && resolve(node.column_names, scope)?.column.column?.role === 'time'
}

const unknown = (name: string): Error => refuse(`cannot call function "${name}": there is none of that name, or it is not allowed here`)

/** The function's name in lower case; a qualified one only if the qualifier is the built-in schema. */
function checkName(p: Printer, node: Node): string {
  const name = foldName(String(node.function_name))
  if (node.catalog !== undefined || (node.schema !== undefined && node.schema !== 'main'))
    throw unknown([node.catalog, node.schema, name].filter(Boolean).join('.'))
  const alias = p.plain ? undefined : ALIASES.get(name)
  if (alias === undefined) return name
  p.rewrites++
  return alias
}

/** list_aggregate(l, 'sum') reaches a function by a string: it must be a constant that names an allowed aggregate. */
function checkAggregateName(name: string, children: Node[]): void {
  if (!BY_NAME.has(name)) return
  const text = foldName(constantText(children[1]) ?? '')
  if (!AGGREGATES.has(text)) throw refuse(`cannot call ${name}: its second argument must be the name of an aggregate function, written as a string`)
}

/** Functions whose arguments' names are keys of the value they make. */
const STRUCT_MAKERS = new Set(['struct_pack', 'struct_insert', 'struct_update', 'union_value'])
const NAMED_ARGUMENTS = new Set(['recursive', 'max_depth'])

function argument(p: Printer, node: Node, call: string, scope: Scope): string {
  const key = node.alias ?? (STRUCT_MAKERS.has(call) && node.class === 'COLUMN_REF' && !p.plain ? node.column_names.at(-1) : undefined)
  if (STRUCT_MAKERS.has(call) && node.class === 'STAR') throw refuse(`cannot call ${call} with a star: write its members one by one`)
  const named = key === undefined ? '' : `${argumentName(String(key), call)} := `
  const lambda = LAMBDA_TAKERS.has(call)
  return `${named}${lambda && node.class === 'LAMBDA' ? lambdaText(p, node, scope) : printExpr(p, node, scope)}`
}

function argumentName(name: string, call: string): string {
  if (STRUCT_MAKERS.has(call)) return ident(name)
  if (!NAMED_ARGUMENTS.has(foldName(name))) throw refuse(`cannot call ${call}: it has no argument "${name}" that can be named`)
  return foldName(name)
}

function operatorCall(p: Printer, name: string, children: Node[], scope: Scope): string {
  const sum = name === '+' || name === '-' ? printSum(p, name, children, scope) : undefined
  if (sum !== undefined) return sum
  const args = children.map((child) => printExpr(p, child, scope))
  if (name === '!__postfix') return `factorial(${args[0]})`
  if (args.length === 1) return `(${name} ${args[0]})`
  return `(${args[0]} ${name} ${args[1]})`
}

const isDivision = (name: string): boolean => name === '/' || name === '//' || name === '%' || name === 'mod' || name === 'divide'

/**
 * Integers and decimals refuse a zero divisor, floats follow IEEE 754. Types that only the binder knows are asked for by typeof, which it
 * folds, so that float columns pay nothing.
 */
function division(p: Printer, name: string, [a, b]: Node[], scope: Scope): string {
  const [left, right] = [printExpr(p, a, scope), printExpr(p, b, scope)]
  const text = (divisor: string): string => (name === 'mod' || name === 'divide' ? `${name}(${left}, ${divisor})` : `(${left} ${name} ${divisor})`)
  const kinds = [kindOf(a, scope), kindOf(b, scope)]
  if (p.plain || kinds.includes('float') || isNonZero(b)) return text(right)
  const typed = [left, right].filter((_, i) => kinds[i] !== 'exact').map((each) => ` AND typeof(${each}) NOT IN ('DOUBLE', 'FLOAT')`)
  p.rewrites++
  p.divisorChecks++
  return text(`CASE WHEN ${right} = 0 AND ${left} IS NOT NULL${typed.join('')} THEN error('division by zero') ELSE ${right} END`)
}

function isNonZero(node: Node): boolean {
  const integer = constantInteger(node)
  if (integer !== undefined) return integer !== 0n
  return node.class === 'CONSTANT' && node.value?.is_null === false && node.value.type?.id === 'DECIMAL' && /[1-9]/.test(decimalText(node.value))
}

function filterOf(p: Printer, node: Node, scope: Scope): string {
  return node.filter === undefined ? '' : ` FILTER (WHERE ${printExpr(p, node.filter, scope)})`
}

const NULL_ORDER: Record<string, string> = { ORDER_DEFAULT: '', 'NULLS FIRST': ' NULLS FIRST', 'NULLS LAST': ' NULLS LAST' }
const DIRECTION: Record<string, string> = { ORDER_DEFAULT: '', ASCENDING: ' ASC', DESCENDING: ' DESC' }

/** ` ORDER BY ...`, or nothing. */
function orderList(p: Printer, modifier: Node | undefined, scope: Scope): string {
  if (modifier === undefined) return ''
  members(modifier, ['type', 'orders'])
  return orderText(p, modifier.orders, scope)
}

/** For ORDER BY: an expression there that is one of these, `date_trunc('month', _time)` say, is that one, also where an alias has the name of one of its columns. */
export function printNoted(p: Printer, node: Node, scope: Scope): string {
  const text = printExpr(p, node, scope)
  if (node.class === 'FUNCTION' || node.class === 'CAST') scope.printed.set(bare(node), text)
  return text
}

/** @param known texts of expressions that are not to be printed anew, by what they are. */
export function orderText(p: Printer, orders: Node[] | undefined, scope: Scope, known?: ReadonlyMap<string, string>): string {
  if (orders === undefined || orders.length === 0) return ''
  const items = orders.map((order) => {
    members(order, ['type', 'null_order', 'expression'])
    const direction = DIRECTION[order.type]
    const nulls = NULL_ORDER[order.null_order]
    if (direction === undefined || nulls === undefined) throw refuse('cannot run this query: unknown sort order')
    const expression = order.expression as Node
    // ORDER BY ALL
    const text =
      expression.class === 'STAR' && expression.columns === true && expression.expr === undefined
        ? 'ALL'
        : (known?.get(bare(expression)) ??
          (isResult(expression, known) ? withoutWritten(scope, () => printExpr(p, expression, scope)) : printExpr(p, expression, scope)))
    return text + direction + nulls
  })
  return ` ORDER BY ${items.join(', ')}`
}

/** Of a query: an alias alone is a column of its answer. */
function isResult({ class: kind }: Node, known: ReadonlyMap<string, string> | undefined): boolean {
  return known !== undefined && kind === 'COLUMN_REF'
}

const WINDOW = [
  ...['class', 'type', 'alias', 'function_name', 'schema', 'catalog', 'children', 'partitions', 'orders', 'start', 'end', 'start_expr', 'end_expr'],
  ...['offset_expr', 'default_expr', 'ignore_nulls', 'filter_expr', 'exclude_clause', 'distinct', 'arg_orders'],
]

function windowCall(p: Printer, node: Node, scope: Scope): string {
  members(node, WINDOW)
  const name = checkName(p, node)
  const children = (node.children ?? []) as Node[]
  const partition = node.partitions === undefined ? '' : `PARTITION BY ${list(p, node.partitions, scope)}`
  const order = orderText(p, node.orders, scope)
  const over = `OVER (${[partition, order.trim(), frame(p, node, scope)].filter((part) => part !== '').join(' ')})`
  const filter = node.filter_expr === undefined ? '' : ` FILTER (WHERE ${printExpr(p, node.filter_expr, scope)})`
  if (FIRST_OR_LAST.has(name) && children.length === 2 && !p.plain) {
    p.rewrites++
    return printFirstOrLast(name, printExpr(p, children[0], scope), printExpr(p, children[1], scope), `${filter} ${over}`)
  }
  const timed = printTimeAggregate(p, name, children, node.distinct === true, () => `${filter} ${over}`, scope)
  if (timed !== undefined) return timed
  const star = name === 'count_star'
  if (!p.plain && !star && !AGGREGATES.has(name) && !WINDOWS.has(name)) throw unknown(name)
  const args = [...children, node.offset_expr, node.default_expr].filter((child) => child !== undefined).map((child) => printExpr(p, child, scope))
  const inner = star
    ? '*'
    : `${node.distinct === true ? 'DISTINCT ' : ''}${args.join(', ')}${orderText(p, node.arg_orders, scope)}${node.ignore_nulls === true ? ' IGNORE NULLS' : ''}`
  return `${star ? 'count' : name}(${inner})${filter} ${over}`
}

function isDefaultFrame(node: Node): boolean {
  return node.start === 'UNBOUNDED_PRECEDING' && node.end === 'CURRENT_ROW_RANGE' && node.exclude_clause === undefined
}

function frame(p: Printer, node: Node, scope: Scope): string {
  if (isDefaultFrame(node)) return ''
  const unit = /_(ROWS|GROUPS|RANGE)$/.exec(`${node.end}`)?.[1] ?? /_(ROWS|GROUPS|RANGE)$/.exec(`${node.start}`)?.[1] ?? 'ROWS'
  const bound = (text: string, expr: Node | undefined): string => {
    const match = /^(UNBOUNDED_PRECEDING|UNBOUNDED_FOLLOWING|CURRENT_ROW|EXPR_PRECEDING|EXPR_FOLLOWING)(?:_(?:ROWS|GROUPS|RANGE))?$/.exec(text)
    if (match === null) throw refuse('cannot run this query: unknown window frame')
    if (!match[1].startsWith('EXPR')) return match[1].replace('_', ' ')
    if (expr === undefined) throw refuse('cannot run this query: unknown window frame')
    return `${printExpr(p, expr, scope)} ${match[1] === 'EXPR_PRECEDING' ? 'PRECEDING' : 'FOLLOWING'}`
  }
  const exclude: Record<string, string> = { CURRENT_ROW: ' EXCLUDE CURRENT ROW', GROUP: ' EXCLUDE GROUP', TIES: ' EXCLUDE TIES', NO_OTHER: '' }
  const excluded = node.exclude_clause === undefined ? '' : exclude[node.exclude_clause]
  if (excluded === undefined) throw refuse('cannot run this query: unknown window frame')
  return `${unit} BETWEEN ${bound(node.start, node.start_expr)} AND ${bound(node.end, node.end_expr)}${excluded}`
}

function subquery(p: Printer, node: Node, scope: Scope): string {
  members(node, ['class', 'type', 'alias', 'subquery_type', 'subquery', 'child', 'comparison_type'])
  if (p.plain) return '(subquery)'
  // DuckDB would call a column by the text of the scans.
  p.rewrites++
  members(node.subquery, ['node'])
  const query = p.query(node.subquery.node, scope)
  const text = `(${query.text})`
  noteSubquery(node, query.outputs)
  switch (node.subquery_type) {
    case 'SCALAR':
      return text
    case 'EXISTS':
      return `(EXISTS ${text})`
    case 'NOT_EXISTS':
      return `(NOT EXISTS ${text})`
    case 'ANY': {
      const sign = COMPARISONS[node.comparison_type]
      if (sign === undefined || sign.startsWith('IS ')) throw refuse('cannot run this query: this comparison with a subquery is not supported here')
      return `(${printExpr(p, node.child, scope)} ${sign} ANY ${text})`
    }
    default:
      throw refuse('cannot run this query: this kind of subquery is not supported here')
  }
}
