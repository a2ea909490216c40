/** Vector selectors, their modifiers, and the label lists of `by`, `on` and `group_left`. */
import type { Expr, LabelMatcher, VectorSelector } from '../ast.ts'
import { METRIC_NAME } from '../labels.ts'
import type { Cursor } from './cursor.ts'
import { atNumber, bracketDuration, numberLiteral, offsetDuration } from './durations.ts'
import { formatFixed, quote } from './go-text.ts'
import { checkRegex } from './regex-syntax.ts'
import { unquote } from './strings.ts'
import { IDENTIFIER, isLabelName, isMetricName, STRING, type Token } from './tokens.ts'

const SELECTOR_EXPECTED = 'must be preceded by an instant vector selector or range vector selector or a subquery'
const MATCH_OPS = new Set<string>(['=', '!=', '=~', '!~'])
/** Timestamps are 64 bits of milliseconds. */
const MAX_TIME = 2 ** 63

export function vectorSelector(cursor: Cursor): VectorSelector {
  const name = isMetricName(cursor.peek().type) ? cursor.take() : undefined
  return selectorAfter(cursor, name)
}

/** The selector whose metric name, if it has one, is already taken. */
export function selectorAfter(cursor: Cursor, name: Token | undefined): VectorSelector {
  const matchers: LabelMatcher[] = []
  let end = name?.end ?? 0
  const start = name?.start ?? cursor.peek().start
  if (name === undefined || cursor.at('{')) end = labelMatchers(cursor, matchers)
  if (name !== undefined) matchers.push({ name: METRIC_NAME, op: '=', value: name.text })
  return { kind: 'vector', name: name?.text ?? '', matchers, offset: 0, pos: { start, end } }
}

/** Reads `{...}` into `matchers`; answers where it ends. */
function labelMatchers(cursor: Cursor, matchers: LabelMatcher[]): number {
  cursor.expect('{')
  for (;;) {
    const close = cursor.accept('}')
    if (close !== undefined) return close.end
    matchers.push(labelMatcher(cursor))
    if (!cursor.at('}') && cursor.accept(',') === undefined) cursor.unexpected('label matching', '"," or "}"')
  }
}

function labelMatcher(cursor: Cursor): LabelMatcher {
  const label = cursor.accept(IDENTIFIER) ?? cursor.expect(STRING, 'label matching', 'identifier or "}"')
  const quoted = label.type === STRING
  const name = quoted ? unquote(label.text) : label.text
  if (!MATCH_OPS.has(cursor.peek().type)) {
    // A quoted name alone is that of the metric.
    return quoted ? { name: METRIC_NAME, op: '=', value: name } : cursor.unexpected('label matching', 'label matching operator')
  }
  const op = cursor.take().type as LabelMatcher['op']
  const text = cursor.expect(STRING, 'label matching', 'string')
  const value = unquote(text.text)
  if (op === '=~' || op === '!~') {
    const cause = checkRegex(value)
    if (cause !== undefined) throw cursor.error({ start: label.start, end: text.end }, cause)
  }
  return { name, op, value }
}

/** `(a, "b.c")` after `by`, `on` and their like. */
export function groupingLabels(cursor: Cursor): string[] {
  const labels: string[] = []
  cursor.expect('(', 'grouping opts', '"("')
  while (cursor.accept(')') === undefined) {
    const token = cursor.at(STRING) || isLabelName(cursor.peek().type) ? cursor.take() : cursor.unexpected('grouping opts', 'label')
    const label = token.type === STRING ? unquote(token.text) : token.text
    if (label === '' || !label.isWellFormed()) throw cursor.error(token, `invalid label name for grouping: ${quote(label)}`)
    labels.push(label)
    if (!cursor.at(')') && cursor.accept(',') === undefined) cursor.unexpected('grouping opts', '"," or ")"')
  }
  return labels
}

/** `[5m]` or `[5m:1m]` after an expression. */
export function brackets(cursor: Cursor, expr: Expr): Expr {
  const open = cursor.expect('[')
  const range = bracketDuration(cursor, 'subquery or range selector', 'number, duration, step(), or range()')
  if (cursor.accept(':') !== undefined) {
    const step = cursor.at(']') ? undefined : bracketDuration(cursor, 'subquery selector', 'number, duration, step(), range(), or "]"')
    const { end } = cursor.expect(']', 'subquery selector', '"]"')
    return { kind: 'subquery', expr, range, ...(step === undefined ? {} : { step }), offset: 0, pos: { start: expr.pos.start, end } }
  }
  const { end } = cursor.expect(']', 'subquery or range', '":" or "]"')
  const refuse = (cause: string) => cursor.error({ start: open.start, end }, cause)
  if (expr.kind !== 'vector') throw refuse('ranges only allowed for vector selectors')
  if (expr.offset !== 0) throw refuse('no offset modifiers allowed before range')
  if (expr.at !== undefined) throw refuse('no @ modifiers allowed before range')
  return { kind: 'matrix', vector: expr, range, pos: { start: expr.pos.start, end } }
}

export function offset(cursor: Cursor, expr: Expr): void {
  cursor.expect('offset')
  const duration = offsetDuration(cursor)
  const target = modified(expr)
  if (target === undefined) throw cursor.error(expr.pos, `offset modifier ${SELECTOR_EXPECTED}`)
  if (target.offset !== 0) throw cursor.error(expr.pos, 'offset may not be set multiple times')
  target.offset = duration
  expr.pos.end = cursor.lastEnd
}

export function atTime(cursor: Cursor, expr: Expr): void {
  cursor.expect('@')
  const at = timestamp(cursor)
  if (typeof at === 'number' && !(Math.abs(at) < MAX_TIME)) throw cursor.error(expr.pos, `timestamp out of bounds for @ modifier: ${formatFixed(at)}`)
  const target = modified(expr)
  if (target === undefined) throw cursor.error(expr.pos, `@ modifier ${SELECTOR_EXPECTED}`)
  if (target.at !== undefined) throw cursor.error(expr.pos, '@ <timestamp> may not be set multiple times')
  target.at = typeof at === 'number' ? Math.floor(at * 1000 + 0.5) : at
  expr.pos.end = cursor.lastEnd
}

/** Seconds, or which end of the query. */
function timestamp(cursor: Cursor): number | 'start' | 'end' {
  const refuse = (): never => cursor.unexpected('@', 'timestamp')
  const word = cursor.accept('start') ?? cursor.accept('end')
  if (word !== undefined) {
    if (cursor.accept('(') === undefined || cursor.accept(')') === undefined) refuse()
    return word.type as 'start' | 'end'
  }
  const sign = cursor.accept('-') ?? cursor.accept('+')
  if (!atNumber(cursor)) refuse()
  const { value } = numberLiteral(cursor)
  return sign?.type === '-' ? -value : value
}

/** `anchored` or `smoothed`. The words of the refusals are Prometheus'. */
export function extendRange(cursor: Cursor, expr: Expr): void {
  const modifier = cursor.take().type as 'anchored' | 'smoothed'
  if (expr.kind === 'subquery') throw cursor.error(expr.pos, `${modifier} modifier is not supported for subqueries`)
  if (expr.kind !== 'vector' && expr.kind !== 'matrix') throw cursor.error(expr.pos, `${modifier} modifier not implemented`)
  const vector = expr.kind === 'matrix' ? expr.vector : expr
  if (vector.modifier !== undefined && vector.modifier !== modifier) {
    throw cursor.error(expr.pos, 'anchored and smoothed modifiers cannot be used together')
  }
  vector.modifier = modifier
}

/** Where the time modifiers of an expression are kept. */
function modified(expr: Expr): { offset: VectorSelector['offset']; at?: VectorSelector['at'] } | undefined {
  if (expr.kind === 'matrix') return expr.vector
  return expr.kind === 'vector' || expr.kind === 'subquery' ? expr : undefined
}
