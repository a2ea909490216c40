/** The aggregates that a statement names, each once, and the conditions that some take their rows by: of FILTER, and of CASE within a call. */
import { constantInteger, constantText, type Node } from '../ast.ts'
import { conjuncts } from '../prune.ts'
import { comparedFields, conditionsOf, exactNumber, joined, MAX_COMPARISONS } from './conditions.ts'
import { CALL, only } from './members.ts'
import { Numbered } from './numbered.ts'
import type { AggregateKind, AggregatePlan, ColumnNames, Conditions } from './plan.ts'

const AGGREGATES: Record<string, AggregateKind> = {
  ...{ count: 'count', sum: 'sum', avg: 'avg', mean: 'avg', min: 'min', max: 'max' },
  ...{ stddev: 'stddev_samp', stddev_samp: 'stddev_samp', stddev_pop: 'stddev_pop', variance: 'var_samp', var_samp: 'var_samp', var_pop: 'var_pop' },
}
/** With the time as their second argument. */
export const BY_TIME: Record<string, AggregateKind> = { arg_max: 'last', max_by: 'last', last: 'last', arg_min: 'first', min_by: 'first', first: 'first' }
/** Quantiles between values, with their fraction as a second argument, or half. */
const QUANTILES: Record<string, AggregateKind> = { quantile_cont: 'quantile', approx_quantile: 'quantile', median: 'quantile' }
export const CALLS = { ...AGGREGATES, ...QUANTILES }
/** Of a statement: each takes its own time once all values are there. */
const MAX_QUANTILES = 16
/** Conditions, and aggregates over rows that satisfy them: each has its rows found in every block. */
const MAX_CONDITIONS = 16
const MAX_CONDITIONED = 32
/** Values of tags that are counted: groups are divided by each. */
const MAX_DISTINCT = 8
const FILTERED = new Set([...CALL, 'filter', 'distinct'])
const CASE = new Set(['class', 'type', 'alias', 'case_checks', 'else_expr', 'query_location'])
const CHECK = new Set(['when_expr', 'then_expr'])

/** Which rows an aggregate takes: all, or those that satisfy conditions, with 0 in the place of all others. */
type Rows = Pick<AggregatePlan, 'where' | 'zeros'>

export class AggregateList {
  private readonly listed = new Numbered<AggregatePlan>()
  private readonly conditioned = new Numbered<Conditions>()
  private readonly columns: ColumnNames
  /** Comparisons of all conditions. */
  private compared = 0

  constructor(columns: ColumnNames) {
    this.columns = columns
  }

  get plans(): readonly AggregatePlan[] {
    return this.listed.values
  }

  get conditions(): readonly Conditions[] {
    return this.conditioned.values
  }

  /** The number of an aggregate; undefined for what is none, or DuckDB's. */
  numberOf(node: Node): number | undefined {
    if (node.class !== 'FUNCTION' || !only(node, FILTERED)) return undefined
    const rows = this.rowsOf(node.filter, {})
    if (rows === undefined) return undefined
    if (node.distinct === true) return this.distinct(node, rows)
    if (Object.hasOwn(QUANTILES, String(node.function_name))) return this.quantile(node, rows)
    if (node.order_bys?.orders !== undefined) return undefined
    const children = (node.children ?? []) as Node[]
    if (node.function_name === 'count_star' && children.length === 0) return this.add({ kind: 'rows', field: undefined, type: undefined, ...rows })
    const kind = isCall(node, AGGREGATES) ? AGGREGATES[node.function_name] : undefined
    if (children.length === 1 && (kind === 'min' || kind === 'max') && this.columns.column(children[0])?.role === 'time')
      return this.add({ kind, field: undefined, type: 'time', ...rows })
    if (children.length === 2 && isCall(node, BY_TIME) && this.columns.column(children[1])?.role === 'time')
      return this.ofField(BY_TIME[node.function_name], children[0], rows)
    if (kind === undefined || children.length !== 1) return undefined
    return children[0].class === 'CASE' ? this.ofCase(kind, children[0], rows) : this.ofField(kind, children[0], rows)
  }

  /** `count(DISTINCT tag)` */
  private distinct({ function_name: name, children, order_bys: order }: Node, rows: Rows): number | undefined {
    const [of, ...more] = (children ?? []) as Node[]
    if (name !== 'count' || of === undefined || more.length > 0 || order?.orders !== undefined) return undefined
    const tag = this.columns.tag(of)
    if (tag === undefined || this.plans.filter(({ kind }) => kind === 'distinct').length === MAX_DISTINCT) return undefined
    return this.add({ kind: 'distinct', field: undefined, type: undefined, tag, ...rows })
  }

  /** `CASE WHEN conditions THEN x END`, or `ELSE 0`. */
  private ofCase(kind: AggregateKind, node: Node, rows: Rows): number | undefined {
    const [check, ...more] = (node.case_checks ?? []) as Node[]
    if (!only(node, CASE) || check === undefined || more.length > 0 || !only(check, CHECK)) return undefined
    const absent = node.else_expr?.value?.is_null === true && node.else_expr.class === 'CONSTANT'
    const zeros = constantInteger(node.else_expr) === 0n
    // Zeros change how many rows there are, which a second condition on them would have to be asked about.
    if (!absent && !(zeros && (kind === 'sum' || kind === 'avg') && rows.where === undefined)) return undefined
    const taken = this.rowsOf(check.when_expr, rows)
    if (taken === undefined) return undefined
    const all = zeros ? { ...taken, zeros } : taken
    const { then_expr: then } = check
    if (then?.class !== 'CONSTANT') return this.ofField(kind, then, all)
    if (kind === 'count') return isValue(then) ? this.add({ kind: 'rows', field: undefined, type: undefined, ...all }) : undefined
    return (kind === 'sum' || kind === 'avg') && isOne(then) ? this.add({ kind, field: undefined, type: 'ones', ...all }) : undefined
  }

  /** Also as `percentile_cont(0.9) WITHIN GROUP (ORDER BY x)`, which the parser makes a call whose order is that of x. */
  private quantile({ function_name: name, children, order_bys: order }: Node, rows: Rows): number | undefined {
    const [first, ...more] = (children ?? []) as Node[]
    const orders = order?.orders as Node[] | undefined
    if (first === undefined) return undefined
    if (name === 'median') return more.length === 0 && orders === undefined ? this.quantileOf(first, 0.5, rows) : undefined
    if (name === 'approx_quantile')
      return orders === undefined && this.columns.field(first)?.type === 'float64' && more.length === 1
        ? this.quantileOf(first, exactNumber(more[0]), rows)
        : undefined
    if (orders === undefined) return more.length === 1 ? this.quantileOf(first, exactNumber(more[0]), rows) : undefined
    const [{ type, null_order: nulls, expression }, ...others] = orders
    const ascends = (type === 'ASCENDING' || type === 'ORDER_DEFAULT') && nulls === 'ORDER_DEFAULT'
    return ascends && more.length === 0 && others.length === 0 ? this.quantileOf(expression, exactNumber(first), rows) : undefined
  }

  private quantileOf(node: Node, fraction: number | undefined, rows: Rows): number | undefined {
    if (fraction === undefined || !(fraction >= 0 && fraction <= 1)) return undefined
    if (this.plans.filter(({ kind }) => kind === 'quantile').length === MAX_QUANTILES) return undefined
    return this.ofField('quantile', node, { ...rows, fraction })
  }

  private ofField(kind: AggregateKind, node: Node | undefined, more: Rows & Pick<AggregatePlan, 'fraction'>): number | undefined {
    const field = node === undefined ? undefined : this.columns.field(node)
    return field === undefined ? undefined : this.add({ kind, field: field.name, type: field.type, ...more })
  }

  private add(plan: AggregatePlan): number | undefined {
    const number = this.listed.find(plan)
    if (number !== undefined) return number
    if (plan.where !== undefined && this.plans.filter(({ where }) => where !== undefined).length === MAX_CONDITIONED) return undefined
    return this.listed.add(plan)
  }

  /** Those of `rows` that satisfy one condition more; undefined where that is not certain. */
  private rowsOf(condition: Node | undefined, rows: Rows): Rows | undefined {
    if (condition === undefined) return rows
    const own = conditionsOf(conjuncts(condition), this.columns)
    if (own === undefined) return undefined
    const all = rows.where === undefined ? own : joined(this.conditions[rows.where], own)
    const where = this.conditioned.find(all)
    if (where !== undefined) return { where }
    this.compared += comparedFields(all).length
    if (this.conditions.length === MAX_CONDITIONS || this.compared > MAX_COMPARISONS) return undefined
    return { where: this.conditioned.add(all) }
  }
}

export function isCall(node: Node, names: Record<string, unknown>): boolean {
  return node.class === 'FUNCTION' && (node.function_name === 'count_star' || Object.hasOwn(names, String(node.function_name)))
}

function isValue(node: Node): boolean {
  return constantInteger(node) !== undefined || constantText(node) !== undefined
}

/** Of a type whose sum is a HUGEINT. */
function isOne(node: Node): boolean {
  return constantInteger(node) === 1n && (node.value.type.id === 'INTEGER' || node.value.type.id === 'BIGINT')
}
