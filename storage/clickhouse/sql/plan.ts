/**
 * A bound plan as one statement of ClickHouse. Every operator becomes a SELECT over those of its children; columns and relations have generated names, each once
 * in a statement, and the only tables are those that `scan` prints. What the plan has beyond that is refused.
 */
import type { PlanNode } from '../../embedded/sql/bind.ts'
import { printAggregate } from './aggregates.ts'
import { comparison, type Deferred, type Expr, type Inputs, printExpr, TagWanted } from './expr.ts'
import { integerOf } from './literals.ts'
import { BOOLEAN, clickHouseType, isFloat, nullable, plain, type Range, raise, type SqlType, typeOf } from './types.ts'
import { printWindow } from './windows.ts'

export interface ScanColumn {
  place: number
  name: string
}

export interface ScanPrinter {
  /** @returns a SELECT of columns with those names, by their places among the scan's columns. @param series name for a column of the series' ids. */
  print(table: string, columns: readonly ScanColumn[], series?: string): string
  /** Which of a scan's columns are tags. */
  tags(table: string): ReadonlySet<number>
  /** @returns a SELECT of the series that a scan reads: their ids, called `id`, and tags. */
  series(table: string, columns: readonly ScanColumn[], id: string): string
  /** First and last time that a scan can have. */
  times(table: string): Range
}

/** A column of the answer: of one column of ClickHouse's, or of those that a module takes. */
export interface Answered {
  type: SqlType
  deferred?: Deferred
  /** Columns of ClickHouse's, from this one on. */
  from: number
}

interface PrintedPlan {
  sql: string
  columns: readonly Answered[]
}

/** A SELECT in its parts. */
interface Relation {
  /** The columns' texts are expressions over this. */
  from: string
  columns: readonly Expr[]
  order?: string
  limit?: string
  /** Before it, where rows are taken once for each of some values. */
  once?: string
}

export function printPlan(plan: PlanNode, scans: ScanPrinter, inputs: Omit<Inputs, 'columns'>): PrintedPlan {
  const printer = new PlanPrinter(scans, inputs)
  const relation = printer.relation(plan)
  const texts: string[] = []
  const columns = relation.columns.map((column): Answered => {
    const from = texts.length
    if (column.series === true) raise('lists of all values of a partition')
    texts.push(...partsOf(column))
    return { type: column.type, from, ...(column.deferred === undefined ? {} : { deferred: column.deferred }) }
  })
  const { sql } = printer.select({ ...relation, columns: texts.map((text) => ({ text, type: BOOLEAN })) })
  return { sql: `${printer.with}${sql}`, columns }
}

function partsOf({ text, type, deferred }: Expr): string[] {
  if (deferred === undefined) return [`CAST(${text} AS ${nullable(type)})`]
  const { takes, types } = deferred
  if (takes !== 'series')
    return types.map((one, i) => `CAST(tupleElement(${text}, ${i + 1}) AS ${takes === 'lists' ? `Array(${nullable(one)})` : nullable(one)})`)
  const values = types.map((one, i) => `CAST(tupleElement(tupleElement(${text}, ${i + 1}), 1) AS ${nullable(one)})`)
  return [...values, `tupleElement(tupleElement(${text}, 1), 2)`, `toInt64(tupleElement(${text}, ${types.length + 1}))`]
}

/** What takes a partition as a whole must find all of its rows in the answer. */
function complete(relation: Relation, what: string): Relation {
  const cut = relation.columns.find(({ series, deferred }) => series === true || deferred?.takes === 'series')
  if (cut !== undefined) raise(`${what} over a function of whole partitions${cut.deferred === undefined ? '' : ` ("${cut.deferred.spec.name}")`}`)
  return relation
}

function computed(relation: Relation, what: string): Relation {
  const found = complete(relation, what).columns.find(({ deferred }) => deferred !== undefined)
  if (found?.deferred !== undefined) raise(`${what} over function "${found.deferred.spec.name}"`)
  return relation
}

class PlanPrinter {
  private readonly scans: ScanPrinter
  private readonly around: Omit<Inputs, 'columns'>
  private readonly ctes = new Map<string, { name: string; columns: readonly Expr[] }>()
  private readonly definitions: string[] = []
  private made = 0
  /** Rows are printed with their series in place of its tags, as the last column. */
  private split = false

  constructor(scans: ScanPrinter, around: Omit<Inputs, 'columns'>) {
    this.scans = scans
    this.around = around
  }

  get with(): string {
    return this.definitions.length === 0 ? '' : `WITH ${this.definitions.join(', ')} `
  }

  relation(node: PlanNode): Relation {
    const children = (node.children ?? []) as PlanNode[]
    switch (node.type) {
      case 'LOGICAL_GET':
        return this.get(node)
      case 'LOGICAL_DUMMY_SCAN':
        return { from: '(SELECT 1 AS one)', columns: [] }
      case 'LOGICAL_EMPTY_RESULT':
        return raise('plans that are known to be empty')
      case 'LOGICAL_EXPRESSION_GET':
        return this.values(node)
      case 'LOGICAL_PROJECTION': {
        const input = this.relation(children[0])
        // What orders stays where it is ordered.
        const over = input.order === undefined && input.limit === undefined ? this.over(children[0], input) : input
        const columns = ((node.expressions ?? []) as PlanNode[]).map((each) => printExpr(each, this.inputs(over.columns), true))
        return { ...over, columns: this.withSeries(columns, over) }
      }
      case 'LOGICAL_FILTER':
        return this.filter(node, complete(this.nested(this.relation(children[0])), 'a condition'))
      case 'LOGICAL_AGGREGATE_AND_GROUP_BY':
        return this.early(node, children[0]) ?? this.aggregate(node, this.nested(this.relation(children[0])))
      case 'LOGICAL_WINDOW': {
        const input = this.nested(this.relation(children[0]))
        const windows = (node.expressions as PlanNode[]).map((each) =>
          printWindow(each, this.inputs(input.columns), (orders, inputs) => this.orderBy(orders, inputs)),
        )
        return { from: input.from, columns: [...input.columns, ...windows] }
      }
      case 'LOGICAL_ORDER_BY': {
        if (node.projection_map !== undefined && (node.projection_map as unknown[]).length > 0) raise('sorted rows of which columns are left out')
        const input = this.nested(this.relation(children[0]))
        return { ...input, order: this.orderBy(node.orders, this.inputs(input.columns)) }
      }
      case 'LOGICAL_LIMIT':
        return this.limit(node, children[0])
      case 'LOGICAL_DISTINCT':
        return this.distinct(node, computed(this.nested(this.relation(children[0])), 'DISTINCT'))
      case 'LOGICAL_UNION':
        return this.union(node, children, 'UNION ALL')
      case 'LOGICAL_INTERSECT':
      case 'LOGICAL_EXCEPT':
        if (node.setop_all === true) raise('INTERSECT ALL and EXCEPT ALL')
        return this.union(node, children, node.type === 'LOGICAL_EXCEPT' ? 'EXCEPT DISTINCT' : 'INTERSECT DISTINCT')
      case 'LOGICAL_CROSS_PRODUCT': {
        const [left, right] = this.sides(children)
        return { from: `${left.from} CROSS JOIN ${right.from}`, columns: [...left.columns, ...right.columns] }
      }
      case 'LOGICAL_COMPARISON_JOIN':
        return this.join(node, children)
      case 'LOGICAL_ANY_JOIN':
        return this.anyJoin(node, children)
      case 'LOGICAL_MATERIALIZED_CTE':
        return this.cte(node, children)
      case 'LOGICAL_CTE_REF': {
        const cte = this.ctes.get(String(node.cte_index ?? 0))
        if (cte === undefined) return raise('recursive common table expressions')
        const alias = this.name('r')
        return { from: `${cte.name} AS ${alias}`, columns: cte.columns.map((column) => ({ ...column, text: `${alias}.${column.text}` })) }
      }
      case 'LOGICAL_DELIM_JOIN':
      case 'LOGICAL_DELIM_GET':
      case 'LOGICAL_DEPENDENT_JOIN':
        return raise('subqueries that refer to the query around them; write a join')
      default:
        return raise(`"${String(node.type).replace('LOGICAL_', '').toLowerCase().replaceAll('_', ' ')}" in its plans`)
    }
  }

  select({ from, columns, order, limit, once }: Relation): { sql: string; columns: readonly Expr[] } {
    const named = columns.map((column) => ({ ...column, text: this.name('c') }))
    const list = columns.map(({ text }, i) => `${text} AS ${named[i].text}`).join(', ')
    const clauses = [order, once, limit].filter((clause) => clause !== undefined && clause !== '').map((clause) => ` ${clause}`)
    return { sql: `SELECT ${list || '1'} FROM ${from}${clauses.join('')}`, columns: named }
  }

  private name(stem: string): string {
    return `${stem}${++this.made}`
  }

  private inputs(columns: readonly Expr[]): Inputs {
    return { ...this.around, columns }
  }

  private exprs(nodes: readonly PlanNode[] | undefined, columns: readonly Expr[]): Expr[] {
    return (nodes ?? []).map((node) => printExpr(node, this.inputs(columns)))
  }

  /** A relation whose columns are names. */
  private nested(relation: Relation): Relation {
    const { sql, columns } = this.select(relation)
    return { from: `(${sql}) AS ${this.name('r')}`, columns }
  }

  /** What reads a table, or is of one name a column, need not be nested once more. */
  private over(node: PlanNode, relation: Relation): Relation {
    return node.type === 'LOGICAL_GET' || node.type === 'LOGICAL_DUMMY_SCAN' || relation.columns.every(({ text }) => /^[a-z]\d+$/.test(text))
      ? relation
      : this.nested(relation)
  }

  private get(node: PlanNode): Relation {
    if (node.name !== 'seq_scan' || node.function_data?.catalog !== 'temp' || node.function_data.schema !== 'main') raise('tables but those of measurements')
    if (Object.keys(node.table_filters ?? {}).length > 0 && Object.keys(node.table_filters.filters ?? {}).length > 0) raise('filters within a scan')
    const table = String(node.function_data.table)
    const places = (node.column_indexes as PlanNode[]).map(({ index = 0 }) => Number(index))
    const columns = places.map((place) => ({ place, name: this.name('c') }))
    const times = this.scans.times(table)
    const types = (node.returned_types as object[]).map((type) => typeOf(type))
    const found = columns.map(
      ({ place, name }): Expr => ({ text: name, type: types[place], numbers: true, ...(types[place].id === 'TIMESTAMP_NS' ? { range: times } : {}) }),
    )
    if (!this.split) return { from: `(${this.scans.print(table, columns)}) AS ${this.name('r')}`, columns: found }
    const tags = this.scans.tags(table)
    const series = this.name('c')
    const rows = this.scans.print(
      table,
      columns.filter(({ place }) => !tags.has(place)),
      series,
    )
    const split = found.map((column, i) => (tags.has(columns[i].place) ? { ...column, text: 'NULL', tag: String(columns[i].place) } : column))
    return { from: `(${rows}) AS ${this.name('r')}`, columns: [...split, { text: series, type: plain('UHUGEINT') }] }
  }

  private withSeries(columns: Expr[], { columns: before }: Relation): Expr[] {
    return this.split ? [...columns, before[before.length - 1]] : columns
  }

  /**
   * Grouped by series before rows have their tags: ids are quicker to group by than texts, and only groups meet the tags. Undefined where that cannot be, or
   * would gain nothing.
   */
  private early(node: PlanNode, child: PlanNode): Relation | undefined {
    const table = scanBelow(child)
    const expressions = (node.expressions ?? []) as PlanNode[]
    const groups = (node.groups ?? []) as PlanNode[]
    const sets = (node.grouping_sets ?? []) as unknown[][]
    if (this.split || table === undefined || groups.length === 0 || sets.length > 1 || (sets.length === 1 && sets[0].length < groups.length)) return undefined
    if (((node.grouping_functions ?? []) as unknown[]).length > 0 || !expressions.every(({ name }) => EARLY.has(String(name)))) return undefined
    // As many groups as rows.
    if (groups.some(({ expression_class, return_type }) => expression_class === 'BOUND_REF' && return_type?.id === 'TIMESTAMP_NS')) return undefined
    this.split = true
    try {
      const input = this.nested(this.relation(child))
      const keys = groups.map((each) => printExpr(each, this.inputs(input.columns), true))
      if (keys.some(({ deferred, series }) => deferred !== undefined || series === true) || !keys.some(({ tag }) => tag !== undefined)) return undefined
      const states: string[] = []
      const aggregates = expressions.map((each) =>
        printAggregate(each, this.inputs(input.columns), '', (call, parameters, args) => {
          const name = this.name('c')
          states.push(`${call}State${parameters}(${args}) AS ${name}`)
          return `${call}Merge${parameters}(${name})`
        }),
      )
      const [id, other, rows, tags] = [this.name('c'), this.name('c'), this.name('r'), this.name('r')]
      const inner = keys.map((key) => ({ ...asKey(key), text: asKey(key).text, name: this.name('k') }))
      const own = inner.filter(({ tag }) => tag === undefined)
      const list = [`${input.columns[input.columns.length - 1].text} AS ${id}`, ...own.map(({ text, name }) => `${text} AS ${name}`), ...states]
      const grouped = `SELECT ${list.join(', ')} FROM ${input.from} GROUP BY ${[id, ...own.map(({ name }) => name)].join(', ')}`
      const wanted = inner.flatMap(({ tag, name }) => (tag === undefined ? [] : [{ place: Number(tag), name }]))
      const joined = `(${grouped}) AS ${rows} INNER JOIN (${this.scans.series(table, wanted, other)}) AS ${tags} ON ${rows}.${id} = ${tags}.${other}`
      const out = inner.map(({ type, range, numbers }) => ({ text: this.name('k'), type, range, ...(numbers === undefined ? {} : { numbers }) }))
      const results = aggregates.map((each) => ({ ...each, text: this.name('c') }))
      const select = [
        ...inner.map(({ name }, i) => `${name} AS ${out[i].text}`),
        ...aggregates.map(({ text, type }, i) => `CAST(${text} AS ${nullable(type)}) AS ${results[i].text}`),
      ]
      const from = `(SELECT ${select.join(', ')} FROM ${joined} GROUP BY ${out.map(({ text }) => text).join(', ')}) AS ${this.name('r')}`
      return { from, columns: [...out, ...results] }
    } catch (error) {
      if (error instanceof TagWanted) return undefined
      throw error
    } finally {
      this.split = false
    }
  }

  private values(node: PlanNode): Relation {
    const types = (node.expr_types as object[]).map((type) => typeOf(type))
    const rows = node.expressions as PlanNode[][]
    if (rows.length > 1000) raise('room for more than 1000 rows of VALUES')
    const names = types.map(() => this.name('c'))
    const selects = rows.map((row) => {
      const cells = this.exprs(row, []).map(({ text }, i) => `CAST(${text} AS ${nullable(types[i])}) AS ${names[i]}`)
      return `SELECT ${cells.join(', ')}`
    })
    return { from: `(${selects.join(' UNION ALL ')}) AS ${this.name('r')}`, columns: types.map((type, i) => ({ text: names[i], type })) }
  }

  private filter(node: PlanNode, input: Relation): Relation {
    const conditions = this.exprs(node.expressions, input.columns).map(({ text }) => text)
    const map = node.projection_map as (number | string)[] | undefined
    const columns =
      map === undefined || map.length === 0
        ? input.columns
        : this.withSeries(
            map.map((place) => input.columns[Number(place)]),
            input,
          )
    const names = input.columns.map(({ text }) => text).join(', ') || '1'
    return { from: `(SELECT ${names} FROM ${input.from} WHERE ${conditions.map((text) => `(${text})`).join(' AND ')}) AS ${this.name('r')}`, columns }
  }

  private aggregate(node: PlanNode, input: Relation): Relation {
    const keys = this.exprs(node.groups, input.columns).map(asKey)
    const aggregates = ((node.expressions ?? []) as PlanNode[]).map((each) => printAggregate(each, this.inputs(input.columns)))
    if (((node.grouping_functions ?? []) as unknown[]).length > 0) raise('GROUPING()')
    const sets = (node.grouping_sets ?? []) as (number | string)[][]
    const keyNames = keys.map(() => this.name('k'))
    const named = keys.map((key, i) => ({ ...key, text: keyNames[i], constant: undefined as never }))
    const several = sets.length > 1 || (sets.length === 1 && sets[0].length < keys.length)
    // A constant would not become NULL.
    const aliased = keys.map(({ text, type }, i) => `${several ? `CAST(materialize(${text}) AS ${nullable(type)})` : text} AS ${keyNames[i]}`)
    const group =
      keys.length === 0
        ? ''
        : several
          ? ` GROUP BY GROUPING SETS (${sets.map((set) => `(${set.map((i) => keyNames[Number(i)]).join(', ')})`).join(', ')})`
          : ` GROUP BY ${keyNames.join(', ')}`
    const results = aggregates.map((each) => ({ ...each, text: this.name('c') }))
    const list = [...aliased, ...aggregates.map(({ text, type }, i) => `CAST(${text} AS ${nullable(type)}) AS ${results[i].text}`)]
    return { from: `(SELECT ${list.join(', ') || '1'} FROM ${input.from}${group}) AS ${this.name('r')}`, columns: [...named, ...results] }
  }

  /** NULLs and NaNs where DuckDB has them. */
  private orderBy(orders: readonly PlanNode[], inputs: Inputs): string {
    const items = orders.flatMap(({ type, null_order, expression }) => {
      const key = printExpr(expression, inputs)
      if (key.constant !== undefined) return []
      const direction = type === 'DESCENDING' ? 'DESC' : 'ASC'
      const nulls = null_order === 'NULLS FIRST' ? 'NULLS FIRST' : 'NULLS LAST'
      const nan = isFloat(key.type) && key.numbers !== true ? [`isNaN(${key.text}) ${direction} ${nulls}`] : []
      return [...nan, `${key.text} ${direction} ${nulls}`]
    })
    return items.length === 0 ? '' : `ORDER BY ${items.join(', ')}`
  }

  private limit(node: PlanNode, child: PlanNode): Relation {
    const [count, offset] = [amountOf(node.limit_val), amountOf(node.offset_val)]
    const input = complete(this.relation(child), 'LIMIT')
    const free = input.limit === undefined && input.once === undefined ? input : this.nested(input)
    const limit = count === undefined ? 'LIMIT 9223372036854775807' : `LIMIT ${count}`
    return { ...free, limit: offset === undefined ? limit : `${limit} OFFSET ${offset}` }
  }

  private distinct(node: PlanNode, input: Relation): Relation {
    const targets = this.exprs(node.distinct_targets, input.columns).map(asKey)
    if (node.distinct_type === 'DISTINCT_ON') {
      const order = node.order_by === undefined ? '' : this.orderBy(node.order_by.orders, this.inputs(input.columns))
      return this.nested({ ...input, order, once: `LIMIT 1 BY ${targets.map(({ text }) => text).join(', ')}` })
    }
    const columns = input.columns.map(asKey)
    const names = columns.map(() => this.name('c'))
    const list = columns.map(({ text }, i) => `${text} AS ${names[i]}`).join(', ')
    return { from: `(SELECT DISTINCT ${list} FROM ${input.from}) AS ${this.name('r')}`, columns: columns.map((column, i) => ({ ...column, text: names[i] })) }
  }

  private union(node: PlanNode, children: readonly PlanNode[], word: string): Relation {
    const parts = children.map((child) => computed(this.relation(child), word))
    const width = parts[0].columns.length
    if (node.allow_out_of_order === false && parts.length === 0) raise('empty unions')
    const names = parts[0].columns.map(() => this.name('c'))
    const selects = parts.map((part) => {
      const inner = this.nested(part)
      const cells = inner.columns.map(({ text, type }, i) => `CAST(${text} AS ${nullable(type)}) AS ${names[i]}`)
      return `SELECT ${cells.slice(0, width).join(', ')} FROM ${inner.from}`
    })
    const columns = parts[0].columns.map(({ type }, i) => ({ text: names[i], type, numbers: parts.every((part) => part.columns[i].numbers === true) }))
    return { from: `(${selects.join(` ${word} `)}) AS ${this.name('r')}`, columns }
  }

  private sides(children: readonly PlanNode[]): [Relation, Relation] {
    return [0, 1].map((i) => complete(this.nested(this.relation(children[i])), 'a join')) as [Relation, Relation]
  }

  private join(node: PlanNode, children: readonly PlanNode[]): Relation {
    const [left, right] = this.sides(children)
    if (((node.left_projection_map ?? []) as unknown[]).length > 0 || ((node.right_projection_map ?? []) as unknown[]).length > 0)
      raise('joins of which columns are left out')
    const conditions = (node.conditions as PlanNode[]).map(({ left: a, right: b, comparison: kind }) => ({
      kind: String(kind),
      left: printExpr(a, this.inputs(left.columns)),
      right: printExpr(b, this.inputs(right.columns)),
    }))
    if (node.join_type === 'MARK') return this.mark(left, right, conditions)
    return this.joined(String(node.join_type ?? 'INNER'), left, right, conditions, [])
  }

  private joined(
    type: string,
    left: Relation,
    right: Relation,
    conditions: readonly { kind: string; left: Expr; right: Expr }[],
    others: readonly Expr[],
  ): Relation {
    const words: Record<string, string> = {
      INNER: 'INNER JOIN',
      LEFT: 'LEFT JOIN',
      RIGHT: 'RIGHT JOIN',
      OUTER: 'FULL JOIN',
      SEMI: 'LEFT SEMI JOIN',
      ANTI: 'LEFT ANTI JOIN',
    }
    const word = words[type]
    if (word === undefined) return raise(`${type} joins`)
    const equal = conditions.filter(({ kind }) => kind === 'COMPARE_EQUAL' || kind === 'COMPARE_NOT_DISTINCT_FROM')
    const on = conditions.map((each) =>
      each.kind === 'COMPARE_EQUAL' && (!isFloat(each.left.type) || (each.left.numbers && each.right.numbers))
        ? `${each.left.text} = ${each.right.text}`
        : each.kind === 'COMPARE_NOT_DISTINCT_FROM'
          ? `isNotDistinctFrom(${each.left.text}, ${each.right.text})`
          : comparison(each.kind, each.left, each.right).text,
    )
    on.push(...others.map(({ text }) => text))
    const one = type === 'SEMI' || type === 'ANTI'
    const columns = one ? left.columns : [...left.columns.map((column) => outer(column, type)), ...right.columns.map((column) => outer(column, type))]
    if (equal.length > 0 && (type === 'INNER' || on.length === equal.length))
      return { from: `${left.from} ${word} ${right.from} ON ${on.join(' AND ')}`, columns }
    if (type !== 'INNER') return raise(`${type.toLowerCase()} joins by anything but equality`)
    const names = columns.map(({ text }) => text).join(', ') || '1'
    return { from: `(SELECT ${names} FROM ${left.from} CROSS JOIN ${right.from} WHERE ${on.join(' AND ')}) AS ${this.name('r')}`, columns }
  }

  private anyJoin(node: PlanNode, children: readonly PlanNode[]): Relation {
    const [left, right] = this.sides(children)
    const condition = printExpr(node.condition, this.inputs([...left.columns, ...right.columns]))
    return this.joined(String(node.join_type ?? 'INNER'), left, right, [], [condition])
  }

  /** `x IN (SELECT ...)`: NULL where x, or one of the others, is and none is found. */
  private mark(left: Relation, right: Relation, conditions: readonly { kind: string; left: Expr; right: Expr }[]): Relation {
    const [{ kind, left: x, right: y }, ...more] = conditions
    if (more.length > 0 || kind !== 'COMPARE_EQUAL' || (isFloat(x.type) && !(x.numbers && y.numbers)))
      return raise('comparisons with subqueries but IN of one column')
    const rows = `SELECT ${y.text} FROM ${right.from}`
    const some = (condition: string): string => `(SELECT count() FROM ${right.from}${condition}) > 0`
    const found = `if(isNull(${x.text}), NULL, if(assumeNotNull(${x.text}) IN (${rows} WHERE isNotNull(${y.text})), 1, if(${some(` WHERE isNull(${y.text})`)}, NULL, 0)))`
    const text = `CAST(if(${some('')}, ${found}, 0) AS Nullable(UInt8))`
    return { from: left.from, columns: [...left.columns, { text, type: typeOf({ id: 'BOOLEAN' }) }] }
  }

  private cte(node: PlanNode, [definition, rest]: readonly PlanNode[]): Relation {
    const { sql, columns } = this.select(computed(this.relation(definition), 'WITH'))
    const name = this.name('t')
    this.definitions.push(`${name} AS (${sql})`)
    this.ctes.set(String(node.table_index ?? 0), { name, columns })
    return this.relation(rest)
  }
}

/** Aggregates whose state is a few values. */
const EARLY = new Set(
  'sum avg mean min max count count_star arg_max arg_min argmax argmin max_by min_by stddev stddev_samp stddev_pop variance var_samp var_pop'.split(' '),
)

/** The table that a plan reads with nothing but conditions and expressions above it. */
function scanBelow(node: PlanNode): string | undefined {
  if (node.type === 'LOGICAL_GET') return String(node.function_data?.table)
  if (node.type !== 'LOGICAL_PROJECTION' && node.type !== 'LOGICAL_FILTER') return undefined
  return scanBelow(node.children[0])
}

/** Values that are grouped: 0 and -0 are one. */
function asKey(key: Expr): Expr {
  clickHouseType(key.type)
  if (!isFloat(key.type)) return key
  return { ...key, text: `if(${key.text} = 0, to${clickHouseType(key.type)}(0), ${key.text})` }
}

/** Of a side that may lack rows. */
function outer(column: Expr, type: string): Expr {
  return type === 'INNER' ? column : { ...column, constant: undefined as never }
}

function amountOf(value: PlanNode | undefined): bigint | undefined {
  if (value === undefined || value.type === 'UNSET' || value.type === undefined) return undefined
  if (value.type !== 'CONSTANT_VALUE') return raise('LIMIT and OFFSET but of constants')
  return integerOf(value.constant_integer)
}
