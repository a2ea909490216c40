/** Conditions besides those on the time: comparisons of fields with numbers, one of which must hold or all, fields that have a value, and tags that are some values, are none of them, or are like a pattern. */
import { constantInteger, constantNumber, constantText, type Node } from '../ast.ts'
import { conjuncts } from '../prune.ts'
import { OPERATION, only } from './members.ts'
import type { Alternatives, ColumnNames, Compared, Comparison, Conditions, FilterPlan, TagFilter } from './plan.ts'

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
/** Comparisons of fields in one list of conditions: all rows are looked through for each. */
export const MAX_COMPARISONS = 64
/** A decimal of so many digits is the nearest double to DuckDB as well. */
const EXACT_DIGITS = 15
/** Longer ones are DuckDB's. */
const MAX_PATTERN_LENGTH = 256

/** Undefined where some of them are not known here, or they are very many. */
export function conditionsOf(all: readonly Node[], columns: ColumnNames): Conditions | undefined {
  const filters: FilterPlan[] = []
  const tagFilters: TagFilter[] = []
  const anyOf: Alternatives[] = []
  for (const condition of all) {
    const filter = filterOf(condition, columns)
    const alternatives = filter === undefined ? alternativesOf(condition, columns) : undefined
    const tagFilter = filter === undefined ? tagFilterOf(condition, (node) => columns.tag(node)) : undefined
    if (filter !== undefined) filters.push(...filter)
    else if (tagFilter !== undefined) tagFilters.push(tagFilter)
    else if (alternatives !== undefined) anyOf.push(alternatives)
    else return undefined
  }
  const found = { tagFilters, filters, anyOf }
  return comparedFields(found).length > MAX_COMPARISONS ? undefined : found
}

/** All of both. */
export function joined(a: Conditions, b: Conditions): Conditions {
  return { tagFilters: [...a.tagFilters, ...b.tagFilters], filters: [...a.filters, ...b.filters], anyOf: [...a.anyOf, ...b.anyOf] }
}

/** The field of each comparison. */
export function comparedFields({ filters, anyOf }: Pick<Conditions, 'filters' | 'anyOf'>): string[] {
  return [...filters, ...anyOf.flat(2)].map(({ field }) => field)
}

/** `x > 5 OR y < 3 AND z < 2`, `x IN (1, 2)` */
function alternativesOf(node: Node, columns: ColumnNames): Alternatives | undefined {
  if (node.class === 'OPERATOR' && node.type === 'COMPARE_IN') return equalsOf(node, columns)?.map((filter) => [filter])
  if (node.class !== 'CONJUNCTION' || node.type !== 'CONJUNCTION_OR') return undefined
  const found = (node.children as Node[]).map((child) => {
    const filters = conjuncts(child).map((each) => filterOf(each, columns))
    return filters.includes(undefined) ? alternativesOf(child, columns) : [filters.flatMap((each) => each ?? [])]
  })
  return found.includes(undefined) ? undefined : found.flatMap((each) => each ?? [])
}

/** Of a list of numbers; integers are compared with integers, since a list has one type. */
function equalsOf({ children }: Node, columns: ColumnNames): FilterPlan[] | undefined {
  const [of, ...numbers] = children as Node[]
  const field = columns.field(of)
  if (field === undefined || (field.type !== 'float64' && numbers.some((each) => constantInteger(each) === undefined))) return undefined
  const values = numbers.map(exactNumber)
  return values.includes(undefined) ? undefined : values.map((value) => ({ field: field.name, comparison: '=', value: value as number }))
}

/** A comparison of a field with a number or with another, that it has a value, or is none of some. */
function filterOf(node: Node, columns: ColumnNames): FilterPlan[] | undefined {
  if (node.class === 'OPERATOR' && node.type === 'OPERATOR_IS_NOT_NULL') {
    const field = columns.field(node.children[0])?.name
    return field === undefined ? undefined : [{ field, comparison: '>=', value: -Number.MAX_VALUE }]
  }
  if (node.class === 'OPERATOR' && node.type === 'COMPARE_NOT_IN') return equalsOf(node, columns)?.map((each) => ({ ...each, comparison: '<>' }))
  const compared = comparedOf(node, (each) => columns.field(each)?.name)?.map(({ of: field, ...how }) => ({ field, ...how }))
  if (compared !== undefined || node.class !== 'COMPARISON') return compared
  const comparison = COMPARISONS[node.type]
  const field = comparison === undefined ? undefined : columns.difference(node.left, node.right)
  return field === undefined ? undefined : [{ field, comparison, value: 0 }]
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
