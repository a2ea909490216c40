/** Syntax tree to text in one canonical spelling, which parses to the same tree. */
import type { AggregateExpr, AtModifier, BinaryExpr, Duration, DurationExpr, Expr, LabelMatcher, SubqueryExpr, VectorSelector } from '../ast.ts'
import { formatFloat as formatGeneral } from '../functions/format.ts'
import { METRIC_NAME } from '../labels.ts'
import { byteLength, compareBytes, formatDuration, formatFloat, quote } from './go-text.ts'

const LABEL_NAME = /^[A-Za-z_]\w*$/
const PLAIN_NAME = /^[A-Za-z_:][\w:]*$/

export function print(expr: Expr): string {
  const out = new Output(Infinity)
  write(out, expr)
  return out.text
}

/** Whether the printed expression is longer than `limit` bytes; stops printing there. */
export function isLonger(expr: Expr, limit: number): boolean {
  const out = new Output(limit)
  write(out, expr)
  return byteLength(out.text) > limit
}

class Output {
  text = ''
  private readonly limit: number

  constructor(limit: number) {
    this.limit = limit
  }

  put(text: string): void {
    this.text += text
  }

  get full(): boolean {
    return this.text.length > this.limit
  }
}

function write(out: Output, expr: Expr): void {
  if (out.full) return
  switch (expr.kind) {
    case 'number':
      return out.put(printNumber(expr.value, expr.duration === true))
    case 'string':
      return out.put(quote(expr.value))
    case 'paren':
      out.put('(')
      write(out, expr.expr)
      return out.put(')')
    case 'unary':
      out.put(expr.op)
      return write(out, expr.expr)
    case 'binary':
      write(out, expr.lhs)
      if (out.full) return
      out.put(` ${operatorText(expr)} `)
      return write(out, expr.rhs)
    case 'aggregate':
      return writeArguments(out, aggregateText(expr), expr.param === undefined ? [expr.expr] : [expr.param, expr.expr])
    case 'call':
      return writeArguments(out, expr.name, expr.args)
    case 'vector':
      return out.put(`${selectorText(expr)}${atText(expr.at)}${modifierText(expr)}${offsetText(expr.offset)}`)
    case 'matrix': {
      const { vector } = expr
      return out.put(`${selectorText(vector)}[${durationText(expr.range)}]${modifierText(vector)}${atText(vector.at)}${offsetText(vector.offset)}`)
    }
    case 'subquery':
      write(out, expr.expr)
      return out.put(subqueryText(expr))
  }
}

function writeArguments(out: Output, head: string, args: readonly Expr[]): void {
  out.put(`${head}(`)
  for (let i = 0; i < args.length && !out.full; i++) {
    if (i > 0) out.put(', ')
    write(out, args[i])
  }
  out.put(')')
}

/** The aggregation and its grouping: what stands before the parenthesis. */
export function aggregateText({ op, without, grouping }: AggregateExpr): string {
  if (without) return `${op} without (${labelsText(grouping)}) `
  return grouping.length > 0 ? `${op} by (${labelsText(grouping)}) ` : op
}

/** The operator and its modifiers. */
export function operatorText({ op, returnBool, matching }: BinaryExpr): string {
  let out = returnBool ? `${op} bool` : op
  if (matching === undefined) return out
  const { card, on, labels, include, fillLeft, fillRight } = matching
  const grouped = card === 'many-to-one' || card === 'one-to-many'
  if (labels.length > 0 || on || grouped) out += ` ${on ? 'on' : 'ignoring'} (${labelsText(labels)})`
  if (grouped) out += ` group_${card === 'many-to-one' ? 'left' : 'right'} (${labelsText(include)})`
  if (fillLeft !== undefined && fillLeft === fillRight) return `${out} fill (${formatGeneral(fillLeft)})`
  if (fillLeft !== undefined) out += ` fill_left (${formatGeneral(fillLeft)})`
  if (fillRight !== undefined) out += ` fill_right (${formatGeneral(fillRight)})`
  return out
}

/** The brackets of a subquery and all that follows. */
export function subqueryText({ range, step, at, offset }: SubqueryExpr): string {
  return `[${durationText(range)}:${step === undefined ? '' : durationText(step)}]${atText(at)}${offsetText(offset)}`
}

/** Names that not every reader of PromQL takes without quotes stand in the braces. */
function selectorText({ name: written, matchers }: VectorSelector): string {
  const name = PLAIN_NAME.test(written) ? written : ''
  const shown = matchers.filter((m) => !(m.name === METRIC_NAME && m.op === '=' && m.value === name && m.value !== ''))
  // In info() a selector may be empty.
  return shown.length === 0 ? name || '{}' : `${name}{${shown.map(matcherText).sort(compareBytes).join(',')}}`
}

function matcherText({ name, op, value }: LabelMatcher): string {
  return `${labelText(name)}${op}${quote(value)}`
}

function labelsText(labels: readonly string[]): string {
  return labels.map(labelText).join(', ')
}

function labelText(label: string): string {
  return LABEL_NAME.test(label) ? label : quote(label)
}

function modifierText({ modifier }: VectorSelector): string {
  return modifier === undefined ? '' : ` ${modifier}`
}

function atText(at: AtModifier | undefined): string {
  if (at === undefined) return ''
  return typeof at === 'number' ? ` @ ${(at / 1000).toFixed(3)}` : ` @ ${at}()`
}

function offsetText(offset: Duration): string {
  return offset === 0 ? '' : ` offset ${durationText(offset)}`
}

function durationText(duration: Duration): string {
  return typeof duration === 'number' ? formatDuration(duration) : durationExprText(duration)
}

function durationExprText(expr: DurationExpr): string {
  switch (expr.kind) {
    case 'duration':
      return printNumber(expr.seconds, !expr.bare)
    case 'step':
    case 'range':
      return `${expr.kind}()`
    case 'duration-unary':
      return `${expr.op === '-' ? '-' : ''}${durationExprText(expr.expr)}`
    case 'duration-binary':
      return `${durationExprText(expr.lhs)} ${expr.op} ${durationExprText(expr.rhs)}`
    case 'duration-call':
      return `${expr.name}_of(${expr.args.map(durationExprText).join(', ')})`
    case 'duration-paren':
      return `(${durationExprText(expr.expr)})`
  }
}

function printNumber(value: number, duration: boolean): string {
  return duration ? formatDuration(Math.trunc(value * 1e9) / 1e6) : formatFloat(value)
}
