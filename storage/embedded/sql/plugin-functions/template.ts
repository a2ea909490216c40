/**
 * What a call of a plugin's function stands for, as a tree in terms of its arguments: the function's own expression, or the call of its module over columns,
 * or over the lists of a group or a partition. Parsed once for each function and set of constants.
 */
import type { SqlArgument, SqlConstant } from 'svcdb'
import { type FunctionSpec, isNative } from '../../threads/function-spec.ts'
import { ident, literal, type Node, type Parse, refuse, walk } from '../ast.ts'
import { foldName } from '../names.ts'

export interface Template {
  tree: Node
  /** What stands for each argument: of a value that is cast the cast, whose child is to be the value; of a constant itself. */
  arguments: ReadonlyMap<string, { node: Node; cast: boolean }>
}

/** Stands for the call of the module. */
export const CALL = '__call'
const PARTITION = '__partition'
const ORDER = '__order'
/** An expression names the caller's window by these. */
const WINDOWS = `WINDOW whole AS (PARTITION BY ${PARTITION}), ordered AS (PARTITION BY ${PARTITION} ORDER BY ${ORDER})`
const WHOLE_FRAME = '(ordered ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING)'

/** What an expression may hold: nothing that brings names along. */
const CLASSES = new Set(['COLUMN_REF', 'CONSTANT', 'CAST', 'COMPARISON', 'BETWEEN', 'CONJUNCTION', 'CASE', 'OPERATOR', 'FUNCTION', 'WINDOW'])

export const valuesOf = ({ args }: Pick<FunctionSpec, 'args'>): readonly SqlArgument[] => args.filter(({ constant }) => constant === undefined)
export const constantsOf = ({ args }: Pick<FunctionSpec, 'args'>): readonly SqlArgument[] => args.filter(({ constant }) => constant !== undefined)

/** @param text of the function's expression. @throws SQL_ERROR for an expression that is none. */
export async function makeTemplate(spec: FunctionSpec, text: string, constants: readonly SqlConstant[], parse: Parse): Promise<Template> {
  const args = spec.args.map((arg) => {
    const { name, type, constant } = arg
    if (constant !== undefined) return constantSql(arg, constants[constantsOf(spec).indexOf(arg)])
    return type === undefined ? ident(name) : `CAST(${ident(name)} AS ${type})`
  })
  const wrong = (cause: string): Error => refuse(`cannot call ${spec.name}: its expression in plugin "${spec.plugin}" ${cause}`)
  const { tree, parameters } = await parse(`SELECT ${[text, ...args].join(', ')} ${WINDOWS}`).catch((error: Error) => {
    throw wrong(`is no expression: ${error.message}`)
  })
  const [expression, ...nodes] = (tree.select_list ?? []) as Node[]
  if (tree.type !== 'SELECT_NODE' || nodes.length !== spec.args.length || parameters.length > 0 || tree.from_table?.type !== 'EMPTY')
    throw wrong('is no expression')
  const known = new Set(spec.args.map(({ name }) => name))
  walk(expression, (node) => {
    if (typeof node.class !== 'string') return
    if (!CLASSES.has(node.class)) throw wrong(`holds a ${foldName(node.class).replaceAll('_', ' ')}, which is not allowed there`)
    if (node.class === 'COLUMN_REF' && !isMark(node, PARTITION) && !isMark(node, ORDER) && !(node.column_names.length === 1 && known.has(node.column_names[0])))
      throw wrong(`names "${node.column_names.join('.')}", which is no argument`)
    if (node.class === 'WINDOW' && !(node.partitions?.length === 1 && isMark(node.partitions[0], PARTITION)))
      throw wrong('has a window that is neither "whole" nor "ordered"')
    if (node.class === 'WINDOW' && spec.kind !== 'window') throw wrong('has a window, and the function is not of that kind')
  })
  return {
    tree: expression,
    arguments: new Map(spec.args.map(({ name, type, constant }, i) => [name, { node: nodes[i], cast: constant === undefined && type !== undefined }])),
  }
}

/** @returns whether the node is one of the names that stand for what the caller's window has. */
function isMark(node: Node, name: string): boolean {
  return node.class === 'COLUMN_REF' && node.column_names.length === 1 && node.column_names[0] === name
}

/** The window of the caller in place of the template's. */
export function withWindow(node: Node, caller: Node, copy: (node: Node[]) => Node[]): void {
  if (caller.partitions === undefined) delete node.partitions
  else node.partitions = copy(caller.partitions)
  const ordered = node.orders?.length === 1 && isMark(node.orders[0].expression, ORDER)
  if (!ordered) return
  if (caller.orders === undefined) delete node.orders
  else node.orders = copy(caller.orders)
}

/** The call of a function's module, as an expression. */
export function nativeExpression(spec: FunctionSpec): string {
  if (!isNative(spec)) throw new Error(`"${spec.name}" has no module to call`)
  const constants = constantsOf(spec).map(({ name }) => ident(name))
  const values = valuesOf(spec).map(({ name }) => ident(name))
  if (spec.kind === 'scalar') return `${CALL}(${[...values, ...constants].join(', ')})`
  if (spec.kind === 'window') {
    const lists = values.map((name) => `list(${name}) OVER ${WHOLE_FRAME}`)
    return `${CALL}(${[...lists, 'row_number() OVER ordered', ...constants].join(', ')})`
  }
  const present = values.map((name) => `${name} IS NOT NULL`).join(' AND ')
  const order = spec.orderedBy === undefined ? '' : ` ORDER BY ${ident(spec.orderedBy)}`
  const lists = values.map((name) => `list(${name}${order}) FILTER (WHERE ${present})`)
  return `${CALL}(${[...lists, ...constants].join(', ')})`
}

function constantSql({ type }: SqlArgument, value: SqlConstant): string {
  if (typeof value === 'string') return literal(value)
  if (typeof value === 'boolean') return value ? 'TRUE' : 'FALSE'
  return type === 'INTEGER' ? String(value) : `CAST(${value} AS ${type})`
}
