/** Expressions of a bound plan as ClickHouse has them. Each member that means something is named: what is not is refused. */
import type { DeclaredSqlFunction, SqlConstant } from 'svcdb'
import { NATIVE_PREFIX, type PlanNode } from '../../embedded/sql/bind.ts'
import { castOf } from './casts.ts'
import { SCALARS } from './functions.ts'
import { constantOf } from './literals.ts'
import { BOOLEAN, clickHouseType, isFloat, nameOf, nullable, type Range, raise, rangeOf, type SqlType, typeOf } from './types.ts'

export interface Expr {
  /** Of the type that stands for `type`, or Nullable of it. */
  text: string
  type: SqlType
  /** Of integers, and what they stand for: no value is outside. */
  range?: Range | undefined
  /** Of floats: none is a NaN. */
  numbers?: boolean
  /** A call of a plugin's module over what the text is a tuple of: it can only be a column of the answer. */
  deferred?: Deferred
  /** Of `x - x % step`: the next multiple towards zero. */
  cut?: { of: Expr; step: bigint }
  /** A tag, by its column, where rows are grouped by series before they have their tags. */
  tag?: string
  /** All values of a partition, as a tuple of the row's own and the partition's number: only a module can have them. */
  series?: true
  /** Of a constant; `value` undefined = NULL. */
  constant?: { value: bigint | number | string | boolean | undefined }
}

/** How a module gets its arguments: a row's values, lists, or the values of a partition in the order of the row's number. */
export interface Deferred {
  spec: DeclaredSqlFunction
  takes: 'values' | 'lists' | 'series'
  types: readonly SqlType[]
  constants: readonly SqlConstant[]
}

/** An expression works with a tag, which rows must have then. */
export class TagWanted extends Error {}

/** What an expression may refer to, and what the statement knows. */
export interface Inputs {
  columns: readonly Expr[]
  /** First and last time of what a statement reads, for buckets of calendars. */
  times: Range
  /** Functions of plugins. */
  functions: ReadonlyMap<string, DeclaredSqlFunction>
}

/** A statement longer than this is refused: expressions may multiply. */
const MAX_LENGTH = 1 << 20

/** @param whole the expression is a column by itself. */
export function printExpr(node: PlanNode, inputs: Inputs, whole = false): Expr {
  const expr = print(node, inputs)
  if (expr.text.length > MAX_LENGTH) raise('room for an expression as long as this one becomes')
  if (!whole && expr.tag !== undefined) throw new TagWanted()
  if (!whole && expr.deferred !== undefined) raise(`function "${expr.deferred.spec.name}" but as a column of the answer`)
  if (!whole && expr.series === true) raise('lists of all values of a partition')
  return expr
}

function print(node: PlanNode, inputs: Inputs): Expr {
  const type = typeOf(node.return_type)
  switch (node.expression_class) {
    case 'BOUND_REF': {
      const column = inputs.columns[node.index ?? 0]
      if (column === undefined || column.type.id !== type.id) throw new Error(`a plan refers to column ${node.index ?? 0} as ${nameOf(type)}`)
      return column
    }
    case 'BOUND_CONSTANT': {
      const own = typeOf(node.value.type)
      const { text, value, range } = constantOf(node.value, own)
      return { text, type: own, range, numbers: typeof value === 'number' && !Number.isNaN(value), constant: { value } }
    }
    case 'BOUND_CAST':
      return castOf(printExpr(node.child, inputs), type, node.try_cast === true)
    case 'BOUND_COMPARISON':
      return comparison(String(node.type), printExpr(node.left, inputs), printExpr(node.right, inputs))
    case 'BOUND_CONJUNCTION': {
      const word = node.type === 'CONJUNCTION_OR' ? ' OR ' : ' AND '
      return { text: `(${all(node.children, inputs).map(texts).join(word)})`, type: BOOLEAN }
    }
    case 'BOUND_BETWEEN':
      return between(node, inputs)
    case 'BOUND_OPERATOR':
      return operator(node, type, inputs)
    case 'BOUND_CASE':
      return cases(node, type, inputs)
    case 'BOUND_FUNCTION':
      return call(node, type, inputs)
    default:
      return raise(`expressions of kind "${String(node.expression_class).toLowerCase()}"`)
  }
}

const texts = ({ text }: Expr): string => text
const all = (nodes: readonly PlanNode[] | undefined, inputs: Inputs): Expr[] => (nodes ?? []).map((node) => printExpr(node, inputs))

/** Computed by the module itself, on what ClickHouse answers. */
function moduleCall(name: string, { children = [] }: PlanNode, type: SqlType, inputs: Inputs): Expr {
  const spec = inputs.functions.get(name)
  if (spec === undefined) return raise(`function "${name}"`)
  const values = spec.args.filter(({ constant }) => constant === undefined).length
  const args = (children as PlanNode[]).map((child) => print(child, inputs))
  const given = args.slice(0, values)
  const own = given.every(({ series }) => series === true)
  if (given.some(({ deferred }) => deferred !== undefined) || (!own && given.some(({ series }) => series === true)))
    return raise(`function "${name}" of such arguments`)
  const takes = spec.kind === 'scalar' ? 'values' : own ? 'series' : 'lists'
  const constants = args.slice(spec.kind === 'window' ? values + 1 : values).map(({ type: { id }, constant }): SqlConstant => {
    if (constant?.value === undefined) return raise(`function "${name}" with arguments that are no constants`)
    return id === 'INTEGER' ? Number(constant.value) : constant.value
  })
  const parts = [...given, ...(takes === 'series' ? [args[values]] : [])]
  const types = given.map((arg) => (spec.kind === 'scalar' ? arg.type : (arg.type.item as SqlType)))
  return { text: `tuple(${parts.map(texts).join(', ')})`, type, deferred: { spec, takes, types, constants } }
}

const SIGNS: Record<string, string> = {
  COMPARE_EQUAL: '=',
  COMPARE_NOTEQUAL: '!=',
  COMPARE_LESSTHAN: '<',
  COMPARE_GREATERTHAN: '>',
  COMPARE_LESSTHANOREQUALTO: '<=',
  COMPARE_GREATERTHANOREQUALTO: '>=',
}

export function comparison(kind: string, left: Expr, right: Expr): Expr {
  if (kind === 'COMPARE_DISTINCT_FROM' || kind === 'COMPARE_NOT_DISTINCT_FROM') {
    // Both missing, or both there and equal.
    const equal = compared('=', left, right)
    const same = `(isNull(${left.text}) AND isNull(${right.text}) OR ifNull(${equal}, 0))`
    return { text: kind === 'COMPARE_DISTINCT_FROM' ? `(NOT ${same})` : same, type: BOOLEAN }
  }
  const sign = SIGNS[kind]
  if (sign === undefined) raise(`comparison "${kind}"`)
  return { text: compared(sign, left, right), type: BOOLEAN }
}

/** In SQL a NaN equals itself and is greater than all other numbers; in ClickHouse it compares as in IEEE 754. */
function compared(sign: string, left: Expr, right: Expr): string {
  const [a, b] = [left.text, right.text]
  if (!isFloat(left.type) || (left.numbers && right.numbers)) return `(${a} ${sign} ${b})`
  const [na, nb] = [left.numbers ? '0' : `isNaN(${a})`, right.numbers ? '0' : `isNaN(${b})`]
  const first: Record<string, string> = {
    '=': `${na} AND ${nb}`,
    '!=': `${na} != ${nb}`,
    '<': `${nb} AND NOT ${na}`,
    '>': `${na} AND NOT ${nb}`,
    '<=': nb,
    '>=': na,
  }
  const usual = sign === '!=' ? `(${a} != ${b} AND NOT (${na} AND ${nb}))` : `(${a} ${sign} ${b})`
  return `(${usual} OR (${first[sign]}))`
}

function between(node: PlanNode, inputs: Inputs): Expr {
  const [input, lower, upper] = all([node.input, node.lower, node.upper], inputs)
  // False members are left out of a plan.
  const low = comparison(node.lower_inclusive === true ? 'COMPARE_GREATERTHANOREQUALTO' : 'COMPARE_GREATERTHAN', input, lower)
  const high = comparison(node.upper_inclusive === true ? 'COMPARE_LESSTHANOREQUALTO' : 'COMPARE_LESSTHAN', input, upper)
  return { text: `(${low.text} AND ${high.text})`, type: BOOLEAN }
}

function operator(node: PlanNode, type: SqlType, inputs: Inputs): Expr {
  const args = all(node.children, inputs)
  switch (node.type) {
    case 'OPERATOR_NOT':
      return { text: `(NOT ${args[0].text})`, type }
    case 'OPERATOR_IS_NULL':
      return { text: `isNull(${args[0].text})`, type }
    case 'OPERATOR_IS_NOT_NULL':
      return { text: `isNotNull(${args[0].text})`, type }
    case 'OPERATOR_COALESCE':
      return { text: `CAST(coalesce(${args.map(texts).join(', ')}) AS ${nullable(type)})`, type, ...common(args) }
    case 'COMPARE_IN':
    case 'COMPARE_NOT_IN': {
      const text = membership(args)
      return { text: node.type === 'COMPARE_IN' ? text : `(NOT ${text})`, type }
    }
    default:
      return raise(`operator "${String(node.type).toLowerCase()}"`)
  }
}

/** ClickHouse leaves NULL among the values of IN out of account. */
function membership([input, ...values]: readonly Expr[]): string {
  const simple = values.every(({ constant }) => constant !== undefined && constant.value !== undefined && !Number.isNaN(constant.value))
  if (simple && (!isFloat(input.type) || input.numbers)) return `(${input.text} IN (${values.map(texts).join(', ')}))`
  return `(${values.map((value) => compared('=', input, value)).join(' OR ')})`
}

/** What holds of one of several. */
function common(exprs: readonly Expr[]): Pick<Expr, 'range' | 'numbers'> {
  const ranges = exprs.filter(({ constant }) => constant === undefined || constant.value !== undefined).map(({ range }) => range)
  const numbers = exprs.every((expr) => expr.numbers === true || (expr.constant !== undefined && expr.constant.value === undefined))
  if (ranges.length === 0 || ranges.includes(undefined)) return { numbers }
  const known = ranges as Range[]
  return { numbers, range: [known.map(([low]) => low).reduce((a, b) => (a < b ? a : b)), known.map(([, high]) => high).reduce((a, b) => (a > b ? a : b))] }
}

function cases(node: PlanNode, type: SqlType, inputs: Inputs): Expr {
  const checks = node.case_checks as PlanNode[]
  const otherwise = printExpr(node.else_expr, inputs)
  const results: Expr[] = [otherwise]
  let text = otherwise.text
  for (const { when_expr, then_expr } of checks.toReversed()) {
    const when = printExpr(when_expr, inputs).text
    const message = errorOf(then_expr)
    if (message !== undefined) {
      text = `if(throwIf(ifNull(${when}, 0), '${message}') = 0, ${text}, NULL)`
      continue
    }
    const then = printExpr(then_expr, inputs)
    results.push(then)
    text = `if(ifNull(${when}, 0), ${then.text}, ${text})`
  }
  return { text: `CAST(${text} AS ${nullable(type)})`, type, ...common(results) }
}

/** The text of what stands for a value and is an error: one of the printer's own. */
function errorOf(node: PlanNode): string | undefined {
  const call = node.expression_class === 'BOUND_CAST' ? node.child : node
  if (call?.expression_class !== 'BOUND_FUNCTION' || call.name !== 'error') return undefined
  return String(call.children?.[0]?.value?.value ?? '').startsWith('More than one row')
    ? 'more than one row returned by a subquery used as an expression'
    : 'division by zero'
}

function call(node: PlanNode, type: SqlType, inputs: Inputs): Expr {
  const name = String(node.name)
  if (name.startsWith(NATIVE_PREFIX)) return moduleCall(name.slice(NATIVE_PREFIX.length), node, type, inputs)
  const args = all(node.children, inputs)
  const scalar = Object.hasOwn(SCALARS, name) ? SCALARS[name] : undefined
  const printed = scalar?.({ name, args, type, inputs })
  if (printed === undefined) {
    return raise(`function "${name.replace(/^__svc_/, '')}" of (${args.map((arg) => nameOf(arg.type)).join(', ')})`)
  }
  const expr = typeof printed === 'string' ? { text: printed } : printed
  if (type.id !== 'INTERVAL' || expr.constant === undefined) clickHouseType(type)
  return { type, ...expr, range: expr.range ?? rangeOf(type) }
}
