/**
 * Parameters of a statement: `?`, `$1` and `$name`, as DuckDB's parser has them. Values become constants of the tree before it is looked at, so that
 * they prune scans and satisfy whatever asks for a constant, as if they stood in the text; the gate sees nothing new.
 */
import type { SqlParameter } from 'svcdb'
import { decimalText, type Node, refuse, walk } from './ast.ts'
import type { Printer } from './printer.ts'

/** As many as a statement may have: numbers in the text must not make long lists. */
const MAX_PARAMETERS = 65_535
const MAX_DECIMAL_DIGITS = 38
/** Where a constant came from: `$1`. Not a member that a printer would have to know. */
const SOURCE = Symbol('parameter')
/** The number of a parameter that is left open: its place among those that the text uses. */
const PLACE = Symbol('place')

type Bound = Node & { [SOURCE]?: string; [PLACE]?: number }

/** @param map as the parser lists them: names and numbers from 1. @returns the names by number; undefined for a number that the text does not use. */
export function parameterNames(map: readonly Node[]): (string | undefined)[] {
  const names: (string | undefined)[] = []
  for (const { key, value } of map) {
    if (value > MAX_PARAMETERS) throw refuse(`cannot run a query with parameter $${value}: at most ${MAX_PARAMETERS} are allowed`)
    names[Number(value) - 1] = String(key)
  }
  return Array.from(names)
}

/**
 * Puts values in the places of parameters.
 * @param values by number; undefined leaves the parameter for DuckDB to infer its type.
 */
export function bindParameters(tree: Node, names: readonly (string | undefined)[], values: readonly (SqlParameter | undefined)[]): void {
  const numbers = new Map(names.map((name, i) => [name, i]))
  const used = names.filter((name) => name !== undefined)
  walk(tree, (node) => {
    for (const order of node.type === 'ORDER_MODIFIER' ? ((node.orders ?? []) as Node[]) : []) forbid(order.expression, 'ORDER BY')
    for (const key of (node.group_expressions ?? []) as Node[]) forbid(key, 'GROUP BY')
  })
  walk(tree, (node: Bound) => {
    if (node.class !== 'PARAMETER') return
    const name = String(node.identifier)
    const value = values[numbers.get(name) ?? -1]
    if (value === undefined) {
      node[PLACE] = used.indexOf(name) + 1
      return
    }
    delete node.identifier
    Object.assign(node, constantOf(value, name))
    node[SOURCE] = `$${name}`
  })
}

/** A number there would count columns as a literal, and be a constant as a value. */
function forbid(node: Node | undefined, clause: string): void {
  if (node?.class === 'PARAMETER')
    throw refuse(`cannot run this query: a parameter in ${clause} stands for a value, which orders nothing; write the column into the text`)
}

/**
 * The values by number. Of those given by name, what the query does not have is passed over: clients send one set with several queries.
 * @throws SQL_ERROR when there are not as many values as parameters, or none for a name.
 */
export function valuesOf(
  names: readonly (string | undefined)[],
  given: readonly (SqlParameter | undefined)[] | ReadonlyMap<string, SqlParameter> | undefined,
): readonly (SqlParameter | undefined)[] {
  if (given === undefined) return []
  if (!(given instanceof Map)) {
    checkCount(names, given as readonly unknown[])
    return given as readonly (SqlParameter | undefined)[]
  }
  return names.map((name) => {
    // A number that the text leaves out takes any value.
    if (name === undefined) return null
    const value = given.get(name) as SqlParameter | undefined
    if (value === undefined) throw refuse(`cannot run the query: no value was given for its parameter $${name}`)
    return value
  })
}

/** For statements that cannot have any. */
export function checkNone(given: readonly unknown[] | ReadonlyMap<string, unknown> | undefined): void {
  if (Array.isArray(given)) checkCount([], given)
}

function checkCount(names: readonly unknown[], values: readonly unknown[]): void {
  if (names.length === values.length) return
  const has = names.length === 0 ? 'no parameters' : names.length === 1 ? 'one parameter' : `${names.length} parameters`
  throw refuse(`cannot run the query: it has ${has}, and ${values.length === 1 ? 'one value was' : `${values.length} values were`} given`)
}

function constantOf(value: SqlParameter, name: string): Node {
  if (value === null) return { class: 'CONSTANT', type: 'VALUE_CONSTANT', value: { type: { id: 'SQLNULL' }, is_null: true } }
  switch (typeof value) {
    case 'boolean':
      return constant('BOOLEAN', value)
    case 'number':
      return constant('DOUBLE', value)
    case 'bigint':
      return integer(value, name)
    case 'string':
      if (value.includes('\0')) throw refuse(`cannot bind parameter $${name}: its text contains a NUL character`)
      return constant('VARCHAR', value)
  }
  if (value instanceof Uint8Array) {
    const text = Array.from(value, (byte) => `\\x${byte.toString(16).padStart(2, '0')}`).join('')
    return { class: 'CAST', type: 'OPERATOR_CAST', child: constant('VARCHAR', text), cast_type: { id: 'BLOB' } }
  }
  if ('timestamp' in value) {
    return { class: 'FUNCTION', type: 'FUNCTION', function_name: 'make_timestamp_ns', children: [constant('BIGINT', inRange(value.timestamp, name))] }
  }
  return decimal(value, name)
}

export const constant = (id: string, value: unknown, type_info?: Node): Node => ({
  class: 'CONSTANT',
  type: 'VALUE_CONSTANT',
  value: { type: { id, ...(type_info && { type_info }) }, is_null: false, value },
})

function integer(value: bigint, name: string): Node {
  if (BigInt.asIntN(64, value) === value) return constant('BIGINT', value)
  if (BigInt.asUintN(64, value) === value) return constant('UBIGINT', value)
  if (BigInt.asIntN(128, value) !== value) throw refuse(`cannot bind parameter $${name}: the integer has more than 128 bits`)
  return constant('HUGEINT', value)
}

function inRange(ns: bigint, name: string): bigint {
  if (BigInt.asIntN(64, ns) !== ns) throw refuse(`cannot bind parameter $${name}: the time is outside the range of nanoseconds in 64 bits`)
  return ns
}

function decimal({ decimal: unscaled, scale }: { decimal: bigint; scale: number }, name: string): Node {
  const whole = scale < 0 ? unscaled * 10n ** BigInt(-scale) : unscaled
  const digits = Math.max(String(whole < 0n ? -whole : whole).length, scale)
  if (digits > MAX_DECIMAL_DIGITS) throw refuse(`cannot bind parameter $${name}: the decimal has more than ${MAX_DECIMAL_DIGITS} digits`)
  return scale > 0 ? constant('DECIMAL', whole, { width: digits, scale }) : constant('HUGEINT', whole)
}

/** Of an expression that is, or was, a parameter: `$1`. */
export function parameterName(node: Bound): string | undefined {
  return node.class === 'PARAMETER' ? `$${node.identifier}` : node[SOURCE]
}

/** How an expression that is, or was, a parameter is printed; undefined: as what it is. A result column is called by the parameter's name in any case. */
export function printParameter(p: Printer, node: Bound): string | undefined {
  const name = parameterName(node)
  if (name === undefined) return undefined
  if (p.plain) return name
  p.rewrites++
  if (node.class === 'PARAMETER') return `$${node[PLACE]}`
  const { value } = node
  if (node.class !== 'CONSTANT' || value.is_null) return undefined
  switch (value.type.id) {
    case 'BIGINT':
    case 'UBIGINT':
    case 'HUGEINT':
      // A literal would take the smallest type that holds it, so that the value decided the type of the answer.
      return `CAST(${value.value} AS ${value.type.id})`
    case 'DOUBLE':
      return `CAST('${Object.is(value.value, -0) ? '-0' : value.value}' AS DOUBLE)`
    case 'DECIMAL':
      return `CAST('${decimalText(value)}' AS DECIMAL(${value.type.type_info.width}, ${value.type.type_info.scale}))`
    default:
      return undefined
  }
}
