/**
 * Grouping by series before the tags are joined: `SELECT time_bucket(...), host, avg(x) ... GROUP BY 1, 2` over a million rows needs the tags of a thousand
 * series, not of a million rows. The statement is split in two where that cannot change the answer (eager aggregation):
 *
 *     SELECT p.k0, m."host", sum(p.a0) / sum(p.a1) FROM (SELECT <time key> AS k0, _series AS s, sum(x) AS a0, count(x) AS a1 FROM <rows> GROUP BY ALL) p
 *     JOIN <tags> m ON m._series = p.s GROUP BY ...
 *
 * Only plain shapes qualify: one measurement, keys that are tags or computed from `_time` alone with a tag among them, select items that are keys
 * or aggregates that combine, conditions that look at tags alone or not at all. Everything else is printed as it stands.
 */
import type { FunctionSpec } from '../threads/function-spec.ts'
import { bare, constantInteger, type Node, walk } from './ast.ts'
import { AGGREGATES } from './functions.ts'
import { foldName } from './names.ts'
import { NATIVE } from './plugin-functions/expand.ts'
import type { Printer } from './printer.ts'
import { kindOf, resolveHere, type Scope, type Source } from './scope.ts'

/** What to put in place of select list, FROM, WHERE and GROUP BY. */
export interface EarlyGroups {
  /** One text a select item, without its name. */
  items: string[]
  from: string
  where: string
  group: string
}

/** How an aggregate is computed in two steps: inner columns, and the outer expression over their names. */
interface TwoStep {
  inner: string[]
  outer(names: string[]): string
}

const OPAQUE = new Set(['SUBQUERY', 'WINDOW', 'STAR', 'LAMBDA', 'POSITIONAL_REFERENCE', 'PARAMETER', 'DEFAULT'])

export function planEarlyGroups(p: Printer, node: Node, scope: Scope, source: Source | undefined, conditions: readonly Node[]): EarlyGroups | undefined {
  if (source?.measurement === undefined || p.host.split === undefined || !plainShape(node)) return undefined
  const items = node.select_list as Node[]
  const keys = keysOf(node, items, scope)
  if (keys === undefined) return undefined
  const roleOf = (part: Node): Role => rolesIn(part, scope, source)
  const tagKeys = keys.filter((key) => key.class === 'COLUMN_REF' && roleOf(key) === 'tag')
  const tags = new Set(tagKeys)
  const timeKeys = keys.filter((key) => !tags.has(key))
  if (tagKeys.length === 0 || timeKeys.some((key) => roleOf(key) !== 'time')) return undefined
  const grouped = new Set(keys)
  const steps = items.map((item) => (grouped.has(item) ? undefined : twoStep(p, item, scope, roleOf)))
  if (items.some((item, i) => !grouped.has(item) && steps[i] === undefined)) return undefined
  if (!((node.modifiers ?? []) as Node[]).every((modifier) => ordersByOutput(modifier, items, tagKeys))) return undefined
  const sides = conditions.map((condition) => roleOf(condition))
  if (sides.includes('mixed')) return undefined

  const wanted = source.measurement.columns.filter(({ name, role }) => p.mentions(name) || (role === 'time' && name === '_time'))
  const columns = wanted.map(({ name }) => name)
  const request = {
    measurement: source.measurement.name,
    columns,
    time: source.time,
    tags: source.tags,
    enumTags: columns.filter((name) => source.grouped.has(name) && p.mentioned.worked?.has(foldName(name)) === false),
  }
  const parts = p.host.split(request)
  if (parts === undefined) return undefined
  p.scans.push(request)
  const inner: string[] = timeKeys.map((key, i) => `${p.expr(key, scope)} AS k${i}`)
  inner.push('_series AS s')
  const places = placesOf(timeKeys, (key) => key)
  const texts = items.map((item, i) => {
    const at = places.get(item)
    if (at !== undefined) return `p.k${at}`
    const step = steps[i]
    if (step === undefined) return p.expr(item, scope)
    const names = step.inner.map((text, j) => {
      inner.push(`${text} AS a${i}_${j}`)
      return `p.a${i}_${j}`
    })
    return step.outer(names)
  })
  const alias = p.ident(source.alias)
  const columnOf = new Map(source.measurement.columns.map((column) => [column.name, column]))
  const listed = (tags: boolean): string =>
    ['_series', ...columns.filter((name) => (columnOf.get(name)?.role === 'tag') === tags).map((name) => p.ident(name))].join(', ')
  const where = (side: boolean): string => {
    const chosen = conditions.filter((_, i) => (sides[i] === 'tag') === side).map((condition) => p.expr(condition, scope))
    return chosen.length === 0 ? '' : ` WHERE ${chosen.join(' AND ')}`
  }
  return {
    items: texts,
    from: `(SELECT ${inner.join(', ')} FROM (${parts.rows}) AS ${alias}(${listed(false)})${where(false)} GROUP BY ALL) AS p JOIN (${parts.tags}) AS ${alias}(${listed(true)}) ON ${alias}._series = p.s`,
    where: where(true),
    group: ` GROUP BY ${[...timeKeys.map((_, i) => `p.k${i}`), ...tagKeys.map((key) => p.expr(key, scope))].join(', ')}`,
  }
}

function plainShape(node: Node): boolean {
  if (node.having !== undefined || node.qualify !== undefined || node.from_table?.type !== 'BASE_TABLE' || node.from_table.column_name_alias !== undefined)
    return false
  if (((node.modifiers ?? []) as Node[]).some(({ type }) => type === 'DISTINCT_MODIFIER')) return false
  if (node.aggregate_handling === 'FORCE_AGGREGATES') return true
  const sets = (node.group_sets ?? []) as number[][]
  return node.aggregate_handling === 'STANDARD_HANDLING' && sets.length === 1 && sets[0].length === ((node.group_expressions ?? []) as Node[]).length
}

/** The grouping keys as select items or expressions; undefined when one is not plain. */
function keysOf(node: Node, items: Node[], scope: Scope): Node[] | undefined {
  if (node.aggregate_handling === 'FORCE_AGGREGATES') return items.filter((item) => combiner(item) === undefined)
  const aliases = placesOf(items, ({ alias }) => alias)
  const texts = placesOf(items, bare)
  return ((node.group_expressions ?? []) as Node[]).map((key) => {
    const number = constantInteger(key)
    const named = key.class === 'COLUMN_REF' && resolveHere(key.column_names, scope).length === 0 ? aliases.get(key.column_names.at(-1)) : undefined
    const at = number !== undefined && items[Number(number) - 1] !== undefined ? Number(number) - 1 : (named ?? texts.get(bare(key)))
    return at === undefined ? key : items[at]
  })
}

/** Where each first stands. */
function placesOf<T>(nodes: readonly Node[], of: (node: Node) => T): Map<T, number> {
  const places = new Map<T, number>()
  for (const [i, node] of nodes.entries()) if (!places.has(of(node))) places.set(of(node), i)
  return places
}

type Role = 'tag' | 'time' | 'row' | 'none' | 'mixed'

/** What an expression looks at: tags alone, `_time` alone, the row (fields, or fields and `_time`), nothing, or a mixture that cannot be split. */
function rolesIn(part: Node, scope: Scope, source: Source): Role {
  let tag = false
  let time = false
  let field = false
  let opaque = false
  walk(part, (node) => {
    if (OPAQUE.has(node.class) || isAggregate(node)) opaque = true
    if (node.class !== 'COLUMN_REF') return
    const [hit] = resolveHere(node.column_names, scope)
    const role = hit?.source === source ? hit.column.column?.role : undefined
    if (role === 'tag') tag = true
    else if (role === 'time') time = true
    else if (role === 'field') field = true
    else opaque = true
  })
  if (opaque || (tag && (time || field))) return 'mixed'
  return tag ? 'tag' : field ? 'row' : time ? 'time' : 'none'
}

/** One that does not combine, or within another expression: GROUP BY ALL says of none of them that it is no key. */
function isAggregate(node: Node): boolean {
  if (node.class !== 'FUNCTION') return false
  return (node[NATIVE] as FunctionSpec | undefined)?.kind === 'aggregate' || AGGREGATES.has(foldName(String(node.function_name)))
}

/** The aggregate an item is, if it is one that combines. */
function combiner(item: Node): string | undefined {
  if (item.class !== 'FUNCTION' || item.distinct === true || item.filter !== undefined || ((item.order_bys?.orders ?? []) as Node[]).length > 0)
    return undefined
  if (item.schema !== undefined && item.schema !== 'main') return undefined
  const name = foldName(String(item.function_name))
  return COMBINERS.has(name) ? name : undefined
}

const COMBINERS = new Set(['count', 'count_star', 'sum', 'avg', 'mean', 'min', 'max', 'arg_max', 'arg_min', 'max_by', 'min_by', 'first', 'last'])

function twoStep(p: Printer, item: Node, scope: Scope, roleOf: (part: Node) => Role): TwoStep | undefined {
  const name = combiner(item)
  if (name === undefined) return undefined
  const args = (item.children ?? []) as Node[]
  if (args.some((arg) => !['row', 'time', 'none'].includes(roleOf(arg)))) return undefined
  const [value, by] = args
  const text = (node: Node): string => p.expr(node, scope)
  switch (name) {
    case 'count_star':
    case 'count':
      if (args.length > 1) return undefined
      return { inner: [value === undefined ? 'count(*)' : `count(${text(value)})`], outer: ([n]) => `sum(${n})::BIGINT` }
    case 'sum':
      if (args.length !== 1 || !['float', 'exact'].includes(String(kindOf(value, scope)))) return undefined
      return { inner: [`sum(${text(value)})`], outer: ([sum]) => `sum(${sum})` }
    case 'avg':
    case 'mean':
      if (args.length !== 1 || kindOf(value, scope) !== 'float') return undefined
      return { inner: [`sum(${text(value)})`, `count(${text(value)})`], outer: ([sum, n]) => `(sum(${sum}) / sum(${n}))` }
    case 'min':
    case 'max':
      if (args.length !== 1) return undefined
      return { inner: [`${name}(${text(value)})`], outer: ([most]) => `${name}(${most})` }
    default: {
      if (args.length !== 2 || by.class !== 'COLUMN_REF' || roleOf(by) !== 'time') return undefined
      const newest = ['arg_max', 'max_by', 'last'].includes(name)
      const time = `epoch_ns(${text(by)})`
      const pick = newest ? 'arg_max' : 'arg_min'
      return {
        inner: [`${pick}(${text(value)}, ${time})`, `${newest ? 'max' : 'min'}(${time}) FILTER (WHERE ${text(value)} IS NOT NULL)`],
        outer: ([best, at]) => `${pick}(${best}, ${at})`,
      }
    }
  }
}

/** ORDER BY and LIMIT that name output columns: by number, alias or grouped tag. */
function ordersByOutput(modifier: Node, items: Node[], tagKeys: Node[]): boolean {
  if (modifier.type !== 'ORDER_MODIFIER') return modifier.type === 'LIMIT_MODIFIER' || modifier.type === 'LIMIT_PERCENT_MODIFIER'
  const names = new Set(items.map(({ alias }) => alias))
  const tags = new Set(tagKeys.map(bare))
  return ((modifier.orders ?? []) as Node[]).every(({ expression }) => {
    if (constantInteger(expression) !== undefined) return true
    if (expression?.class !== 'COLUMN_REF') return false
    return (expression.column_names.length === 1 && names.has(expression.column_names[0])) || tags.has(bare(expression))
  })
}
