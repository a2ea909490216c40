/** Conditions besides those on the time: comparisons of fields with a number, fields that have a value, and tags that are some values, are none of them, or are like a pattern. */
import { constantInteger, constantNumber, constantText, type Node } from '../ast.ts'
import { OPERATION, only } from './members.ts'
import type { ColumnNames, Compared, Comparison, Conditions, FilterPlan, TagFilter } from './plan.ts'

const COMPARISONS: Record<string, Comparison> = {
  COMPARE_EQUAL: '=',
  COMPARE_NOTEQUAL: '<>',
  COMPARE_LESSTHAN: '<',
  COMPARE_GREATERTHAN: '>',
  COMPARE_LESSTHANOREQUALTO: '<=',
  COMPARE_GREATERTHANOREQUALTO: '>=',
}
const MIRROR: Record<Comparison, Comparison> = { '=': '=', '<>': '<>', '<': '>', '>': '<', '<=': '>=', '>=': '<=' }
/** Whether a number compares so with another. */
export const HOLDS: Record<Comparison, (a: number, b: number) => boolean> = {
  '=': (a, b) => a === b,
  '<>': (a, b) => a !== b,
  '<': (a, b) => a < b,
  '<=': (a, b) => a <= b,
  '>': (a, b) => a > b,
  '>=': (a, b) => a >= b,
}
const EXACT = 2n ** 53n
/** A decimal of so many digits is the nearest double to DuckDB as well. */
const EXACT_DIGITS = 15
/** Longer ones are DuckDB's. */
const MAX_PATTERN_LENGTH = 256

/** Undefined where some of them are not known here. */
export function conditionsOf(all: readonly Node[], columns: ColumnNames): Conditions | undefined {
  const filters: FilterPlan[] = []
  const tagFilters: TagFilter[] = []
  for (const condition of all) {
    const filter = filterOf(condition, columns)
    const tagFilter = filter === undefined ? tagFilterOf(condition, (node) => columns.tag(node)) : undefined
    if (filter !== undefined) filters.push(...filter)
    else if (tagFilter !== undefined) tagFilters.push(tagFilter)
    else return undefined
  }
  return { tagFilters, filters }
}

/** A comparison of a field, or that it has a value. */
function filterOf(node: Node, columns: ColumnNames): FilterPlan[] | undefined {
  if (node.class === 'OPERATOR' && node.type === 'OPERATOR_IS_NOT_NULL') {
    const field = columns.field(node.children[0])?.name
    return field === undefined ? undefined : [{ field, comparison: '>=', value: -Number.MAX_VALUE }]
  }
  return comparedOf(node, (each) => columns.field(each)?.name)?.map(({ of: field, ...how }) => ({ field, ...how }))
}

/** `x > 5`, `5 < x`, `x BETWEEN 1 AND 5`. */
export function comparedOf<T>(node: Node, meant: (node: Node) => T | undefined): Compared<T>[] | undefined {
  if (node.class === 'BETWEEN' && node.type === 'COMPARE_BETWEEN') {
    const of = meant(node.input)
    const [low, high] = [exactNumber(node.lower), exactNumber(node.upper)]
    if (of === undefined || low === undefined || high === undefined) return undefined
    return [
      { of, comparison: '>=', value: low },
      { of, comparison: '<=', value: high },
    ]
  }
  const comparison = node.class === 'COMPARISON' ? COMPARISONS[node.type] : undefined
  if (comparison === undefined) return undefined
  const [left, right] = [exactNumber(node.left), exactNumber(node.right)]
  const of = right !== undefined ? meant(node.left) : left !== undefined ? meant(node.right) : undefined
  if (of === undefined) return undefined
  return right !== undefined ? [{ of, comparison, value: right }] : [{ of, comparison: MIRROR[comparison], value: left as number }]
}

/** A number that is a double without loss. */
export function exactNumber(node: Node | undefined): number | undefined {
  const integer = constantInteger(node)
  if (integer !== undefined) return integer > -EXACT && integer < EXACT ? Number(integer) : undefined
  if (node?.value?.type?.id === 'DECIMAL' && !(Number(node.value.type.type_info?.width) <= EXACT_DIGITS)) return undefined
  const value = constantNumber(node)
  return value !== undefined && Number.isFinite(value) ? value : undefined
}

/** tag = 'x', tag IN ('x', 'y'), tag LIKE 'x%', and that they do not hold. The empty string is left alone: an absent tag may read as that. */
function tagFilterOf(node: Node, tagOf: (node: Node) => string | undefined): TagFilter | undefined {
  if (node.class === 'FUNCTION') return likeOf(node, tagOf)
  const negated = node.type === 'COMPARE_NOTEQUAL' || node.type === 'COMPARE_NOT_IN'
  if (node.class === 'COMPARISON' && (negated || node.type === 'COMPARE_EQUAL'))
    return oneOf(tagOf, node.left, [node.right], negated) ?? oneOf(tagOf, node.right, [node.left], negated)
  if (node.class !== 'OPERATOR' || (!negated && node.type !== 'COMPARE_IN')) return undefined
  const [of, ...values] = node.children as Node[]
  return oneOf(tagOf, of, values, negated)
}

function oneOf(tagOf: (node: Node) => string | undefined, of: Node, values: readonly Node[], negated: boolean): TagFilter | undefined {
  const tag = tagOf(of)
  const texts = tag === undefined ? [] : values.map(constantText)
  if (tag === undefined || texts.some((text) => text === undefined || text === '')) return undefined
  return { tag, is: { oneOf: texts as string[] }, negated }
}

function likeOf(node: Node, tagOf: (node: Node) => string | undefined): TagFilter | undefined {
  const [of, pattern, ...more] = (node.children ?? []) as Node[]
  const negated = node.function_name === '!~~'
  if ((!negated && node.function_name !== '~~') || more.length > 0 || !only(node, OPERATION) || node.order_bys?.orders !== undefined) return undefined
  const tag = tagOf(of)
  const like = constantText(pattern)
  return tag === undefined || like === undefined || like.length > MAX_PATTERN_LENGTH ? undefined : { tag, is: { like }, negated }
}
