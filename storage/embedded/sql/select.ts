/** Queries: SELECT, set operations, WITH, and what may stand behind FROM. */

import { NATIVE_PREFIX } from '../threads/function-spec.ts'
import { nameAliases, noteChecked, withoutWritten } from './aliases.ts'
import { constantInteger, members, type Node, refuse } from './ast.ts'
import { catalogName, informationSchema, isSchema, listedMeasurements, TABLE_NAME } from './catalog.ts'
import { isField } from './columns.ts'
import { type EarlyGroups, planEarlyGroups } from './early-groups.ts'
import { orderText, printExpr, printNoted } from './expr.ts'
import { TABLE_FUNCTIONS } from './functions.ts'
import { MAX_TIME, MIN_TIME, type SqlMeasurement } from './host.ts'
import { noPivot } from './limits.ts'
import { columnMentions } from './mentions.ts'
import { foldName } from './names.ts'
import { beginAtNewest } from './newest-from.ts'
import type { Cte, Printer } from './printer.ts'
import { conjuncts, type FromPlan, prune } from './prune.ts'
import { kindOf, kindOfColumn, newScope, type Output, resolve, resolveHere, type Scope, type Source, type SourceColumn, unnamedSubquery } from './scope.ts'
import { star, starOutputs } from './star.ts'

interface PrintedQuery {
  text: string
  /** Undefined when the columns are not known without the binder. */
  outputs: Output[] | undefined
}

const QUERY = ['type', 'modifiers', 'cte_map']

/** @param self the CTE that the query is, if it is a recursive one. */
export function printQuery(p: Printer, node: Node, parent: Scope | undefined, self?: Cte): PrintedQuery {
  const visible = p.ctes.length
  const prefix = printCtes(p, node.cte_map, parent)
  const query = printBody(p, node, parent, self)
  p.ctes.length = visible
  return { text: p.put(prefix + query.text), outputs: query.outputs }
}

function printBody(p: Printer, node: Node, parent: Scope | undefined, self: Cte | undefined): PrintedQuery {
  switch (node.type) {
    case 'SELECT_NODE':
      return printSelect(p, node, parent)
    case 'SET_OPERATION_NODE':
      return printSetOperation(p, node, parent)
    case 'RECURSIVE_CTE_NODE':
      return printRecursive(p, node, parent, self)
    default:
      throw refuse(`cannot run this query: "${foldName(String(node.type))}" is not supported here`)
  }
}

function printCtes(p: Printer, map: Node | undefined, parent: Scope | undefined): string {
  if (map === undefined) return ''
  members(map, ['map'])
  let recursive = false
  const items = ((map.map ?? []) as Node[]).map(({ key, value }) => {
    members(value, ['query', 'aliases', 'materialized'])
    members(value.query, ['node'])
    const inner = value.query.node as Node
    const aliases = (value.aliases ?? []) as string[]
    const isRecursive = inner.type === 'RECURSIVE_CTE_NODE'
    recursive ||= isRecursive
    const cte = p.newCte(String(key), aliases)
    const query = printQuery(p, inner, parent, isRecursive ? cte : undefined)
    cte.outputs = renamed(query.outputs, aliases)
    p.ctes.push(cte)
    const materialized = { CTE_MATERIALIZE_ALWAYS: ' MATERIALIZED', CTE_MATERIALIZE_NEVER: ' NOT MATERIALIZED' }[String(value.materialized)] ?? ''
    return `${cte.relation}${p.names.list(aliases)} AS${materialized} (${query.text})`
  })
  return items.length === 0 ? '' : `WITH ${recursive ? 'RECURSIVE ' : ''}${items.join(', ')} `
}

/** The name is that of the CTE in the recursive part alone: in the first part it is what it would be without the CTE. */
function printRecursive(p: Printer, node: Node, parent: Scope | undefined, self: Cte | undefined): PrintedQuery {
  members(node, [...QUERY, 'cte_name', 'union_all', 'left', 'right', 'aliases'])
  if (self === undefined) throw refuse('cannot run this query: a recursive query must be a CTE')
  const left = printQuery(p, node.left, parent)
  // The recursive part may widen a column's type.
  const outputs = left.outputs?.map(({ name }) => ({ name, kind: undefined }))
  self.outputs = renamed(outputs, self.aliases)
  const visible = p.ctes.push(self)
  const right = printQuery(p, node.right, parent)
  p.ctes.length = visible - 1
  return { text: `(${left.text}) UNION ${node.union_all === true ? 'ALL ' : ''}(${right.text})${modifiers(p, node, newScope(parent))}`, outputs }
}

const SET_OPERATIONS: Record<string, string> = { UNION: 'UNION', UNION_BY_NAME: 'UNION', EXCEPT: 'EXCEPT', INTERSECT: 'INTERSECT' }

function printSetOperation(p: Printer, node: Node, parent: Scope | undefined): PrintedQuery {
  members(node, [...QUERY, 'setop_type', 'left', 'right', 'setop_all'])
  const word = SET_OPERATIONS[node.setop_type]
  if (word === undefined) throw refuse('cannot run this query: unknown set operation')
  const left = printQuery(p, node.left, parent)
  const right = printQuery(p, node.right, parent)
  const byName = node.setop_type === 'UNION_BY_NAME'
  const how = `${word}${node.setop_all === false ? '' : ' ALL'}${byName ? ' BY NAME' : ''}`
  const outputs = byName || left.outputs?.length !== right.outputs?.length ? undefined : left.outputs
  const kept = outputs?.map((output, i) => (output.kind === right.outputs?.[i].kind ? output : { ...output, kind: undefined }))
  return { text: `(${left.text}) ${how} (${right.text})${modifiers(p, node, newScope(parent))}`, outputs: kept }
}

/** ORDER BY and LIMIT. DISTINCT is printed with the select list. */
function modifiers(p: Printer, node: Node, scope: Scope): string {
  let text = ''
  for (const modifier of (node.modifiers ?? []) as Node[]) {
    switch (modifier.type) {
      case 'DISTINCT_MODIFIER':
        if (node.type !== 'SELECT_NODE') throw refuse('cannot run this query: DISTINCT is not supported here')
        break
      case 'ORDER_MODIFIER':
        members(modifier, ['type', 'orders'])
        text += orderText(p, modifier.orders, scope, scope.printed)
        break
      case 'LIMIT_MODIFIER':
      case 'LIMIT_PERCENT_MODIFIER': {
        members(modifier, ['type', 'limit', 'offset'])
        const percent = modifier.type === 'LIMIT_PERCENT_MODIFIER' ? '%' : ''
        if (modifier.limit !== undefined) text += ` LIMIT ${percent === '' ? printExpr(p, modifier.limit, scope) : `(${printExpr(p, modifier.limit, scope)})%`}`
        if (modifier.offset !== undefined) text += ` OFFSET ${printExpr(p, modifier.offset, scope)}`
        break
      }
      default:
        throw refuse('cannot run this query: unknown clause')
    }
  }
  return text
}

const SELECT = [...QUERY, 'select_list', 'from_table', 'where_clause', 'group_expressions', 'group_sets', 'aggregate_handling', 'having', 'qualify']

function printSelect(p: Printer, node: Node, parent: Scope | undefined): PrintedQuery {
  members(node, SELECT)
  const scope = newScope(parent)
  nameAliases(node, scope)
  const from = planFrom(p, node.from_table, scope)
  const settled = prune(from.plan, conjuncts(node.where_clause), scope, p.now)
  for (const condition of settled) p.settle(columnMentions(condition))
  const only = from.plan.kind === 'source' ? from.plan.source : undefined
  beginAtNewest(only, p.newest?.get(node))
  const conditions = conjuncts(node.where_clause).filter((condition) => !settled.has(condition))
  const starred = new Set<Source>()
  for (const part of [node.select_list, node.where_clause, node.group_expressions, node.having, node.qualify]) markStarred(part, scope, starred)
  const distinct = printDistinct(p, node, scope)
  const items = ((node.select_list ?? []) as Node[]).map((item) => selectItem(p, item, scope))
  markGrouped(node, scope)
  if (node === p.answer) markAnswered(node, scope)
  const early = planEarlyGroups(p, node, scope, only, conditions)
  if (early !== undefined) return earlySelect(p, node, scope, items, early)
  const where = conditions.length === 0 ? '' : ` WHERE ${conditions.map((condition) => printExpr(p, condition, scope)).join(' AND ')}`
  const group = groupBy(p, node, scope)
  const source = from.print(starred)
  hideAliases(scope)
  const having = node.having === undefined ? '' : ` HAVING ${printExpr(p, node.having, scope)}`
  const qualify = node.qualify === undefined ? '' : ` QUALIFY ${printExpr(p, node.qualify, scope)}`
  const tail = modifiers(p, node, scope)
  const outputs = items.flatMap((item) => item.outputs ?? [])
  return {
    text: `SELECT ${distinct}${items.map((item) => item.text).join(', ')}${source === '' ? '' : ` FROM ${source}`}${where}${group}${having}${qualify}${tail}`,
    outputs: items.every((item) => item.outputs !== undefined) ? outputs : undefined,
  }
}

function earlySelect(p: Printer, node: Node, scope: Scope, items: Item[], early: EarlyGroups): PrintedQuery {
  hideAliases(scope)
  const tail = modifiers(p, node, scope)
  const list = ((node.select_list ?? []) as Node[]).map((item, i) => {
    const name =
      item.alias ?? (item.class === 'COLUMN_REF' ? (item.column_names as string[]).at(-1) : (items[i].outputs?.[0].name ?? madeUpName(p, item, scope)))
    return `${early.items[i]} AS ${p.ident(String(name))}`
  })
  return { text: `SELECT ${list.join(', ')} FROM ${early.from}${early.where}${early.group}${tail}`, outputs: items.flatMap((item) => item.outputs ?? []) }
}

/** Aliases of the select list may stand in for columns from here on. */
function hideAliases(scope: Scope): void {
  scope.hidden.push(new Set(scope.aliases))
}

function printDistinct(p: Printer, node: Node, scope: Scope): string {
  const modifier = ((node.modifiers ?? []) as Node[]).find((each) => each.type === 'DISTINCT_MODIFIER')
  if (modifier === undefined) return ''
  members(modifier, ['type', 'distinct_on_targets'])
  const targets = (modifier.distinct_on_targets ?? []) as Node[]
  return targets.length === 0 ? 'DISTINCT ' : `DISTINCT ON (${targets.map((target) => printExpr(p, target, scope)).join(', ')}) `
}

interface Item {
  text: string
  outputs: Output[] | undefined
}

function selectItem(p: Printer, item: Node, scope: Scope): Item {
  if (item.class === 'STAR') {
    const text = star(p, item, scope)
    return { text: item.alias === undefined ? text : `${text} AS ${p.ident(item.alias)}`, outputs: starOutputs(item, scope) }
  }
  const before = p.rewrites
  const checks = p.divisorChecks
  const text = printNoted(p, item, scope)
  if (p.divisorChecks > checks && item.alias !== undefined) noteChecked(item, text, scope)
  const last = item.class === 'COLUMN_REF' ? (item.column_names as string[]).at(-1) : undefined
  let name = item.alias as string | undefined
  if (name === undefined && last !== undefined && (isField(p, item, scope) || p.rewrites > before)) name = last
  else if (name === undefined && last === undefined && p.rewrites > before) name = plainName(p, item, scope)
  else if (name === undefined && last === undefined) name = mentionedName(p, item, scope)
  return {
    text: name === undefined ? text : `${text} AS ${p.ident(name)}`,
    outputs: [{ name: name ?? declaredName(item, scope) ?? last, kind: kindOf(item, scope) }],
  }
}

/** What DuckDB calls an expression without a name, if the statement refers to it by that: its own text then has generated names in it. */
function mentionedName(p: Printer, item: Node, scope: Scope): string | undefined {
  if (!p.mentioned.expressions) return undefined
  const plain = plainName(p, item, scope)
  const names = [plain, `(${plain})`, ...(item.function_name === 'count_star' ? ['count_star()'] : [])]
  return names.find((name) => p.mentioned.columns.has(foldName(name)))
}

/** As the relation spells it. */
function declaredName(item: Node, scope: Scope): string | undefined {
  return item.class === 'COLUMN_REF' ? resolve(item.column_names, scope)?.column.public : undefined
}

/** What DuckDB calls an expression. */
function madeUpName(p: Printer, item: Node, scope: Scope): string {
  return item.function_name === 'count_star' ? 'count_star()' : plainName(p, item, scope)
}

/** The name a rewritten expression would have had. */
function plainName(p: Printer, item: Node, scope: Scope): string {
  p.plain = true
  try {
    const text = printExpr(p, item, scope)
    return text.startsWith('(') && text.endsWith(')') && balanced(text) ? text.slice(1, -1) : text
  } finally {
    p.plain = false
  }
}

/** The first parenthesis is closed by the last character. */
function balanced(text: string): boolean {
  let depth = 0
  for (let i = 0; i < text.length; i++) {
    if (text[i] === '(') depth++
    else if (text[i] === ')' && --depth === 0) return i === text.length - 1
  }
  return false
}

function groupBy(p: Printer, node: Node, scope: Scope): string {
  if (node.aggregate_handling === 'FORCE_AGGREGATES') return ' GROUP BY ALL'
  if (node.aggregate_handling !== 'STANDARD_HANDLING') throw refuse('cannot run this query: unknown grouping')
  const keys = withoutWritten(scope, () => ((node.group_expressions ?? []) as Node[]).map((key) => printNoted(p, key, scope)))
  const sets = (node.group_sets ?? []) as number[][]
  if (sets.length === 0) return ''
  if (sets.length === 1 && sets[0].length === keys.length && keys.length > 0) return ` GROUP BY ${keys.join(', ')}`
  return ` GROUP BY GROUPING SETS (${sets.map((set) => `(${set.map((i) => keys[i]).join(', ')})`).join(', ')})`
}

/** Tags that are a key of GROUP BY as they are: by name, by the select list's alias or number, or by GROUP BY ALL. */
function markGrouped(node: Node, scope: Scope): void {
  const items = (node.select_list ?? []) as Node[]
  const keys = node.aggregate_handling === 'FORCE_AGGREGATES' ? items : ((node.group_expressions ?? []) as Node[])
  const aliases = new Map<string, Node>()
  for (const item of items) if (typeof item.alias === 'string' && !aliases.has(item.alias)) aliases.set(item.alias, item)
  for (const key of keys) {
    const at = constantInteger(key)
    const alias = key.class === 'COLUMN_REF' ? aliases.get(key.column_names[0]) : undefined
    for (const each of [key, at === undefined ? undefined : items[Number(at) - 1], alias]) {
      if (each?.class !== 'COLUMN_REF') continue
      for (const { source, column } of resolveHere(each.column_names, scope)) if (column.column?.role === 'tag') source.grouped.add(column.name)
    }
  }
}

/** Tags that are columns of the answer as they are. */
function markAnswered(node: Node, scope: Scope): void {
  for (const item of (node.select_list ?? []) as Node[]) {
    const found = item.class === 'COLUMN_REF' ? resolveHere(item.column_names, scope) : []
    for (const { source, column } of found) if (column.column?.role === 'tag') source.grouped.add(column.name)
    if (item.class !== 'STAR' || item.columns === true) continue
    for (const { measurement, grouped } of scope.sources) for (const { name, role } of measurement?.columns ?? []) if (role === 'tag') grouped.add(name)
  }
}

interface From {
  plan: FromPlan
  print(starred: ReadonlySet<Source>): string
}

function planFrom(p: Printer, node: Node, scope: Scope): From {
  switch (node.type) {
    case 'EMPTY':
      members(node, ['type'])
      return { plan: { kind: 'other' }, print: () => '' }
    case 'BASE_TABLE':
      return baseTable(p, node, scope)
    case 'SUBQUERY': {
      members(node, ['type', 'alias', 'subquery', 'column_name_alias'])
      members(node.subquery, ['node'])
      const query = printQuery(p, node.subquery.node, scope)
      const columns = listed(query.outputs, node.column_name_alias)
      const alias = String(node.alias ?? unnamedSubquery(scope))
      addOpaque(scope, alias, renamed(query.outputs, columns))
      return fixedFrom(`(${query.text})${named(p, alias, columns)}`)
    }
    case 'JOIN':
      return join(p, node, scope)
    case 'TABLE_FUNCTION':
      return tableFunction(p, node, scope)
    case 'EXPRESSION_LIST': {
      members(node, ['type', 'alias', 'values', 'column_name_alias'])
      const rows = (node.values as Node[][]).map((row) => `(${row.map((value) => printExpr(p, value, scope)).join(', ')})`)
      const alias = String(node.alias ?? 'valueslist')
      const columns = defaults((node.column_name_alias ?? []) as string[], rows.length === 0 ? [] : (node.values as Node[][])[0].map((_, i) => `col${i}`))
      addOpaque(scope, alias, columns.map(unknownKind))
      return fixedFrom(`(VALUES ${rows.join(', ')})${named(p, alias, columns)}`)
    }
    case 'PIVOT':
      throw noPivot()
    case 'SHOW_REF':
      throw refuse(
        'cannot run this statement: only SHOW TABLES, SHOW COLUMNS FROM <measurement>, DESCRIBE <measurement> and DESCRIBE <query> are supported, as statements of their own',
      )
    default:
      throw refuse(`cannot run this query: "${foldName(String(node.type))}" is not supported behind FROM`)
  }
}

const fixedFrom = (text: string): From => ({ plan: { kind: 'other' }, print: () => text })

function named(p: Printer, alias: string, columns: readonly string[]): string {
  return ` AS ${p.ident(String(alias))}${p.names.list(columns)}`
}

const unknownKind = (name: string): Output => ({ name, kind: undefined })

/** The first columns have the names given, the others their own. */
function defaults(given: readonly string[], own: readonly string[]): string[] {
  return [...given, ...own.slice(given.length)]
}

/** Columns that must be listed behind the alias: those given, and those that DuckDB would tell apart by a number of its own. */
function listed(outputs: readonly Output[] | undefined, given: readonly string[] = []): readonly string[] {
  const own = outputs?.map(({ name }) => name)
  if (own === undefined || own.includes(undefined)) return given
  const names = defaults(given, own as string[])
  const distinct = distinctNames(names)
  return distinct.some((name, i) => name !== names[i]) ? distinct : given
}

/** As DuckDB numbers the columns of a subquery that have one name: a, a_1, a_2. */
function distinctNames(names: readonly string[]): string[] {
  const seen = new Map<string, number>()
  return names.map((name) => {
    let distinct = name
    for (let count = seen.get(foldName(name)); count !== undefined; count = seen.get(foldName(distinct))) {
      seen.set(foldName(name), count + 1)
      distinct = `${name}_${count}`
    }
    seen.set(foldName(distinct), 1)
    return distinct
  })
}

function renamed(outputs: Output[] | undefined, aliases: readonly string[]): Output[] | undefined {
  if (outputs === undefined || aliases.length === 0) return outputs
  return outputs.map((output, i) => ({ ...output, name: aliases[i] ?? output.name }))
}

function addOpaque(scope: Scope, alias: string | undefined, outputs: Output[] | undefined): Source {
  const columns = new Map<string, SourceColumn>()
  let complete = outputs !== undefined
  for (const { name, kind } of outputs ?? []) {
    const lower = name === undefined ? undefined : foldName(name)
    if (lower === undefined) complete = false
    else columns.set(lower, { name: name as string, public: name as string, kind: columns.has(lower) ? undefined : kind })
  }
  const at = scope.sources.push({ alias: foldName(alias ?? ''), columns, complete, time: [MIN_TIME, MAX_TIME], tags: [], grouped: new Set() })
  return scope.sources[at - 1]
}

function baseTable(p: Printer, node: Node, scope: Scope): From {
  members(node, ['type', 'alias', 'schema_name', 'table_name', 'catalog_name', 'column_name_alias'])
  const table = String(node.table_name)
  const schema = node.schema_name === undefined ? '' : foldName(String(node.schema_name))
  // Tools write the whole name, as information_schema has it.
  if (node.catalog_name !== undefined && foldName(String(node.catalog_name)) !== foldName(catalogName(p.namespace)))
    throw refuse(`cannot read "${[node.catalog_name, node.schema_name, table].join('.')}": there are no other databases here; write "${table}" alone`)
  const view = schema === 'information_schema' ? informationSchema(foldName(table)) : undefined
  if (view !== undefined) {
    const columns = defaults((node.column_name_alias ?? []) as string[], view.columns)
    const source = addOpaque(scope, node.alias ?? table, columns.map(unknownKind))
    source.tableName = columns[view.columns.indexOf(TABLE_NAME)]
    const print = (): string => `(${view.sql(listedMeasurements(p, source), catalogName(p.namespace))})${named(p, node.alias ?? table, columns)}`
    return { plan: { kind: 'source', source }, print }
  }
  if (schema !== '' && !isSchema(schema))
    throw refuse(
      `cannot read "${node.schema_name}.${table}": there is no such schema; measurements need none or main (also called public and default), and information_schema has tables, columns and schemata`,
    )
  const cte = schema === '' ? p.ctes.findLast((each) => each.name === foldName(table)) : undefined
  if (cte !== undefined) {
    const columns = listed(cte.outputs, node.column_name_alias)
    addOpaque(scope, node.alias ?? table, renamed(cte.outputs, columns))
    return fixedFrom(`${cte.relation}${named(p, node.alias ?? table, columns)}`)
  }
  return measurementTable(p, node, p.measurement(table), scope)
}

function measurementTable(p: Printer, node: Node, measurement: SqlMeasurement, scope: Scope): From {
  const alias = String(node.alias ?? node.table_name)
  const aliases = (node.column_name_alias ?? []) as string[]
  const columns = new Map<string, SourceColumn>()
  measurement.columns.forEach((column, i) => {
    const name = aliases[i] ?? column.name
    columns.set(foldName(name), { name: column.name, public: name, kind: kindOfColumn(column), column })
  })
  const source: Source = { alias: foldName(alias), columns, complete: true, measurement, time: [MIN_TIME, MAX_TIME], tags: [], grouped: new Set() }
  scope.sources.push(source)
  const print = (starred: ReadonlySet<Source>): string => {
    const all = starred.has(source) || aliases.length > 0 || scope.natural || p.mentioned.rows.has(source.alias)
    const wanted = measurement.columns.filter((column) => all || p.mentions(column.name)).map((column) => column.name)
    const columns = wanted.length > 0 ? wanted : ['_time']
    const request = {
      measurement: measurement.name,
      columns,
      time: source.time,
      tags: source.tags,
      enumTags: columns.filter((name) => source.grouped.has(name) && p.mentioned.worked?.has(foldName(name)) === false),
    }
    p.scans.push(request)
    return `(${p.host.relation(request)})${named(p, alias, defaults(aliases, columns))}`
  }
  return { plan: { kind: 'source', source }, print }
}

/** Notes the measurements whose columns a star asks for: `*` all of this FROM, `m.*` the one. Subqueries answer for themselves. */
function markStarred(part: unknown, scope: Scope, starred: Set<Source>): void {
  const visit = (node: unknown): void => {
    if (Array.isArray(node)) {
      for (const child of node) visit(child)
      return
    }
    if (typeof node !== 'object' || node === null) return
    const each = node as Node
    if (each.class === 'SUBQUERY') return
    if (each.class === 'STAR') {
      const relation = each.relation_name === undefined ? undefined : foldName(String(each.relation_name))
      for (const source of scope.sources) if (relation === undefined || source.alias === relation) starred.add(source)
    }
    for (const key in each) visit(each[key])
  }
  visit(part)
}

const JOIN_WORDS: Record<string, string> = { INNER: 'JOIN', LEFT: 'LEFT JOIN', RIGHT: 'RIGHT JOIN', FULL: 'FULL JOIN', SEMI: 'SEMI JOIN', ANTI: 'ANTI JOIN' }

function join(p: Printer, node: Node, scope: Scope): From {
  members(node, ['type', 'alias', 'left', 'right', 'condition', 'join_type', 'ref_type', 'using_columns'])
  const ref = String(node.ref_type)
  const word = JOIN_WORDS[node.join_type]
  if (word === undefined || !['REGULAR', 'NATURAL', 'CROSS', 'POSITIONAL', 'ASOF'].includes(ref) || node.alias !== undefined)
    throw refuse('cannot run this query: this kind of join is not supported here')
  if (node.join_type !== 'INNER' || (ref !== 'REGULAR' && ref !== 'CROSS')) scope.inner = false
  if (ref === 'NATURAL') scope.natural = true
  const using = (node.using_columns ?? []) as string[]
  const left = planFrom(p, node.left, scope)
  const seen = scope.sources.length
  const right = planFrom(p, node.right, scope)
  // Of a semi or anti join only its condition sees the right side.
  const unseen = node.join_type === 'SEMI' || node.join_type === 'ANTI' ? scope.sources.splice(seen) : []
  if (unseen.length === 0) for (const name of using) scope.using.add(foldName(name))
  const onScope = (): Scope => (unseen.length === 0 ? scope : { ...scope, sources: [...scope.sources, ...unseen] })
  const joined = ref === 'CROSS' ? 'CROSS JOIN' : ref === 'POSITIONAL' ? 'POSITIONAL JOIN' : ref === 'REGULAR' ? word : `${ref} ${word}`
  return {
    plan: { kind: 'join', left: left.plan, right: right.plan, type: node.join_type, ref, on: node.condition, onScope },
    print: (starred) => {
      const on = node.condition !== undefined ? ` ON ${printExpr(p, node.condition, onScope())}` : using.length > 0 ? ` USING ${p.names.list(using)}` : ''
      return `(${left.print(starred)} ${joined} ${right.print(starred)}${on})`
    },
  }
}

function tableFunction(p: Printer, node: Node, scope: Scope): From {
  members(node, ['type', 'alias', 'function', 'column_name_alias', 'with_ordinality'])
  const call = node.function as Node
  members(call, ['class', 'type', 'alias', 'function_name', 'schema', 'children', 'order_bys'])
  const name = foldName(String(call.function_name))
  if (!TABLE_FUNCTIONS.has(name) || (call.schema !== undefined && call.schema !== 'main')) {
    const shown = [call.schema, name.replace(NATIVE_PREFIX, '')].filter(Boolean).join('.')
    throw refuse(`cannot call table function "${shown}": only ${[...TABLE_FUNCTIONS].sort().join(', ')} are allowed`)
  }
  const args = ((call.children ?? []) as Node[]).map((child) => printExpr(p, child, scope))
  if (((call.children ?? []) as Node[]).some((child) => child.alias !== undefined)) throw refuse(`cannot call ${name} behind FROM with arguments by name`)
  const ordinality = node.with_ordinality === 'WITH_ORDINALITY'
  const columns = defaults((node.column_name_alias ?? []) as string[], ordinality ? [name, 'ordinality'] : [name])
  addOpaque(scope, node.alias ?? name, columns.map(unknownKind))
  return fixedFrom(`${name}(${args.join(', ')})${ordinality ? ' WITH ORDINALITY' : ''}${named(p, node.alias ?? name, columns)}`)
}
