/** Conditions besides those on the time and on equal tags: comparisons of a field with a number, and tags that are not some values. */
import { constantInteger, constantNumber, constantText, type Node } from '../ast.ts'
import type { TagHint } from '../host.ts'
import type { Comparison, FilterPlan } from './plan.ts'

const COMPARISONS: Record<string, Comparison> = {
  COMPARE_EQUAL: '=',
  COMPARE_NOTEQUAL: '<>',
  COMPARE_LESSTHAN: '<',
  COMPARE_GREATERTHAN: '>',
  COMPARE_LESSTHANOREQUALTO: '<=',
  COMPARE_GREATERTHANOREQUALTO: '>=',
}
const MIRROR: Record<Comparison, Comparison> = { '=': '=', '<>': '<>', '<': '>', '>': '<', '<=': '>=', '>=': '<=' }
const EXACT = 2n ** 53n
/** A decimal of so many digits is the nearest double to DuckDB as well. */
const EXACT_DIGITS = 15

export function filterOf(node: Node, fieldOf: (node: Node) => string | undefined): FilterPlan[] | undefined {
  if (node.class === 'BETWEEN' && node.type === 'COMPARE_BETWEEN') {
    const field = fieldOf(node.input)
    const [low, high] = [number(node.lower), number(node.upper)]
    if (field === undefined || low === undefined || high === undefined) return undefined
    return [
      { field, comparison: '>=', value: low },
      { field, comparison: '<=', value: high },
    ]
  }
  const comparison = node.class === 'COMPARISON' ? COMPARISONS[node.type] : undefined
  if (comparison === undefined) return undefined
  const [left, right] = [fieldOf(node.left), fieldOf(node.right)]
  const value = left !== undefined ? number(node.right) : number(node.left)
  if (value === undefined) return undefined
  if (left !== undefined) return [{ field: left, comparison, value }]
  return right === undefined ? undefined : [{ field: right, comparison: MIRROR[comparison], value }]
}

/** A number that is a double without loss. */
function number(node: Node | undefined): number | undefined {
  const integer = constantInteger(node)
  if (integer !== undefined) return integer > -EXACT && integer < EXACT ? Number(integer) : undefined
  if (node?.value?.type?.id === 'DECIMAL' && !(Number(node.value.type.type_info?.width) <= EXACT_DIGITS)) return undefined
  const value = constantNumber(node)
  return value !== undefined && Number.isFinite(value) ? value : undefined
}

/** tag <> 'x', tag NOT IN ('x', 'y'). The empty string is left alone: an absent tag may read as that. */
export function exclusionOf(node: Node, tagOf: (node: Node) => string | undefined): TagHint | undefined {
  if (node.class === 'COMPARISON' && node.type === 'COMPARE_NOTEQUAL')
    return excluded(tagOf, node.left, [node.right]) ?? excluded(tagOf, node.right, [node.left])
  if (node.class !== 'OPERATOR' || node.type !== 'COMPARE_NOT_IN') return undefined
  const [of, ...values] = node.children as Node[]
  return excluded(tagOf, of, values)
}

function excluded(tagOf: (node: Node) => string | undefined, of: Node, values: readonly Node[]): TagHint | undefined {
  const tag = tagOf(of)
  if (tag === undefined) return undefined
  const texts = values.map(constantText)
  return texts.every((text) => text !== undefined && text !== '') ? { tag, values: texts as string[] } : undefined
}
