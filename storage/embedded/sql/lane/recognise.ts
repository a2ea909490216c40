/**
 * Which statements the lane answers, read off the checked tree: a list of what is known to mean the same here as in DuckDB. Whatever else a node has or is
 * leaves the statement to DuckDB, which is also who refuses what is wrong with it.
 */
import { constantInteger, decimalText, type Node } from '../ast.ts'
import { isSchema } from '../catalog.ts'
import { MAX_TIME, MIN_TIME, type SqlMeasurement, type SqlMeasurementColumn } from '../host.ts'
import { foldName, quotedIfNeeded } from '../names.ts'
import { conjuncts, prune } from '../prune.ts'
import { kindOfColumn, newScope, type Source, type SourceColumn } from '../scope.ts'
import { AggregateList, BY_TIME, CALLS, isCall } from './aggregate-list.ts'
import { bucketKey, bucketName } from './bucket-key.ts'
import { ComputedFields } from './computed-fields.ts'
import { comparedOf, conditionsOf } from './conditions.ts'
import { expressionOf } from './expressions.ts'
import { only } from './members.ts'
import { Numbered } from './numbered.ts'
import type {
  ColumnNames,
  ColumnPlan,
  Conditions,
  Expression,
  GroupsPlan,
  KeyPlan,
  LanePlan,
  NumberField,
  NumberType,
  OrderPlan,
  OutputPlan,
  RowsPlan,
  ScanPlan,
  ValueRef,
} from './plan.ts'

/** What the recogniser must know of where the statement runs. */
export interface LaneCatalog {
  /** The measurement of exactly that name. */
  measurement(name: string): SqlMeasurement | undefined
  now(): bigint
}

const SELECT = new Set(
  'type modifiers cte_map select_list from_table where_clause group_expressions group_sets having aggregate_handling query_location'.split(' '),
)
const MAX_LIMIT = 2n ** 52n

/** @param tree with values in the places of its parameters. @returns undefined for a statement of DuckDB's. */
export function recognise(tree: Node, catalog: LaneCatalog): LanePlan | undefined {
  if (tree.type !== 'SELECT_NODE' || !only(tree, SELECT) || tree.cte_map?.map !== undefined) return undefined
  const measurement = measurementOf(tree.from_table, catalog)
  if (measurement === undefined) return undefined
  return new Recogniser(tree, measurement).plan(catalog.now())
}

const TABLE = new Set(['type', 'alias', 'schema_name', 'table_name', 'query_location'])

export function measurementOf(from: Node | undefined, catalog: LaneCatalog): SqlMeasurement | undefined {
  if (from?.type !== 'BASE_TABLE' || !only(from, TABLE)) return undefined
  if (from.schema_name !== undefined && !isSchema(foldName(String(from.schema_name)))) return undefined
  return catalog.measurement(String(from.table_name))
}

/** Of measurements that statements have asked for: both stay as they are. */
const named = new WeakMap<SqlMeasurement, Map<string, SourceColumn>>()

function columnsByName(measurement: SqlMeasurement): Map<string, SourceColumn> {
  let columns = named.get(measurement)
  if (columns !== undefined) return columns
  named.set(measurement, (columns = new Map<string, SourceColumn>()))
  for (const column of measurement.columns) columns.set(foldName(column.name), { name: column.name, public: column.name, kind: kindOfColumn(column), column })
  return columns
}

const STAR = new Set(['class', 'type', 'query_location'])
const REF = new Set(['class', 'type', 'alias', 'column_names', 'query_location'])

export class Recogniser implements ColumnNames {
  protected readonly tree: Node
  protected readonly measurement: SqlMeasurement
  protected readonly source: Source
  protected readonly items: readonly Node[]
  private readonly keys = new Numbered<KeyPlan>()
  private readonly aggregates = new AggregateList(this)
  private readonly computed = new ComputedFields()
  private readonly expressions = new Numbered<Expression>()
  /** Items by their alias. */
  private readonly aliased = new Map<string, Node[]>()
  /** Some item has the name of a column that it is not. */
  private readonly hasShadows: boolean

  constructor(tree: Node, measurement: SqlMeasurement) {
    this.tree = tree
    this.measurement = measurement
    this.items = (tree.select_list ?? []) as Node[]
    const columns = columnsByName(measurement)
    const alias = foldName(String(tree.from_table.alias ?? tree.from_table.table_name))
    this.source = { alias, columns, complete: true, measurement, time: [MIN_TIME, MAX_TIME], tags: [], grouped: new Set() }
    for (const item of this.items) {
      if (item.alias === undefined) continue
      const name = foldName(String(item.alias))
      const same = this.aliased.get(name)
      if (same === undefined) this.aliased.set(name, [item])
      else same.push(item)
    }
    this.hasShadows = this.items.some((item) => item.alias !== undefined && columns.has(foldName(String(item.alias))) && this.column(item)?.name !== item.alias)
  }

  plan(now: bigint): LanePlan | undefined {
    const { tree, measurement, source } = this
    const where = this.conditions(now)
    if (where === undefined) return undefined
    if (this.items.every((item) => this.isOfRows(item)) && tree.group_sets === undefined && tree.having === undefined) return this.rows(where)
    if (!this.groups(now)) return undefined
    const outputs = this.outputs(now)
    const having = outputs === undefined ? undefined : this.having(now)
    const modifiers = having === undefined ? undefined : this.modifiers(now)
    if (outputs === undefined || having === undefined || modifiers === undefined || this.aggregates.plans.every(({ type }) => type === 'time')) return undefined
    const grouped = tree.aggregate_handling === 'FORCE_AGGREGATES' ? this.keys.values.length > 0 : tree.group_sets !== undefined
    const { time, tags } = source
    return {
      kind: 'groups',
      measurement,
      time,
      tags,
      ...where,
      grouped,
      keys: this.keys.values,
      aggregates: this.aggregates.plans,
      conditions: this.aggregates.conditions,
      computed: this.computed.values,
      expressions: this.expressions.values,
      having,
      outputs,
      ...modifiers,
    }
  }

  private isOfRows(item: Node): boolean {
    return item.class === 'COLUMN_REF' || item.class === 'STAR' || this.computedPlan(item) !== undefined
  }

  private rows(where: Conditions): RowsPlan | undefined {
    if (this.tree.aggregate_handling !== 'STANDARD_HANDLING') return undefined
    const outputs: ColumnPlan[] = []
    for (const item of this.items) {
      const computed = this.computedPlan(item)
      if (computed !== undefined) {
        outputs.push(computed)
        continue
      }
      const columns = item.class === 'STAR' ? (only(item, STAR) ? this.measurement.columns : []) : [this.column(item)]
      if (columns.length === 0) return undefined
      for (const column of columns) {
        const plan = column === undefined ? undefined : columnPlan(column, item.alias)
        if (plan === undefined) return undefined
        outputs.push(plan)
      }
    }
    const order: RowsPlan['order'][number][] = []
    const modifiers = this.clauses(({ expression, ...how }) => {
      const number = constantInteger(expression)
      const column = number === undefined ? this.columnOf(this.meant(expression, false)) : outputs[Number(number) - 1]
      return column !== undefined && order.push({ ...how, column }) > 0
    })
    const { time, tags } = this.source
    return modifiers === undefined
      ? undefined
      : { kind: 'rows', measurement: this.measurement, time, tags, ...where, computed: this.computed.values, outputs, order, ...modifiers }
  }

  private columnOf(node: Node | undefined): ColumnPlan | undefined {
    const column = node === undefined ? undefined : this.column(node)
    if (column !== undefined) return columnPlan(column, undefined)
    return node === undefined ? undefined : this.computedPlan(node)
  }

  /** Undefined without an alias: what DuckDB calls it is its text as it is printed. */
  private computedPlan(item: Node): ColumnPlan | undefined {
    const field = item.alias === undefined ? undefined : this.computed.find(item, (each) => this.storedField(each))
    return field === undefined ? undefined : { role: 'field', column: field.name, name: String(item.alias), type: field.type }
  }

  protected conditions(now: bigint): Conditions | undefined {
    const scope = newScope(undefined)
    scope.sources.push(this.source)
    scope.aliases = new Set(this.aliased.keys())
    const all = conjuncts(this.tree.where_clause)
    const settled = prune({ kind: 'source', source: this.source }, all, scope, now)
    return conditionsOf(
      all.filter((condition) => !settled.has(condition)),
      this,
    )
  }

  /** Conditions on numbers of the groups. */
  private having(now: bigint): GroupsPlan['having'] | undefined {
    const compared = conjuncts(this.tree.having).map((condition) => comparedOf(condition, (node) => this.ofGroups(node, now)))
    return compared.includes(undefined) ? undefined : compared.flatMap((each) => each ?? [])
  }

  private ofGroups(node: Node, now: bigint): GroupsPlan['having'][number]['of'] | undefined {
    // A number is no place in the select list here, as it is in GROUP BY.
    if (this.shadows(node) || constantInteger(node) !== undefined) return undefined
    const value = this.value(this.meant(node, true), now)
    if (value === undefined || 'key' in value) return undefined
    return 'aggregate' in value && this.aggregates.plans[value.aggregate].type === 'time' ? undefined : value
  }

  /** Fills in the keys. */
  private groups(now: bigint): boolean {
    const { tree } = this
    if (tree.aggregate_handling === 'FORCE_AGGREGATES') {
      for (const item of this.items) if (!isCall(item, CALLS) && this.keyNumber(item, now, true) === undefined) return false
      return tree.group_expressions === undefined
    }
    if (tree.aggregate_handling !== 'STANDARD_HANDLING') return false
    const expressions = (tree.group_expressions ?? []) as Node[]
    const sets = (tree.group_sets ?? []) as number[][]
    if (expressions.length === 0) return sets.length === 0
    if (sets.length !== 1 || sets[0].length !== expressions.length || sets[0].some((number, i) => number !== i)) return false
    return expressions.every((expression) => this.keyNumber(this.meant(expression, true), now, true) !== undefined)
  }

  /** An item of the select list by its number or alias, or the expression itself. Undefined where that is not certain. */
  protected meant(expression: Node, columnsFirst: boolean): Node | undefined {
    const number = constantInteger(expression)
    if (number !== undefined) return this.items[Number(number) - 1]
    if (expression.class !== 'COLUMN_REF' || expression.column_names?.length !== 1) return expression
    const name = foldName(String(expression.column_names[0]))
    const named = this.aliased.get(name) ?? []
    if (named.length === 0) return expression
    if (named.length > 1) return undefined
    // A column of that name goes first in GROUP BY, the alias in ORDER BY.
    if (!this.source.columns.has(name)) return named[0]
    const column = this.column(named[0])
    return column !== undefined && foldName(column.name) === name ? named[0] : columnsFirst ? expression : undefined
  }

  /** Whether a name within an expression of ORDER BY may be an alias that is called like a column. */
  protected shadows(expression: Node): boolean {
    return expression.class === 'FUNCTION' && this.hasShadows
  }

  private outputs(now: bigint): OutputPlan[] | undefined {
    const outputs: OutputPlan[] = []
    for (const item of this.items) {
      const value = this.value(item, now)
      // What DuckDB calls an expression is its text as it is printed.
      const name = value === undefined || ('expression' in value && item.alias === undefined) ? undefined : this.nameOf(item)
      if (value === undefined || name === undefined) return undefined
      outputs.push({ name, value })
    }
    return outputs
  }

  protected value(node: Node | undefined, now: bigint): ValueRef | undefined {
    if (node === undefined) return undefined
    const key = this.keyNumber(node, now, false)
    if (key !== undefined) return { key }
    const aggregate = this.aggregates.numberOf(node)
    if (aggregate !== undefined) return { aggregate }
    const expression = this.expression(node)
    return expression === undefined ? undefined : { expression }
  }

  private expression(node: Node): number | undefined {
    const expression = expressionOf(node, (each) => {
      const aggregate = this.aggregates.numberOf(each)
      return aggregate === undefined ? undefined : [aggregate, this.aggregates.plans[aggregate]]
    })
    return expression === undefined ? undefined : this.expressions.add(expression)
  }

  /** @param add makes a key of an expression that is none yet. */
  private keyNumber(node: Node | undefined, now: bigint, add: boolean): number | undefined {
    if (node === undefined) return undefined
    const tag = this.tag(node)
    const key: KeyPlan | undefined = tag === undefined ? bucketKey(node, (each) => this.column(each)?.role === 'time', now) : { kind: 'tag', tag }
    if (key === undefined) return undefined
    const found = this.keys.find(key)
    if (found !== undefined || !add) return found
    // Two widths at once would need more than a number for a row's bucket.
    if (key.kind === 'bucket' && this.keys.values.some(({ kind }) => kind === 'bucket')) return undefined
    return this.keys.add(key)
  }

  /** Of the groups. */
  protected modifiers(now: bigint): Pick<GroupsPlan, 'order' | 'limit' | 'offset'> | undefined {
    const order: OrderPlan[] = []
    const clauses = this.clauses(({ expression, ...how }) => {
      const value = this.value(this.meant(expression, false), now)
      return value !== undefined && order.push({ ...how, value }) > 0
    })
    return clauses === undefined ? undefined : { order, ...clauses }
  }

  /** @param term takes one of ORDER BY; false where it is not understood. */
  private clauses(term: (term: { expression: Node; descending: boolean; nullsFirst: boolean }) => boolean): Pick<ScanPlan, 'limit' | 'offset'> | undefined {
    const out = { limit: Number.POSITIVE_INFINITY, offset: 0 }
    for (const modifier of (this.tree.modifiers ?? []) as Node[]) {
      if (modifier.type === 'ORDER_MODIFIER') {
        for (const { type, null_order: nulls, expression } of modifier.orders as Node[]) {
          if (this.shadows(expression) || !term({ expression, descending: type === 'DESCENDING', nullsFirst: nulls === 'NULLS FIRST' })) return undefined
        }
      } else if (modifier.type === 'LIMIT_MODIFIER') {
        const [limit, offset] = [count(modifier.limit, Number.POSITIVE_INFINITY), count(modifier.offset, 0)]
        if (limit === undefined || offset === undefined) return undefined
        out.limit = limit
        out.offset = offset
      } else return undefined
    }
    return out
  }

  /** What DuckDB calls the column. */
  protected nameOf(item: Node): string | undefined {
    if (item.alias !== undefined) return String(item.alias)
    if (item.filter !== undefined) return undefined
    const column = this.column(item)
    if (column !== undefined) return column.name
    if (item.distinct === true) return callName(item, 'DISTINCT ')
    if (item.function_name === 'count_star') return 'count_star()'
    if (item.function_name === 'quantile_cont' || item.function_name === 'approx_quantile') return quantileName(item)
    return isCall(item, CALLS) || isCall(item, BY_TIME) ? callName(item) : bucketName(item)
  }

  tag(node: Node): string | undefined {
    const column = this.column(node)
    return column?.role === 'tag' ? column.name : undefined
  }

  field(node: Node): NumberField | undefined {
    return this.storedField(node) ?? this.computed.find(node, (each) => this.storedField(each))
  }

  difference(left: Node, right: Node): string | undefined {
    return this.computed.difference(left, right, (each) => this.storedField(each))
  }

  private storedField(node: Node): NumberField | undefined {
    const column = this.column(node)
    const type = column?.role === 'field' ? numberType(column) : undefined
    return column === undefined || type === undefined ? undefined : { name: column.name, type }
  }

  /** The column a reference means, in the spelling of its declaration. */
  column(node: Node): SqlMeasurementColumn | undefined {
    if (node.class !== 'COLUMN_REF' || !only(node, REF)) return undefined
    const names = node.column_names as string[]
    if (names.length > 2 || (names.length === 2 && foldName(names[0]) !== this.source.alias)) return undefined
    const name = names[names.length - 1]
    const column = this.source.columns.get(foldName(name))?.column
    return column?.name === name ? column : undefined
  }
}

/** What DuckDB calls a call; undefined where that is not certain. @param before of the first argument. */
export function callName({ function_name: name, children }: Node, before = ''): string | undefined {
  const operands = (children as Node[]).map(operandName)
  return operands.includes(undefined) ? undefined : `${name}(${before}${operands.join(', ')})`
}

/** Of columns, plain numbers, and arithmetic of these. */
function operandName(node: Node): string | undefined {
  if (node.class === 'COLUMN_REF') {
    const column = node.column_names.length === 1 ? String(node.column_names[0]) : undefined
    return column !== undefined && quotedIfNeeded(column) === column ? column : undefined
  }
  if (node.class === 'CONSTANT') return numberName(node)
  if (node.class !== 'FUNCTION' || node.alias !== undefined) return undefined
  if (node.is_operator !== true) return callName(node)
  const operands = (node.children as Node[]).map(operandName)
  return operands.length === 2 && !operands.includes(undefined) ? `(${operands.join(` ${node.function_name} `)})` : undefined
}

/** Without a digit before the point a decimal has another text, and so have numbers below zero. */
function numberName(node: Node): string | undefined {
  const integer = constantInteger(node)
  if (integer !== undefined) return integer >= 0n ? String(integer) : undefined
  const { type } = node.value
  if (type.id !== 'DECIMAL' || !(type.type_info.width > type.type_info.scale)) return undefined
  const text = decimalText(node.value)
  return text.startsWith('-') ? undefined : text
}

function quantileName({ function_name: name, children, order_bys: order }: Node): string | undefined {
  const fraction = (children as Node[])[1]?.value?.type?.id === 'DECIMAL'
  return fraction && order?.orders === undefined ? callName({ function_name: name, children }) : undefined
}

/** Of the types that samples have. */
function columnPlan(column: SqlMeasurementColumn, alias: unknown): ColumnPlan | undefined {
  const plan: ColumnPlan = { role: column.role, column: column.name, name: alias === undefined ? column.name : String(alias) }
  if (column.role !== 'field') return plan
  const type = numberType(column)
  return type === undefined ? undefined : { ...plan, type }
}

function numberType({ type }: SqlMeasurementColumn): NumberType | undefined {
  return type === 'float64' || type === 'int64' || type === 'uint64' ? type : undefined
}

export function count(node: Node | undefined, absent: number): number | undefined {
  if (node === undefined) return absent
  const value = constantInteger(node)
  return value === undefined || value < 0n || value > MAX_LIMIT ? undefined : Number(value)
}
