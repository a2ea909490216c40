/** Aggregates, over groups and over frames of windows. Without a value they answer NULL, counts 0. */
import type { PlanNode } from '../../embedded/sql/bind.ts'
import { bounded, decimalToFloat } from './casts.ts'
import { type Expr, type Inputs, printExpr } from './expr.ts'
import { floatLiteral, integerOf, textLiteral } from './literals.ts'
import { clickHouseType, isFloat, isInteger, nameOf, nullable, raise, type SqlType, typeOf } from './types.ts'

interface Aggregation {
  args: readonly Expr[]
  type: SqlType
  node: PlanNode
  inputs: Inputs
  /** A call with the filter, DISTINCT and the frame of this one. @param parameters in parentheses, or nothing. */
  run(name: string, args: readonly string[], parameters?: string): string
}

type Aggregate = (aggregation: Aggregation) => (Partial<Expr> & { text: string }) | string | undefined

/** @param over ` OVER (...)`, or nothing. @param merged what to write for a call whose states are computed before. */
export function printAggregate(node: PlanNode, inputs: Inputs, over = '', merged?: (call: string, parameters: string, args: string) => string): Expr {
  const name = String(node.name)
  const type = typeOf(node.return_type)
  clickHouseType(type)
  const args = ((node.children ?? []) as PlanNode[]).map((child) => printExpr(child, inputs))
  const filter = node.filter ?? node.filters
  const condition = filter === undefined ? undefined : `ifNull(${printExpr(filter, inputs).text}, 0)`
  const distinct = node.aggregate_type === 'DISTINCT' || node.distinct === true
  const ordered = ((node.order_bys?.orders ?? node.arg_orders ?? []) as PlanNode[]).length > 0
  if (ordered && !IN_ORDER.has(name)) raise(`ORDER BY within ${name}()`)
  if (distinct && !['count', 'sum', 'avg', 'min', 'max', 'list', 'array_agg'].includes(name)) raise(`DISTINCT within ${name}()`)
  const run = (called: string, given: readonly string[], parameters = ''): string => {
    const simple = OF_NULLABLE.has(called)
    const combined = `${called}${distinct && !IGNORES_DISTINCT.has(called) ? 'Distinct' : ''}${NEVER_NULL.has(called) || simple ? '' : 'OrNull'}${condition === undefined ? '' : 'If'}`
    const all = [...(simple ? given.map((text) => `toNullable(${text})`) : given), ...(condition === undefined ? [] : [condition])].join(', ')
    return merged === undefined ? `${combined}${parameters}(${all})${over}` : merged(combined, parameters, all)
  }
  const aggregate = Object.hasOwn(AGGREGATES, name) ? AGGREGATES[name] : undefined
  const printed = aggregate?.({ args, type, node, inputs, run })
  if (printed === undefined) return raise(`aggregate "${name}" of (${args.map((arg) => nameOf(arg.type)).join(', ')})`)
  const expr = typeof printed === 'string' ? { text: printed } : printed
  return { type, ...expr }
}

const NEVER_NULL = new Set(['count', 'uniqExact', 'uniq', 'groupArray'])
/** Of what may be missing they are missing where nothing is there, and quicker at that. */
const OF_NULLABLE = new Set(['sum', 'avg', 'min', 'max'])
const IGNORES_DISTINCT = new Set(['uniqExact', 'min', 'max'])
const IN_ORDER = new Set(['string_agg', 'listagg', 'group_concat', 'list', 'array_agg', 'sum', 'avg', 'min', 'max', 'count'])

const wide = ({ text, type }: Expr): string => (isInteger(type) && type.id !== 'HUGEINT' && type.id !== 'UHUGEINT' ? `toInt128(${text})` : `toInt256(${text})`)

const sum: Aggregate = ({ args: [x], type, run }) => {
  if (isFloat(x.type)) return run('sum', [x.text])
  if (x.type.id === 'DECIMAL') return bounded(run('sum', [`toInt256(${x.text})`]), type, false, undefined)
  if (x.type.id === 'BOOLEAN') return `toInt128(${run('sum', [x.text])})`
  return isInteger(x.type) ? `toInt128(${run('sum', [wide(x)])})` : undefined
}

const avg: Aggregate = ({ args: [x], run }) => {
  if (x.type.id === 'DOUBLE') return run('avg', [x.text])
  const count = `toFloat64(${run('count', [x.text])})`
  if (isInteger(x.type)) return `(toFloat64(${run('sum', [wide(x)])}) / ${count})`
  return x.type.id === 'DECIMAL' ? `(${decimalToFloat(run('sum', [`toInt256(${x.text})`]), x.type.scale)} / ${count})` : undefined
}

const least: Record<string, number> = { SampStable: 2, PopStable: 1 }

/** ClickHouse answers NaN, or infinity, for what is undefined. */
const spread =
  (name: 'stddev' | 'var', kind: 'SampStable' | 'PopStable'): Aggregate =>
  ({ args: [x], run }) =>
    x.type.id === 'DOUBLE' ? `if(${run('count', [x.text])} < ${least[kind]}, NULL, ${run(`${name}${kind}`, [x.text])})` : undefined

const pair =
  (name: string, rows: number): Aggregate =>
  ({ args: [x, y], run }) => {
    if (x.type.id !== 'DOUBLE' || y.type.id !== 'DOUBLE') return undefined
    const both = `if(isNull(${x.text}) OR isNull(${y.text}), NULL, 1)`
    return `if(${run('count', [both])} < ${rows}, NULL, ${run(name, [x.text, y.text])})`
  }

/** Of what does not vary there is none: NaN. */
const corr: Aggregate = ({ args: [x, y], run }) => {
  if (x.type.id !== 'DOUBLE' || y.type.id !== 'DOUBLE') return undefined
  const [a, b] = [`if(isNull(${y.text}), NULL, ${x.text})`, `if(isNull(${x.text}), NULL, ${y.text})`]
  const constant = `(${run('varPopStable', [a])} = 0 OR ${run('varPopStable', [b])} = 0)`
  return `if(${run('count', [a])} = 0, NULL, if(ifNull(${constant}, 1), nan, ${run('corrStable', [a, b])}))`
}

const extreme =
  (name: 'min' | 'max'): Aggregate =>
  ({ args: [x, ...more], run }) =>
    more.length === 0 ? { text: run(name, [x.text]), range: x.range, numbers: x.numbers === true } : undefined

const atExtreme =
  (name: 'argMin' | 'argMax'): Aggregate =>
  ({ args, run }) =>
    args.length === 2 ? { text: run(name, [args[0].text, args[1].text]), range: args[0].range, numbers: args[0].numbers === true } : undefined

function quantileOf(node: PlanNode): number {
  const quantiles = (node.function_data?.quantiles ?? []) as PlanNode[]
  if (quantiles.length !== 1 || node.function_data.desc === true) raise('quantiles of several, or from the other end')
  const [{ type, value }] = quantiles
  const { id, scale } = typeOf(type)
  return id === 'DECIMAL' ? Number(integerOf(value)) / 10 ** scale : Number(value ?? 0)
}

const interpolated: Aggregate = ({ args: [x], node, run }) =>
  x.type.id === 'DOUBLE' ? run('quantileExactInclusive', [x.text], `(${floatText(quantileOf(node))})`) : undefined

/** The value at its place in the order. */
const discrete: Aggregate = ({ args: [x], node, run }) => {
  const place = `greatest(1, toUInt64(ceil(toFloat64(${run('count', [x.text])}) * ${floatLiteral(quantileOf(node), 'Float64')})))`
  return { text: `arrayElementOrNull(arraySort(${run('groupArray', [x.text])}), ${place})`, numbers: x.numbers === true, range: x.range }
}

const floatText = (value: number): string => (/e/.test(String(value)) ? value.toFixed(20) : String(value))

/** Values in an order of the statement's, as an array; NULL among them stays. */
function inOrder({ args: [x], node, inputs, run }: Aggregation, nulls: boolean): string {
  const orders = (node.order_bys?.orders ?? node.arg_orders ?? []) as PlanNode[]
  if (orders.length === 0) return nulls ? `arrayMap(t -> t.1, ${run('groupArray', [`tuple(${x.text})`])})` : run('groupArray', [x.text])
  if (orders.length > 1) raise('ORDER BY of several within an aggregate')
  const [{ type: direction, null_order, expression }] = orders
  const key = printExpr(expression, inputs)
  if (isFloat(key.type) && key.numbers !== true) raise('ORDER BY a number that may be NaN within an aggregate')
  const rows = run('groupArray', [`tuple(${x.text}, ${key.text})`])
  const first = null_order === 'NULLS FIRST'
  const sort = direction === 'DESCENDING' ? 'arrayReverseSort' : 'arraySort'
  // Of an ascending sort those that are smaller come first.
  const missing = (direction === 'DESCENDING') === first ? 'isNull(t.2)' : 'isNotNull(t.2)'
  const sorted = `${sort}(t -> tuple(${missing}, t.2), ${rows})`
  const kept = nulls ? sorted : `arrayFilter(t -> isNotNull(t.1), ${sorted})`
  return `arrayMap(t -> t.1, ${kept})`
}

const joined: Aggregate = (aggregation) => {
  const { args, node } = aggregation
  if (args[0].type.id !== 'VARCHAR') return undefined
  const separator = node.function_data?.separator
  if (typeof separator !== 'string') raise('string_agg() with a separator that is no constant')
  const list = inOrder(aggregation, false)
  return `if(empty(${list}), NULL, arrayStringConcat(arrayMap(t -> assumeNotNull(t), ${list}), ${textLiteral(separator)}))`
}

const listed: Aggregate = (aggregation) => ({ text: `CAST(${inOrder(aggregation, true)} AS ${nullable(aggregation.type)})` })

const counted: Aggregate = ({ args: [x], node, run }) => {
  const distinct = node.aggregate_type === 'DISTINCT' || node.distinct === true
  return `toInt64(${distinct ? run('uniqExact', [x.text]) : run('count', x === undefined ? [] : [x.text])})`
}

/** NULL may be first as well. */
const anyRow: Aggregate = ({ args: [x], run }) => {
  const value = run('any', [`tuple(${x.text})`]).replace('anyOrNull', 'any')
  return { text: `tupleElement(${value}, 1)`, range: x.range, numbers: x.numbers === true }
}

const AGGREGATES: Record<string, Aggregate> = {
  sum,
  avg,
  mean: avg,
  min: extreme('min'),
  max: extreme('max'),
  count: counted,
  count_star: ({ run }) => `toInt64(${run('count', [])})`,
  count_if: ({ args: [x], run }) => `toInt64(${run('count', [`if(ifNull(${x.text}, 0), 1, NULL)`])})`,
  countif: ({ args: [x], run }) => `toInt64(${run('count', [`if(ifNull(${x.text}, 0), 1, NULL)`])})`,
  approx_count_distinct: ({ args: [x], run }) => `toInt64(${run('uniq', [x.text])})`,
  any_value: ({ args: [x], run }) => run('any', [x.text]),
  arbitrary: anyRow,
  first: anyRow,
  last: anyRow,
  arg_max: atExtreme('argMax'),
  argmax: atExtreme('argMax'),
  max_by: atExtreme('argMax'),
  arg_min: atExtreme('argMin'),
  argmin: atExtreme('argMin'),
  min_by: atExtreme('argMin'),
  stddev: spread('stddev', 'SampStable'),
  stddev_samp: spread('stddev', 'SampStable'),
  stddev_pop: spread('stddev', 'PopStable'),
  variance: spread('var', 'SampStable'),
  var_samp: spread('var', 'SampStable'),
  var_pop: spread('var', 'PopStable'),
  corr,
  covar_samp: pair('covarSampStable', 2),
  covar_pop: pair('covarPopStable', 1),
  median: interpolated,
  quantile_cont: interpolated,
  quantile_disc: discrete,
  approx_quantile: ({ args: [x], node, run }) => {
    const quantiles = (node.function_data?.quantiles ?? []) as unknown[]
    return x.type.id === 'DOUBLE' && quantiles.length === 1 ? run('quantileTDigest', [x.text], `(${floatText(Number(quantiles[0]))})`) : undefined
  },
  bool_and: ({ args: [x], run }) => run('min', [x.text]),
  bool_or: ({ args: [x], run }) => run('max', [x.text]),
  bit_and: ({ args: [x], run }) => run('groupBitAnd', [x.text]),
  bit_or: ({ args: [x], run }) => run('groupBitOr', [x.text]),
  string_agg: joined,
  listagg: joined,
  group_concat: joined,
  list: listed,
  array_agg: listed,
}

export const AGGREGATE_NAMES: readonly string[] = Object.keys(AGGREGATES)
