/** Arguments that must be constants. */
import type { SqlArgument, SqlConstant } from 'svcdb'
import { constantInteger, constantNumber, constantText, type Node, refuse } from '../ast.ts'

const INTEGER_RANGE = { min: -(2 ** 31), max: 2 ** 31 - 1 }

/** @param node undefined where the statement leaves the argument out. @throws SQL_ERROR that says what it must be. */
export function constantOf(name: string, arg: SqlArgument, node: Node | undefined): SqlConstant {
  if (node === undefined && arg.default !== undefined) return arg.default
  const bounds = arg.constant === true || arg.constant === undefined ? {} : arg.constant
  const wrong = (what: string): Error => refuse(`cannot call ${name}: the argument ${arg.name} must be ${what}`)
  switch (arg.type) {
    case 'BOOLEAN': {
      const value = node === undefined ? undefined : booleanOf(node)
      if (value === undefined) throw wrong('TRUE or FALSE')
      return value
    }
    case 'VARCHAR': {
      const value = constantText(node)
      if (value === undefined) throw wrong('a constant text')
      return value
    }
    case 'DOUBLE': {
      // An expression that hands its constant on to another function writes it as CAST(0.5 AS DOUBLE), see template.ts.
      const value = constantNumber(node?.class === 'CAST' && node.cast_type?.id === 'DOUBLE' ? node.child : node)
      const { min = Number.NEGATIVE_INFINITY, max = Number.POSITIVE_INFINITY, above = Number.NEGATIVE_INFINITY } = bounds
      if (value === undefined || !(value >= min && value <= max && value > above)) throw wrong(`a constant number${inWords(bounds)}`)
      return value
    }
    default: {
      const value = constantInteger(node)
      const { min, max } = arg.type === 'INTEGER' ? { ...INTEGER_RANGE, ...bounds } : bounds
      const inside = value !== undefined && (min === undefined || value >= BigInt(min)) && (max === undefined || value <= BigInt(max))
      if (!inside) throw wrong(`a constant integer${min !== undefined && max !== undefined ? ` from ${min} to ${max}` : inWords(bounds)}`)
      return arg.type === 'INTEGER' ? Number(value) : (value as bigint)
    }
  }
}

function inWords({ min, max, above }: { min?: number; max?: number; above?: number }): string {
  const parts = [
    ...(above === undefined ? [] : [`above ${above}`]),
    ...(min === undefined ? [] : [`of at least ${min}`]),
    ...(max === undefined ? [] : [`at most ${max}`]),
  ]
  return parts.length === 0 ? '' : ` ${parts.join(' and ')}`
}

/** The parser writes TRUE as CAST('t' AS BOOLEAN). */
function booleanOf(node: Node): boolean | undefined {
  if (node.class === 'CONSTANT' && node.value?.type?.id === 'BOOLEAN') return node.value.value === true
  const text = node.class === 'CAST' && node.cast_type?.id === 'BOOLEAN' ? constantText(node.child) : undefined
  return text === 't' || text === 'true' ? true : text === 'f' || text === 'false' ? false : undefined
}
