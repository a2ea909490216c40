/**
 * PromQL text to syntax tree: operator precedence over the tokens of `lexer.ts`. The first error ends it; which one is first, and what it
 * says, is Prometheus' choice.
 */
import type { AggregateExpr, AggregateOp, BinaryExpr, BinaryOp, CallExpr, Expr, LabelMatcher, VectorMatching } from '../ast.ts'
import { AGGREGATES, FUNCTIONS } from '../functions/signatures.ts'
import { check } from './check.ts'
import { Cursor, DEFAULT_LIMITS, type ParseLimits } from './cursor.ts'
import { atNumber, numberLiteral } from './durations.ts'
import { quote } from './go-text.ts'
import { ParseError } from './parse-error.ts'
import { atTime, brackets, extendRange, groupingLabels, offset, selectorAfter, vectorSelector } from './selectors.ts'
import { unquote } from './strings.ts'
import { END, IDENTIFIER, isAggregator, isMetricName, isPreprocessor, STRING, type Token } from './tokens.ts'

const PRECEDENCE: Readonly<Record<string, number>> = {
  or: 1,
  and: 2,
  unless: 2,
  '==': 3,
  '!=': 3,
  '<': 3,
  '<=': 3,
  '>': 3,
  '>=': 3,
  '</': 3,
  '>/': 3,
  '+': 4,
  '-': 4,
  '*': 5,
  '/': 5,
  '%': 5,
  atan2: 5,
  '^': 6,
}
/** A sign binds looser than `^` only. */
const UNARY = 6

/** @throws ParseError */
export function parse(query: string, limits: ParseLimits = DEFAULT_LIMITS): Expr {
  const cursor = open(query, limits)
  if (cursor.at(END)) throw cursor.error({ start: 0, end: 0 }, 'no expression found in input')
  const expr = binary(cursor, 1)
  cursor.expect(END)
  check(cursor, expr)
  return expr
}

/** A vector selector without modifiers, as `match[]` has it; it may match everything. @throws ParseError */
export function parseSelector(text: string, limits: ParseLimits = DEFAULT_LIMITS): LabelMatcher[] {
  const cursor = open(text, limits)
  const { matchers } = vectorSelector(cursor)
  cursor.expect(END)
  return matchers
}

function open(query: string, limits: ParseLimits): Cursor {
  if (query.length > limits.maxLength) {
    throw new ParseError(
      query,
      { start: 0, end: query.length },
      `query is longer than ${limits.maxLength} characters; shorten it or raise promql.max_query_length`,
    )
  }
  return new Cursor(query, limits)
}

/** An expression of operators of at least precedence `min`. */
function binary(cursor: Cursor, min: number): Expr {
  cursor.enter()
  let lhs = unary(cursor)
  for (let links = 0; ; links++) {
    const op = cursor.peek().type
    const precedence = PRECEDENCE[op] ?? 0
    if (precedence < min) break
    // `check` would refuse it, once a megabyte of it was read.
    if (links > cursor.limits.maxDepth) throw cursor.tooDeep(lhs.pos)
    cursor.take()
    const modifiers = binaryModifiers(cursor)
    const rhs = binary(cursor, op === '^' ? precedence : precedence + 1)
    lhs = { kind: 'binary', op: op as BinaryOp, lhs, rhs, ...modifiers, pos: { start: lhs.pos.start, end: rhs.pos.end } }
  }
  cursor.leave()
  return lhs
}

function unary(cursor: Cursor): Expr {
  const sign = cursor.accept('+') ?? cursor.accept('-')
  if (sign === undefined) return postfix(cursor)
  const expr = binary(cursor, UNARY)
  const pos = { start: sign.start, end: expr.pos.end }
  if (expr.kind === 'number') return { ...expr, value: sign.type === '-' ? -expr.value : expr.value, pos }
  return { kind: 'unary', op: sign.type as '+' | '-', expr, pos }
}

/** `bool`, `on` or `ignoring` with `group_left` or `group_right`, and `fill`. */
function binaryModifiers(cursor: Cursor): Pick<BinaryExpr, 'returnBool'> & { matching: VectorMatching } {
  const returnBool = cursor.accept('bool') !== undefined
  const matching: VectorMatching = { card: 'one-to-one', on: false, labels: [], include: [] }
  const matchWord = cursor.accept('on') ?? cursor.accept('ignoring')
  if (matchWord !== undefined) {
    matching.on = matchWord.type === 'on'
    matching.labels = groupingLabels(cursor)
    const group = cursor.accept('group_left') ?? cursor.accept('group_right')
    if (group !== undefined) {
      matching.card = group.type === 'group_left' ? 'many-to-one' : 'one-to-many'
      // Without labels the right side follows, which may begin with a parenthesis only after a list, be it empty.
      if (cursor.at('(') || !startsExpression(cursor.peek())) matching.include = groupingLabels(cursor)
    }
  }
  // A metric may be called `fill`: as a keyword it has its value in parentheses, which the lexer looked for.
  if (cursor.accept('fill') !== undefined) matching.fillLeft = matching.fillRight = fillValue(cursor)
  else if (cursor.accept('fill_left') !== undefined) {
    matching.fillLeft = fillValue(cursor)
    if (cursor.accept('fill_right') !== undefined) matching.fillRight = fillValue(cursor)
  } else if (cursor.accept('fill_right') !== undefined) {
    matching.fillRight = fillValue(cursor)
    if (cursor.accept('fill_left') !== undefined) matching.fillLeft = fillValue(cursor)
  }
  return { returnBool, matching }
}

function fillValue(cursor: Cursor): number {
  cursor.expect('(')
  const sign = cursor.accept('-') ?? cursor.accept('+')
  if (!atNumber(cursor)) cursor.unexpected()
  const { value } = numberLiteral(cursor)
  cursor.expect(')')
  return sign?.type === '-' ? -value : value
}

function postfix(cursor: Cursor): Expr {
  let expr = primary(cursor)
  for (;;) {
    if (cursor.at('[')) expr = brackets(cursor, expr)
    else if (cursor.at('offset')) offset(cursor, expr)
    else if (cursor.at('@')) atTime(cursor, expr)
    else if (cursor.at('anchored') || cursor.at('smoothed')) extendRange(cursor, expr)
    else return expr
  }
}

function primary(cursor: Cursor): Expr {
  const token = cursor.peek()
  if (atNumber(cursor)) return numberLiteral(cursor)
  if (token.type === STRING) {
    cursor.take()
    return { kind: 'string', value: unquote(token.text), pos: { start: token.start, end: token.end } }
  }
  if (token.type === '(') {
    cursor.take()
    const expr = binary(cursor, 1)
    const { end } = cursor.expect(')')
    return { kind: 'paren', expr, pos: { start: token.start, end } }
  }
  if (token.type === '{') return selectorAfter(cursor, undefined)
  if (!isMetricName(token.type)) return cursor.unexpected()
  cursor.take()
  if (isAggregator(token.type) && (cursor.at('(') || cursor.at('by') || cursor.at('without'))) return aggregate(cursor, token)
  if (cursor.at('(') && (token.type === IDENTIFIER || isPreprocessor(token.type))) return call(cursor, token)
  return selectorAfter(cursor, token)
}

function aggregate(cursor: Cursor, op: Token): AggregateExpr {
  cursor.aggregations++
  const before = cursor.at('(') ? undefined : grouping(cursor)
  const { args, end: close } = callArguments(cursor)
  const after = before === undefined && (cursor.at('by') || cursor.at('without')) ? grouping(cursor) : undefined
  cursor.aggregations--
  const { without, labels, end } = before ?? after ?? { without: false, labels: [], end: close }
  const pos = { start: op.start, end: Math.max(end, close) }
  if (args.length === 0) throw cursor.error(pos, 'no arguments for aggregate expression provided')
  const wanted = AGGREGATES[op.type as AggregateOp].param === undefined ? 1 : 2
  if (args.length !== wanted) {
    throw cursor.error(pos, `wrong number of arguments for aggregate expression provided, expected ${wanted}, got ${args.length}`)
  }
  const [param, expr] = wanted === 2 ? args : [undefined, args[0]]
  return { kind: 'aggregate', op: op.type as AggregateOp, expr, ...(param === undefined ? {} : { param }), grouping: labels, without, pos }
}

function grouping(cursor: Cursor): { without: boolean; labels: string[]; end: number } {
  const without = cursor.take().type === 'without'
  const labels = groupingLabels(cursor)
  return { without, labels, end: cursor.lastEnd }
}

function call(cursor: Cursor, name: Token): CallExpr {
  const { args, end } = callArguments(cursor)
  const signature = FUNCTIONS.get(name.text)
  if (signature === undefined) throw cursor.error(name, `unknown function with name ${quote(name.text)}`)
  return { kind: 'call', name: name.text, args, type: signature.returns, pos: { start: name.start, end } }
}

function callArguments(cursor: Cursor): { args: Expr[]; end: number } {
  cursor.expect('(')
  const args: Expr[] = []
  if (!cursor.at(')')) args.push(binary(cursor, 1))
  while (cursor.at(',')) {
    const comma = cursor.take()
    if (!startsExpression(cursor.peek())) throw cursor.error(comma, 'trailing commas not allowed in function call args')
    args.push(binary(cursor, 1))
  }
  return { args, end: cursor.expect(')').end }
}

function startsExpression({ type }: Token): boolean {
  return isMetricName(type) || [STRING, 'number', 'duration', '(', '{', '+', '-'].includes(type)
}
