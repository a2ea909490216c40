/**
 * Which times and series a scan can need, read off WHERE and ON.
 *
 * The rule that makes it safe: a condition may restrict a scan only if every row of the result must satisfy it with the scan's own
 * column, and it is never true of NULL. Then rows outside cannot be in the result, whatever the joins do. Whatever is not understood
 * restricts nothing; the conditions stay in the statement.
 */
import { constantText, type Node } from './ast.ts'
import { foldInstant } from './fold.ts'
import { MAX_TIME, MIN_TIME, type TagHint, type TagPattern, type TagRegex, type TagValues } from './host.ts'
import { isQuickPattern } from './like.ts'
import { readsClockColumn, resolveHere, type Scope, type Source } from './scope.ts'
import { exactRegex } from './tag-regex.ts'
import { type TimeTerm, timeTerm, valueFor } from './time-term.ts'

/** FROM as far as pruning must know it. */
export type FromPlan =
  | { kind: 'source'; source: Source }
  | { kind: 'join'; left: FromPlan; right: FromPlan; type: string; ref: string; on: Node | undefined; onScope: () => Scope }
  | { kind: 'other' }

type Range = [bigint, bigint]
/** Patterns of a source: each is put to all values of a tag, in one turn. */
const MOST_PATTERNS = 8
const MOST_REGEXES = 2
/** LIKE, and what looks for a regular expression in all of a text or in a part of it. */
const PATTERNS = new Set(['~~', '~', 'regexp_full_match', 'regexp_matches'])
const FULL: Range = [MIN_TIME, MAX_TIME]
const EMPTY: Range = [1n, 0n]

/** @returns the conditions that the scan settles by itself: every row it brings satisfies them, so the statement need not ask again. */
export function prune(plan: FromPlan, conditions: readonly Node[], scope: Scope, now: bigint): Set<Node> {
  if (plan.kind === 'source' && plan.source.tableName !== undefined) {
    plan.source.tags.push(...conditions.flatMap((condition) => valuesHint(condition, plan.source, scope) ?? []))
  } else if (plan.kind === 'source' && plan.source.measurement !== undefined) {
    const { source } = plan
    return new Set(conditions.filter((condition) => restrict(source, condition, scope, now)))
  }
  if (plan.kind === 'join') pruneJoin(plan, conditions, scope, now)
  return new Set()
}

function pruneJoin(plan: Extract<FromPlan, { kind: 'join' }>, conditions: readonly Node[], scope: Scope, now: bigint): void {
  // A positional join pairs rows by number, an ASOF join picks its partner from all rows of the right side: nothing may go missing there.
  if (plan.ref === 'POSITIONAL') return
  if (plan.ref === 'ASOF') {
    if (plan.type === 'INNER' || plan.type === 'LEFT') prune(plan.left, conditions, scope, now)
    return
  }
  const on = conjuncts(plan.on)
  const both = on.length > 0 ? [...conditions, ...on] : conditions
  const filters = plan.type === 'SEMI' || plan.type === 'ANTI'
  const keepsLeft = plan.type === 'LEFT' || plan.type === 'FULL' || plan.type === 'ANTI'
  const keepsRight = plan.type === 'RIGHT' || plan.type === 'FULL'
  prune(plan.left, keepsLeft ? conditions : both, scope, now)
  prune(plan.right, filters ? on : keepsRight ? conditions : both, plan.onScope(), now)
}

export function conjuncts(node: Node | undefined): Node[] {
  if (node === undefined) return []
  return node.class === 'CONJUNCTION' && node.type === 'CONJUNCTION_AND' ? (node.children as Node[]).flatMap(conjuncts) : [node]
}

/** @returns whether the range or the hint says all that the condition says. */
function restrict(source: Source, condition: Node, scope: Scope, now: bigint): boolean {
  const isTime = (node: Node): boolean => refersTo(node, source, scope, 'time') !== undefined
  const range = readsClockColumn(condition, scope) ? undefined : rangeOf(condition, isTime, now)
  if (range !== undefined) source.time = intersect(source.time, range)
  const hint = tagHint(condition, source, scope)
  if (hint !== undefined) source.tags.push(hint)
  return hint !== undefined || (range !== undefined && saysARange(condition, isTime, now))
}

/** A plain comparison of the time with instants; of BETWEEN both ends must be known, and a list is only one value. */
function saysARange(node: Node, isTime: (node: Node) => boolean, now: bigint): boolean {
  if (node.class === 'COMPARISON') return isTime(node.left) || isTime(node.right)
  if (node.class === 'BETWEEN') return isTime(node.input) && foldInstant(node.lower, now) !== undefined && foldInstant(node.upper, now) !== undefined
  return node.class === 'OPERATOR' && node.children.length === 2 && isTime(node.children[0])
}

function refersTo(node: Node, source: Source, scope: Scope, role: 'time' | 'tag'): string | undefined {
  if (node?.class !== 'COLUMN_REF') return undefined
  const found = resolveHere(node.column_names, scope).find((hit) => hit.source === source)
  if (source.tableName !== undefined) return role === 'tag' && found?.column.public === source.tableName ? source.tableName : undefined
  return found?.column.column?.role === role ? found.column.name : undefined
}

/** The times for which the condition can hold; undefined: any. */
function rangeOf(node: Node, isTime: (node: Node) => boolean, now: bigint): Range | undefined {
  const range = (type: string, of: Node, other: Node): Range | undefined => {
    const term = timeTerm(of, isTime)
    return term === undefined ? undefined : compared(type, term, valueFor(term, other, now))
  }
  switch (node.class) {
    case 'COMPARISON':
      return range(node.type, node.left, node.right) ?? range(MIRROR[node.type] ?? node.type, node.right, node.left)
    case 'BETWEEN': {
      const low = range('COMPARE_GREATERTHANOREQUALTO', node.input, node.lower)
      const high = range('COMPARE_LESSTHANOREQUALTO', node.input, node.upper)
      if (low !== undefined || high !== undefined) return intersect(low ?? FULL, high ?? FULL)
      // An instant between two times of the row.
      return intersect(
        range('COMPARE_LESSTHANOREQUALTO', node.lower, node.input) ?? FULL,
        range('COMPARE_GREATERTHANOREQUALTO', node.upper, node.input) ?? FULL,
      )
    }
    case 'OPERATOR': {
      const [of, ...values] = (node.children ?? []) as Node[]
      if (node.type !== 'COMPARE_IN' || timeTerm(of, isTime) === undefined) return undefined
      return hull(values.map((value) => range('COMPARE_EQUAL', of, value)))
    }
    case 'CONJUNCTION': {
      const parts = (node.children as Node[]).map((child) => rangeOf(child, isTime, now))
      if (node.type === 'CONJUNCTION_OR') return hull(parts)
      return parts.reduce<Range>((range, part) => intersect(range, part ?? FULL), FULL)
    }
    default:
      return undefined
  }
}

const MIRROR: Record<string, string> = {
  COMPARE_LESSTHAN: 'COMPARE_GREATERTHAN',
  COMPARE_GREATERTHAN: 'COMPARE_LESSTHAN',
  COMPARE_LESSTHANOREQUALTO: 'COMPARE_GREATERTHANOREQUALTO',
  COMPARE_GREATERTHANOREQUALTO: 'COMPARE_LESSTHANOREQUALTO',
}

function compared(type: string, { shift, slack }: TimeTerm, value: bigint | undefined): Range | undefined {
  if (value === undefined) return undefined
  const at = value - shift
  switch (type) {
    case 'COMPARE_EQUAL':
      return clamp(at, at + slack)
    case 'COMPARE_LESSTHAN':
      return clamp(MIN_TIME, at + slack - 1n)
    case 'COMPARE_LESSTHANOREQUALTO':
      return clamp(MIN_TIME, at + slack)
    case 'COMPARE_GREATERTHAN':
      return clamp(at + 1n, MAX_TIME)
    case 'COMPARE_GREATERTHANOREQUALTO':
      return clamp(at, MAX_TIME)
    default:
      return undefined
  }
}

function clamp(low: bigint, high: bigint): Range {
  if (low > high || low > MAX_TIME || high < MIN_TIME) return EMPTY
  return [low < MIN_TIME ? MIN_TIME : low, high > MAX_TIME ? MAX_TIME : high]
}

function intersect(a: Range, b: Range): Range {
  const low = later(a[0], b[0])
  const high = earlier(a[1], b[1])
  return low > high ? EMPTY : [low, high]
}

// Math.min and Math.max do not take bigint.
function earlier(a: bigint, b: bigint): bigint {
  if (a < b) return a
  return b
}

function later(a: bigint, b: bigint): bigint {
  if (a > b) return a
  return b
}

function hull(parts: (Range | undefined)[]): Range | undefined {
  let range: Range = EMPTY
  for (const part of parts) {
    if (part === undefined) return undefined
    if (part[0] > part[1]) continue
    range = range[0] > range[1] ? part : [earlier(part[0], range[0]), later(part[1], range[1])]
  }
  return range
}

function tagHint(node: Node, source: Source, scope: Scope): TagHint | undefined {
  return valuesHint(node, source, scope) ?? patternHint(node, source, scope)
}

/** tag LIKE 'x%', tag ~ 'x.*', regexp_matches(tag, '^x'). */
function patternHint(node: Node, source: Source, scope: Scope): TagPattern | TagRegex | undefined {
  const { class: kind, function_name: name, children, filter, order_bys: order } = node
  if (kind !== 'FUNCTION' || !PATTERNS.has(name) || children?.length !== 2 || filter !== undefined || order?.orders !== undefined) return undefined
  if (source.tags.filter((hint) => !('values' in hint)).length === MOST_PATTERNS) return undefined
  if (name !== '~~' && source.tags.filter((hint) => 'regex' in hint).length === MOST_REGEXES) return undefined
  const tag = refersTo(children[0], source, scope, 'tag')
  const text = constantText(children[1])
  if (tag === undefined || text === undefined) return undefined
  if (name === '~~') return isQuickPattern(text) ? { tag, like: text } : undefined
  const regex = exactRegex(text, name !== 'regexp_matches')
  return regex === undefined ? undefined : { tag, regex }
}

/** tag = 'x', tag IN ('x', 'y'), and ORs of those over one tag. The empty string is left alone: an absent tag may read as that. */
function valuesHint(node: Node, source: Source, scope: Scope): TagValues | undefined {
  if (node.class === 'COMPARISON' && node.type === 'COMPARE_EQUAL')
    return hintOf([node.left, node.right], source, scope) ?? hintOf([node.right, node.left], source, scope)
  if (node.class === 'OPERATOR' && node.type === 'COMPARE_IN') return hintOf(node.children, source, scope)
  if (node.class !== 'CONJUNCTION' || node.type !== 'CONJUNCTION_OR') return undefined
  const parts = (node.children as Node[]).map((child) => valuesHint(child, source, scope))
  const first = parts[0]
  if (first === undefined || parts.some((part) => part?.tag !== first.tag)) return undefined
  return { tag: first.tag, values: [...new Set(parts.flatMap((part) => part?.values ?? []))] }
}

function hintOf([column, ...values]: Node[], source: Source, scope: Scope): TagValues | undefined {
  const tag = refersTo(column, source, scope, 'tag')
  if (tag === undefined) return undefined
  const texts = values.map(constantText)
  return texts.every((text) => text !== undefined && text !== '') ? { tag, values: texts as string[] } : undefined
}
