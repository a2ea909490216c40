/** Durations in brackets and after `offset`: literals, or expressions of them. */
import type { Duration, DurationExpr, NumberLiteral, Pos } from '../ast.ts'
import type { Cursor } from './cursor.ts'
import { durationOutOfRange, readDuration, readNumber, toMs } from './numbers.ts'
import { DURATION, NUMBER, type Token } from './tokens.ts'

type Literal = Extract<DurationExpr, { kind: 'duration' }>
type BinaryOp = Extract<DurationExpr, { kind: 'duration-binary' }>['op']

const PRECEDENCE: Readonly<Record<string, number>> = { '+': 1, '-': 1, '*': 2, '/': 2, '%': 2, '^': 3 }
const UNARY = 3

/** A literal number or duration, which is one in seconds. */
export function numberLiteral(cursor: Cursor): NumberLiteral {
  const token = cursor.take()
  const value = token.type === DURATION ? readDuration(token.text) : readNumber(token.text)
  const pos = { start: token.start, end: token.end }
  if (typeof value === 'string') throw cursor.error(pos, value)
  return token.type === DURATION ? { kind: 'number', value, duration: true, pos } : { kind: 'number', value, pos }
}

export function atNumber(cursor: Cursor): boolean {
  return cursor.at(NUMBER) || cursor.at(DURATION)
}

/** After `[` or the colon in brackets; `context` names what is expected there. */
export function bracketDuration(cursor: Cursor, context: string, expected: string): Duration {
  const duration = binary(cursor, 1, (): never => cursor.unexpected(context, expected))
  if (duration.kind !== 'duration') return duration
  const ms = toMs(duration.seconds)
  // Of less than a millisecond nothing is left.
  if (ms <= 0) throw cursor.error(duration.pos, 'duration must be greater than 0')
  return ms
}

/**
 * After `offset`, where operators after a literal belong to the expression around: only a parenthesis or a second sign opens
 * an expression of durations.
 */
export function offsetDuration(cursor: Cursor): Duration {
  const refuse = (): never => cursor.unexpected('offset', 'number, duration, step(), or range()')
  const sign = atSign(cursor) ? cursor.take() : undefined
  let duration: DurationExpr
  if (atNumber(cursor)) duration = literal(cursor, sign)
  else if (cursor.at('(') && sign !== undefined) duration = applySign(sign, primary(cursor, refuse))
  else if (cursor.at('(')) duration = operators(cursor, primary(cursor, refuse), 1, refuse)
  else if (atSign(cursor) && sign !== undefined) duration = operators(cursor, applySign(sign, binary(cursor, UNARY, refuse)), 1, refuse)
  else {
    const call = primary(cursor, refuse)
    duration = sign === undefined ? call : { kind: 'duration-unary', op: sign.type as '+' | '-', expr: call, pos: { start: sign.start, end: call.pos.end } }
  }
  return duration.kind === 'duration' ? toMs(duration.seconds) : duration
}

function binary(cursor: Cursor, min: number, refuse: () => never): DurationExpr {
  cursor.enter()
  const sign = atSign(cursor) ? cursor.take() : undefined
  const left = sign === undefined ? primary(cursor, refuse) : applySign(sign, binary(cursor, UNARY, refuse))
  const result = operators(cursor, left, min, refuse)
  cursor.leave()
  return result
}

/** Takes the operators of at least precedence `min` that follow `left`. */
function operators(cursor: Cursor, left: DurationExpr, min: number, refuse: () => never): DurationExpr {
  for (let levels = 0; ; levels++) {
    const precedence = PRECEDENCE[cursor.peek().type] ?? 0
    if (precedence < min) {
      for (; levels > 0; levels--) cursor.leave()
      return left
    }
    // Each is a level of the tree.
    cursor.enter()
    const op = cursor.take()
    const rhs = binary(cursor, op.type === '^' ? precedence : precedence + 1, refuse)
    if ((op.type === '/' || op.type === '%') && rhs.kind === 'duration' && rhs.seconds === 0) {
      throw cursor.error(op, op.type === '/' ? 'division by zero' : 'modulo by zero')
    }
    left = { kind: 'duration-binary', op: op.type as BinaryOp, lhs: left, rhs, pos: { start: placeOf(left).start, end: placeOf(rhs).end } }
  }
}

/** The place that messages name: parentheses are left out, but for the opening one before a literal. */
export function placeOf(duration: DurationExpr): Pos {
  if (duration.kind !== 'duration-paren') return duration.pos
  const { expr } = duration
  return expr.kind === 'duration' ? { start: duration.pos.start, end: expr.pos.end } : placeOf(expr)
}

function primary(cursor: Cursor, refuse: () => never): DurationExpr {
  if (atNumber(cursor)) return literal(cursor, undefined)
  const { type, start } = cursor.peek()
  if (type === '(') {
    cursor.take()
    const expr = binary(cursor, 1, refuse)
    const { end } = close(cursor, refuse)
    // Parentheses around parentheses say nothing more.
    return expr.kind === 'duration-paren' ? expr : { kind: 'duration-paren', expr, pos: { start, end } }
  }
  if (type !== 'step' && type !== 'range' && type !== 'min_of' && type !== 'max_of') return refuse()
  cursor.take()
  if (!cursor.accept('(')) refuse()
  if (type === 'step' || type === 'range') return { kind: type, pos: { start, end: close(cursor, refuse).end } }
  const first = binary(cursor, 1, refuse)
  if (!cursor.accept(',')) refuse()
  const second = binary(cursor, 1, refuse)
  const { end } = close(cursor, refuse)
  return { kind: 'duration-call', name: type === 'min_of' ? 'min' : 'max', args: [first, second], pos: { start, end } }
}

function close(cursor: Cursor, refuse: () => never): Token {
  return cursor.accept(')') ?? refuse()
}

function literal(cursor: Cursor, sign: Token | undefined): Literal {
  const { value, duration, pos } = numberLiteral(cursor)
  const plain: Literal = { kind: 'duration', seconds: value, bare: duration === undefined, pos }
  if (durationOutOfRange(value)) throw cursor.error(sign ?? pos, 'duration out of range')
  return sign === undefined ? plain : (applySign(sign, plain) as Literal)
}

/** A minus goes into a literal; a plus says nothing. */
function applySign(sign: Token, expr: DurationExpr): DurationExpr {
  const start = sign.start
  if (expr.kind === 'duration') return { ...expr, seconds: sign.type === '-' ? -expr.seconds : expr.seconds, pos: { start, end: expr.pos.end } }
  return sign.type === '+' ? expr : { kind: 'duration-unary', op: '-', expr, pos: { start, end: placeOf(expr).end } }
}

function atSign(cursor: Cursor): boolean {
  return cursor.at('+') || cursor.at('-')
}
