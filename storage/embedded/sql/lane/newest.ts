/**
 * Statements that ask for the newest row of each group of series, read off the checked tree: aggregates by the time over GROUP BY of tags, DISTINCT ON tags
 * in the order of the time, and a row number of 1 by tags; or only for the values of tags that rows have: DISTINCT, GROUP BY of tags alone, and counts of
 * these. What is not known to mean that is left to recognise.ts and to DuckDB.
 */
import { constantInteger, type Node } from '../ast.ts'
import type { SqlMeasurementColumn, TagHint } from '../host.ts'
import { LATEST_TIME } from '../tokens.ts'
import { CALL, only } from './members.ts'
import { callName, count, type LaneCatalog, measurementOf, Recogniser } from './recognise.ts'

export type NewestValue =
  /** Of the group, or of the series whose row it is. */
  | { kind: 'tag'; name: string }
  | { kind: 'time' }
  /** The newest value that the group has of a field. */
  | { kind: 'newest'; name: string }
  /** The field's value of the newest row, if it has one. */
  | { kind: 'of-row'; name: string }
  | NewestCount

/** How many values the tag has, of a plan without groups. */
export interface NewestCount {
  kind: 'count'
  name: string
}

export interface NewestPlan {
  measurement: string
  /** Nanoseconds, inclusive. */
  time: [low: bigint, high: bigint]
  tags: readonly TagHint[]
  /** SQL names of the tags that make the groups; none = one row of counts. */
  by: readonly string[]
  /** Type of each field by its name in SQL. */
  fields: ReadonlyMap<string, string>
  outputs: readonly { name: string; value: NewestValue; type: string }[]
  order: readonly { value: NewestValue; descending: boolean; nullsFirst: boolean }[]
  offset: number
  limit: number
}

const SELECT = new Set(
  'type modifiers cte_map select_list from_table where_clause group_expressions group_sets aggregate_handling qualify query_location'.split(' '),
)
const AT_NEWEST = new Set(['arg_max', 'max_by', 'last'])
const WINDOW = new Set('class type query_location function_name partitions orders start end'.split(' '))
/** Of ORDER BY: groups are compared by them in one turn of the thread. */
const MAX_TERMS = 8
const STAR = new Set('class type query_location exclude_list'.split(' '))
const COUNTED = new Set([...CALL, 'distinct'])
const TYPES: Record<string, string> = { float64: 'Float64', int64: 'Int64', uint64: 'UInt64', bool: 'Boolean' }

/**
 * @param tree with values in the places of its parameters.
 * @param named false: what DuckDB calls the columns is not asked, and may be wrong in the plan.
 */
export function recogniseNewest(tree: Node, catalog: LaneCatalog, named = true): NewestPlan | undefined {
  if (tree.type !== 'SELECT_NODE' || !only(tree, SELECT) || tree.cte_map?.map !== undefined) return undefined
  const measurement = measurementOf(tree.from_table, catalog)
  return measurement === undefined ? undefined : new NewestRecogniser(tree, measurement).newest(catalog.now(), named)
}

class NewestRecogniser extends Recogniser {
  newest(now: bigint, named: boolean): NewestPlan | undefined {
    return this.counts(now, named) ?? this.rowsOrGroups(now, named)
  }

  /** count(DISTINCT tag), and nothing else. */
  private counts(now: bigint, named: boolean): NewestPlan | undefined {
    const { aggregate_handling: handling, group_sets: sets, modifiers, qualify } = this.tree
    if (this.items.length === 0 || handling !== 'STANDARD_HANDLING' || (sets ?? modifiers ?? qualify) !== undefined) return undefined
    const outputs: NewestPlan['outputs'][number][] = []
    for (const item of this.items) {
      if (item.class !== 'FUNCTION' || item.function_name !== 'count' || item.distinct !== true || item.children?.length !== 1) return undefined
      const tag = only(item, COUNTED) && item.order_bys?.orders === undefined ? this.tag(item.children[0]) : undefined
      const name = tag === undefined ? undefined : ((item.alias === undefined ? callName(item, 'DISTINCT ') : String(item.alias)) ?? (named ? undefined : ''))
      if (tag === undefined || name === undefined) return undefined
      outputs.push({ name, value: { kind: 'count', name: tag }, type: 'Int64' })
    }
    return this.planOf(now, { by: [], outputs, order: [], offset: 0, limit: 1 })
  }

  private rowsOrGroups(now: bigint, named: boolean): NewestPlan | undefined {
    const distinct = this.distinctValues()
    const aggregated = distinct !== undefined || this.tree.group_sets !== undefined
    const by = distinct ?? (aggregated ? this.groupTags() : (this.distinctTags() ?? this.numberedTags()))
    if (by === undefined || by.length === 0) return undefined
    const outputs = this.results(aggregated, by, named)
    const rest = outputs === undefined ? undefined : this.ends(aggregated, by)
    if (outputs === undefined || rest === undefined || (distinct !== undefined && rest.order.some(({ value }) => value.kind !== 'tag'))) return undefined
    return this.planOf(now, { by, outputs, ...rest })
  }

  private planOf(now: bigint, rest: Pick<NewestPlan, 'by' | 'outputs' | 'order' | 'offset' | 'limit'>): NewestPlan | undefined {
    const where = this.conditions(now)
    if (where === undefined || where.filters.length > 0 || where.tagFilters.length > 0 || where.anyOf.length > 0) return undefined
    const { time, tags } = this.source
    const fields = new Map<string, string>()
    for (const { value } of [...rest.outputs, ...rest.order]) if (value.kind === 'newest' || value.kind === 'of-row') fields.set(value.name, this.typeOf(value))
    return { measurement: this.measurement.name, time, tags, fields, ...rest }
  }

  /** DISTINCT, of tags alone. */
  private distinctValues(): string[] | undefined {
    const distinct = this.modifier('DISTINCT_MODIFIER')
    const { group_sets: sets, qualify, aggregate_handling: handling } = this.tree
    if (distinct === undefined || distinct.distinct_on_targets !== undefined || (sets ?? qualify) !== undefined || handling !== 'STANDARD_HANDLING')
      return undefined
    return this.tagsOf(this.items)
  }

  private groupTags(): string[] | undefined {
    const { tree } = this
    const expressions = (tree.group_expressions ?? []) as Node[]
    const [set, ...more] = tree.group_sets as number[][]
    if (tree.aggregate_handling !== 'STANDARD_HANDLING' || tree.qualify !== undefined || this.modifier('DISTINCT_MODIFIER') !== undefined) return undefined
    if (more.length > 0 || set.length !== expressions.length || set.some((number, i) => number !== i)) return undefined
    return this.tagsOf(expressions.map((expression) => this.meant(expression, true)))
  }

  /** DISTINCT ON tags; the order says which row is the first. */
  private distinctTags(): string[] | undefined {
    const targets = this.modifier('DISTINCT_MODIFIER')?.distinct_on_targets as Node[] | undefined
    if (targets === undefined || this.tree.qualify !== undefined || this.tree.aggregate_handling !== 'STANDARD_HANDLING') return undefined
    // As in ORDER BY an alias goes before a column; a number is left to DuckDB.
    const by = this.tagsOf(targets.map((target) => (target.class === 'COLUMN_REF' ? this.meant(target, false) : undefined)))
    let newestFirst = false
    for (const { type, expression } of (this.modifier('ORDER_MODIFIER')?.orders ?? []) as Node[]) {
      const column = this.column(this.meant(expression, false) ?? expression)
      if (column?.role === 'time' && (newestFirst || type === 'DESCENDING')) newestFirst = true
      // Behind the time, too: any other column says which row comes first of those of one time.
      else if (column?.role !== 'tag' || by?.includes(column.name) !== true) return undefined
    }
    return newestFirst ? by : undefined
  }

  /** QUALIFY row_number() OVER (PARTITION BY tags ORDER BY _time DESC) = 1 */
  private numberedTags(): string[] | undefined {
    const { qualify, aggregate_handling: handling } = this.tree
    if (qualify?.type !== 'COMPARE_EQUAL' || handling !== 'STANDARD_HANDLING' || this.modifier('DISTINCT_MODIFIER') !== undefined) return undefined
    const { left, right } = qualify
    if (left?.type !== 'WINDOW_ROW_NUMBER' || !only(left, WINDOW) || constantInteger(right) !== 1n) return undefined
    if (left.start !== 'UNBOUNDED_PRECEDING' || left.end !== 'CURRENT_ROW_RANGE' || left.orders?.length !== 1) return undefined
    const [{ type, expression }] = left.orders as Node[]
    const by = expression.function_name === LATEST_TIME ? expression.children[0] : expression
    return type === 'DESCENDING' && this.column(by)?.role === 'time' ? this.tagsOf((left.partitions ?? []) as Node[]) : undefined
  }

  private tagsOf(nodes: readonly (Node | undefined)[]): string[] | undefined {
    const tags = nodes.map((node) => (node === undefined ? undefined : this.tag(node)))
    return tags.includes(undefined) ? undefined : [...new Set(tags as string[])]
  }

  private results(aggregated: boolean, by: readonly string[], named: boolean): NewestPlan['outputs'] | undefined {
    const outputs: NewestPlan['outputs'][number][] = []
    const [first] = this.items
    if (first?.class === 'STAR') {
      if (aggregated || this.items.length > 1 || !only(first, STAR)) return undefined
      for (const column of this.measurement.columns) {
        const value = rowValue(column)
        if (value === undefined) return undefined
        outputs.push({ name: column.name, value, type: this.typeOf(value) })
      }
      return outputs
    }
    for (const item of this.items) {
      const value = this.result(item, aggregated, by)
      const name = value === undefined ? undefined : (this.columnName(item) ?? (named ? undefined : ''))
      if (value === undefined || name === undefined) return undefined
      outputs.push({ name, value, type: this.typeOf(value) })
    }
    return outputs
  }

  private result(node: Node, aggregated: boolean, by: readonly string[]): NewestValue | undefined {
    const column = this.column(node)
    if (column !== undefined && (!aggregated || column.role === 'tag')) return aggregated && !by.includes(column.name) ? undefined : rowValue(column)
    if (!aggregated || node.class !== 'FUNCTION' || !only(node, CALL) || node.order_bys?.orders !== undefined) return undefined
    const [of, at, ...more] = ((node.children ?? []) as Node[]).map((child) => this.column(child))
    if (node.function_name === 'max' && node.children?.length === 1) return of?.role === 'time' ? { kind: 'time' } : undefined
    if (!AT_NEWEST.has(String(node.function_name)) || more.length > 0 || at?.role !== 'time') return undefined
    return of?.role === 'field' && rowValue(of) !== undefined ? { kind: 'newest', name: of.name } : undefined
  }

  /** ORDER BY, LIMIT and OFFSET. */
  private ends(aggregated: boolean, by: readonly string[]): Pick<NewestPlan, 'order' | 'offset' | 'limit'> | undefined {
    const order: NewestPlan['order'][number][] = []
    for (const { type, null_order: nulls, expression } of (this.modifier('ORDER_MODIFIER')?.orders ?? []) as Node[]) {
      const meant = this.shadows(expression) ? undefined : this.meant(expression, false)
      const value = meant === undefined ? undefined : this.result(meant, aggregated, by)
      if (value === undefined) return undefined
      // A value that has come before decides nothing more.
      if (order.some((term) => isSame(term.value, value))) continue
      if (order.length === MAX_TERMS) return undefined
      order.push({ value, descending: type === 'DESCENDING', nullsFirst: nulls === 'NULLS FIRST' })
    }
    const bounds = this.modifier('LIMIT_MODIFIER')
    const [limit, offset] = [count(bounds?.limit, Number.POSITIVE_INFINITY), count(bounds?.offset, 0)]
    const known = ((this.tree.modifiers ?? []) as Node[]).every(({ type }) => MODIFIERS.has(type))
    return known && limit !== undefined && offset !== undefined ? { order, limit, offset } : undefined
  }

  private modifier(type: string): Node | undefined {
    return ((this.tree.modifiers ?? []) as Node[]).find((modifier) => modifier.type === type)
  }

  private typeOf(value: NewestValue): string {
    if (value.kind === 'tag') return 'Utf8'
    if (value.kind === 'time') return 'Timestamp(ns)'
    return TYPES[String(this.measurement.columns.find(({ name }) => name === value.name)?.type)]
  }

  /** What DuckDB calls the column. */
  private columnName(item: Node): string | undefined {
    if (item.alias !== undefined) return String(item.alias)
    return this.column(item)?.name ?? callName(item)
  }
}

const isSame = (a: NewestValue, b: NewestValue): boolean => a.kind === b.kind && nameOf(a) === nameOf(b)
const nameOf = (value: NewestValue): string | undefined => (value.kind === 'time' ? undefined : value.name)

const MODIFIERS = new Set(['DISTINCT_MODIFIER', 'ORDER_MODIFIER', 'LIMIT_MODIFIER'])

/** A column of the newest row; undefined for a type that is not kept. */
function rowValue({ role, name, type }: SqlMeasurementColumn): NewestValue | undefined {
  if (role === 'time') return { kind: 'time' }
  if (role === 'tag') return { kind: 'tag', name }
  return TYPES[String(type)] === undefined ? undefined : { kind: 'of-row', name }
}
