/**
 * Calls of plugins' functions in a statement's tree become what they stand for, before anything looks at the tree: limits, bounds, pruning and the printer
 * see what runs, as if the caller had written it. A node keeps the call that it was, for the names of columns.
 */
import type { SqlConstant } from 'svcdb'
import type { SqlLimits } from '../../sql-limits.ts'
import { type FunctionSpec, nativeName } from '../../threads/function-spec.ts'
import { type Node, type Parse, refuse } from '../ast.ts'
import { AGGREGATES } from '../functions.ts'
import { foldName } from '../names.ts'
import { constantOf } from './constants.ts'
import type { PluginFunctions } from './plugin-functions.ts'
import { CALL, constantsOf, valuesOf, withWindow } from './template.ts'

/** On a node that took the place of a call: the call. Symbols are left out where members of a node are gone through. */
export const ORIGINAL = Symbol('the call as the statement has it')
/** On a call of a function's module. */
export const NATIVE = Symbol('the function whose module is called')

/** As deep as functions of a plugin may stand for one another. */
const MAX_NESTING = 8

interface Context {
  functions: PluginFunctions
  limits: Readonly<SqlLimits>
  parse: Parse
  /** Nodes copied so far. */
  copied: number
}

/** Changes the tree in place. @throws SQL_ERROR for a call that is wrong, or a statement that grows too large. */
export async function expandFunctions(tree: Node, functions: PluginFunctions, limits: Readonly<SqlLimits>, parse: Parse): Promise<void> {
  const calls: Node[] = []
  findCalls(tree, functions, NONE, calls)
  const context: Context = { functions, limits, parse, copied: 0 }
  for (const call of calls) await expand(call, undefined, context, 0)
}

const NONE: ReadonlySet<unknown> = new Set()

/** Those within the arguments of others come first. @param done parts that have been gone through. */
function findCalls(part: unknown, functions: PluginFunctions, done: ReadonlySet<unknown>, calls: Node[]): void {
  if (typeof part !== 'object' || part === null || done.has(part)) return
  const node = part as Node
  for (const key in node) if (typeof node[key] === 'object') findCalls(node[key], functions, done, calls)
  if ((node.class === 'FUNCTION' || node.class === 'WINDOW') && specOf(node, functions) !== undefined) calls.push(node)
}

function specOf(node: Node, functions: PluginFunctions): FunctionSpec | undefined {
  if (node.catalog !== undefined || (node.schema !== undefined && node.schema !== 'main')) return undefined
  return functions.get(foldName(String(node.function_name)))
}

/** @param owner plugin whose expression holds the call; undefined for the caller's own text. */
async function expand(node: Node, owner: string | undefined, context: Context, depth: number): Promise<void> {
  const spec = specOf(node, context.functions) as FunctionSpec
  const { name } = spec
  if (name.startsWith('_') && owner !== spec.plugin) return
  if (depth > MAX_NESTING) throw refuse(`cannot call ${name}: in plugin "${spec.plugin}" it stands for itself, or for too many others within each other`)
  checkUse(node, spec)
  const children = (node.children ?? []) as Node[]
  const [min, max] = [spec.args.filter((arg) => arg.default === undefined).length, spec.args.length]
  if (children.length < min || children.length > max)
    throw refuse(`cannot call ${name} with ${children.length} arguments: it takes ${min === max ? min : `${min} to ${max}`}`)
  const values = valuesOf(spec)
  const constants: SqlConstant[] = constantsOf(spec).map((arg, i) => constantOf(name, arg, children[values.length + i]))
  const template = await context.functions.template(spec, constants, context.parse)
  const settled = new Set<unknown>()
  const settle = (part: Node): Node => {
    const copied = copy(part, context)
    settled.add(copied)
    return copied
  }
  const bindings = new Map<string, () => Node>()
  for (const [argument, { node: given, cast }] of template.arguments) {
    const child = children[values.findIndex((arg) => arg.name === argument)]
    bindings.set(argument, () =>
      child === undefined ? settle(given) : cast ? { ...copy({ ...given, child: undefined }, context), child: settle(child) } : settle(child),
    )
  }
  const body = instantiate(template.tree, bindings, context) as Node
  const nested: Node[] = []
  shape(body, node, spec, settle, settled, context)
  findCalls(body, context.functions, settled, nested)
  for (const call of nested) await expand(call, spec.plugin, context, depth + 1)
  replace(node, body)
}

function checkUse(node: Node, { name, kind }: FunctionSpec): void {
  const over = node.class === 'WINDOW'
  if (kind === 'window' && !over) throw refuse(`cannot call ${name}: it is a window function and needs OVER (...)`)
  if (kind === 'scalar' && over) throw refuse(`cannot call ${name} with OVER: it is neither an aggregate nor a window function`)
  if (kind === 'window' && !(node.start === 'UNBOUNDED_PRECEDING' && node.end === 'CURRENT_ROW_RANGE' && node.exclude_clause === undefined))
    throw refuse(`cannot call ${name} with a frame: it has a window of its own; leave ROWS, RANGE and GROUPS out`)
  const filtered = node.filter !== undefined || node.filter_expr !== undefined
  const sorted = node.order_bys?.orders !== undefined || node.arg_orders !== undefined
  if ((filtered && kind !== 'aggregate') || node.distinct === true || sorted || node.ignore_nulls === true)
    throw refuse(`cannot call ${name} with DISTINCT,${kind === 'aggregate' ? '' : ' FILTER,'} ORDER BY among the arguments, or IGNORE NULLS`)
}

/** A copy of a template in which arguments stand for their names. */
function instantiate(part: unknown, bindings: ReadonlyMap<string, () => Node>, context: Context): unknown {
  if (typeof part !== 'object' || part === null) return part
  if (Array.isArray(part)) return part.map((each) => instantiate(each, bindings, context))
  const node = part as Node
  if (node.class === 'COLUMN_REF') {
    const bound = bindings.get(node.column_names[0])?.()
    // Else it stands for a part of the caller's window, which takes its place.
    if (bound !== undefined) return withAlias(bound, node.alias)
  }
  count(node, context)
  return Object.fromEntries(Object.entries(node).map(([key, value]) => [key, instantiate(value, bindings, context)]))
}

/** The caller's window, filter and frame, and the call of the module, within the function's own nodes. */
function shape(part: unknown, caller: Node, spec: FunctionSpec, settle: (part: Node) => Node, settled: ReadonlySet<unknown>, context: Context): void {
  if (typeof part !== 'object' || part === null || settled.has(part)) return
  const node = part as Node
  for (const key in node) if (typeof node[key] === 'object') shape(node[key], caller, spec, settle, settled, context)
  const list = (nodes: Node[]): Node[] => nodes.map(settle)
  if (node.class === 'WINDOW' && spec.kind === 'window') withWindow(node, caller, list)
  if (node.class !== 'FUNCTION') return
  if (node.function_name === CALL) {
    node.function_name = nativeName(spec.name)
    node[NATIVE] = spec
  } else if (spec.kind === 'aggregate' && isAggregate(node, context)) aggregateOf(node, caller, list)
}

function isAggregate(node: Node, { functions }: Context): boolean {
  return AGGREGATES.has(foldName(String(node.function_name))) || specOf(node, functions)?.kind === 'aggregate'
}

const FRAME = ['partitions', 'orders', 'start', 'end', 'start_expr', 'end_expr', 'exclude_clause'] as const

/** An aggregate takes in the rows that the caller's FILTER leaves, of the frame that its OVER says. */
function aggregateOf(node: Node, caller: Node, copied: (nodes: Node[]) => Node[]): void {
  const given = (caller.filter ?? caller.filter_expr) as Node | undefined
  const conditions = [node.filter as Node | undefined, given === undefined ? undefined : copied([given])[0]].filter((each) => each !== undefined)
  const filter = conditions.length > 1 ? { class: 'CONJUNCTION', type: 'CONJUNCTION_AND', children: conditions } : conditions[0]
  delete node.filter
  if (caller.class !== 'WINDOW') {
    if (filter !== undefined) node.filter = filter
    return
  }
  const { function_name, children, alias, distinct, order_bys: order } = node
  for (const key in node) delete node[key]
  Object.assign(node, { class: 'WINDOW', type: 'WINDOW_AGGREGATE', function_name, children })
  if (alias !== undefined) node.alias = alias
  if (distinct !== undefined) node.distinct = distinct
  if (order?.orders !== undefined) node.arg_orders = order.orders
  if (filter !== undefined) node.filter_expr = filter
  for (const key of FRAME) {
    const value = caller[key]
    if (value !== undefined) node[key] = Array.isArray(value) ? copied(value) : typeof value === 'object' ? copied([value])[0] : value
  }
}

function copy(node: Node, context: Context): Node {
  count(node, context)
  const out: Node = {}
  for (const key in node) {
    const value = node[key]
    out[key] = Array.isArray(value)
      ? value.map((each) => (typeof each === 'object' && each !== null ? copy(each, context) : each))
      : typeof value === 'object' && value !== null
        ? copy(value, context)
        : value
  }
  if (node[NATIVE as never] !== undefined) out[NATIVE as never] = node[NATIVE as never]
  if (node[ORIGINAL as never] !== undefined) out[ORIGINAL as never] = node[ORIGINAL as never]
  return out
}

/** Arguments that stand in several places multiply, and so do functions of functions. */
function count(node: Node, context: Context): void {
  if (typeof node.class === 'string' && ++context.copied > context.limits.nodes)
    throw refuse(
      `cannot run this query: with the functions of plugins written out it has more than ${context.limits.nodes} parts; simplify it, or raise [database] sql_max_nodes`,
    )
}

function withAlias(node: Node, alias: unknown): Node {
  if (alias === undefined) delete node.alias
  else node.alias = alias
  return node
}

function replace(node: Node, body: Node): void {
  const original = { ...node }
  for (const key in node) delete node[key]
  Object.assign(node, body)
  withAlias(node, original.alias)
  node[ORIGINAL as never] = (original[ORIGINAL as never] ?? original) as never
}
