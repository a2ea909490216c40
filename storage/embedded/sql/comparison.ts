/**
 * Comparisons of times. What can be read off the tree becomes exact nanoseconds; an instant with a zone is made comparable with TIMESTAMP_NS, for which
 * DuckDB has no such comparison; a difference of times is compared with an interval as nanoseconds, which an interval does not have.
 */

import { fits, fixedLength } from 'svcdb/lib/time-buckets'
import { members, type Node, refuse } from './ast.ts'
import { foldInstant, foldSpan } from './fold.ts'
import type { Printer } from './printer.ts'
import { kindOf, type Scope } from './scope.ts'
import { asTime, type Operand, operand } from './time-arithmetic.ts'
import { isTimeKind } from './time-kind.ts'

export const COMPARISONS: Record<string, string> = {
  COMPARE_EQUAL: '=',
  COMPARE_NOTEQUAL: '<>',
  COMPARE_LESSTHAN: '<',
  COMPARE_GREATERTHAN: '>',
  COMPARE_LESSTHANOREQUALTO: '<=',
  COMPARE_GREATERTHANOREQUALTO: '>=',
  COMPARE_DISTINCT_FROM: 'IS DISTINCT FROM',
  COMPARE_NOT_DISTINCT_FROM: 'IS NOT DISTINCT FROM',
}

export function printComparison(p: Printer, node: Node, scope: Scope): string {
  members(node, ['class', 'type', 'alias', 'left', 'right'])
  const sign = COMPARISONS[node.type]
  if (sign === undefined) throw refuse(`cannot run this query: the comparison "${node.type}" is not supported here`)
  return `(${apart(p, node, sign, scope) ?? compared(p, operand(p, node.left, scope), sign, operand(p, node.right, scope))})`
}

export function printBetween(p: Printer, node: Node, scope: Scope): string {
  members(node, ['class', 'type', 'alias', 'input', 'lower', 'upper'])
  const lengths = [lengthOf(node.lower), lengthOf(node.upper)]
  const difference = lengths.includes(undefined) ? undefined : nanosecondsApart(p, node.input, scope)
  if (difference !== undefined) return `(${difference} BETWEEN (${lengths[0]}) AND (${lengths[1]}))`
  const [input, lower, upper] = [node.input, node.lower, node.upper].map((each: Node) => operand(p, each, scope))
  if (p.plain || ![input, lower, upper].some(({ kind }) => kind === 'time')) {
    const unknown = [input, lower, upper].find(({ kind }) => kind === undefined)
    const [a, low, high] = [input, lower, upper].map((each) => (unknown === undefined ? each.text : unzoned(p, each, unknown)))
    return `(${a} BETWEEN ${low} AND ${high})`
  }
  return `(${compared(p, input, '>=', lower)} AND ${compared(p, input, '<=', upper)})`
}

/** IN and NOT IN over a list. */
export function printInList(p: Printer, node: Node, scope: Scope): string {
  const word = node.type === 'COMPARE_IN' ? 'IN' : 'NOT IN'
  const [input, ...values] = (node.children as Node[]).map((child) => operand(p, child, scope))
  const timed = !p.plain && (input.kind === 'time' || (isTimeKind(input.kind) && values.some(({ kind }) => kind === 'time')))
  if (!timed) return `(${input.text} ${word} (${values.map(({ text }) => text).join(', ')}))`
  const times = values.map((value) => instant(p, value))
  p.rewrites++
  const time = asTime(p, input)
  if (times.every((ns) => ns !== undefined)) return `(epoch_ns(${time}) ${word} (${times.map((ns) => `(${ns})`).join(', ')}))`
  const texts = times.map((ns, i) => (ns !== undefined && fits(ns) ? `make_timestamp_ns(${ns})` : asTime(p, values[i])))
  return `(${time} ${word} (${texts.join(', ')}))`
}

/** As it is compared with a time: exact nanoseconds if it can be read off the tree. */
function instant(p: Printer, { node, constant }: Operand): bigint | undefined {
  return p.plain || !constant ? undefined : foldInstant(node, p.now)
}

function compared(p: Printer, left: Operand, sign: string, right: Operand): string {
  if (!p.plain && left.kind === 'time' && left.node.class !== 'CONSTANT') return timeCompared(p, left, sign, right, false)
  if (!p.plain && right.kind === 'time' && right.node.class !== 'CONSTANT') return timeCompared(p, right, sign, left, true)
  return `${unzoned(p, left, right)} ${sign} ${unzoned(p, right, left)}`
}

/** Compared with something of a type that only the binder knows: every other type of time compares with a TIMESTAMP, and the zone is UTC. */
function unzoned(p: Printer, operand: Operand, other: Operand): string {
  if (p.plain || operand.kind !== 'zoned' || other.kind !== undefined) return operand.text
  p.rewrites++
  return `CAST(${operand.text} AS TIMESTAMP)`
}

function timeCompared(p: Printer, time: Operand, sign: string, other: Operand, swapped: boolean): string {
  const ns = instant(p, other)
  if (ns !== undefined) p.rewrites++
  const [a, b] = ns === undefined ? [time.text, asTime(p, other)] : fits(ns) ? [time.text, `make_timestamp_ns(${ns})`] : [`epoch_ns(${time.text})`, `(${ns})`]
  return swapped ? `${b} ${sign} ${a}` : `${a} ${sign} ${b}`
}

/** A difference of times compared with a constant interval. */
function apart(p: Printer, node: Node, sign: string, scope: Scope): string | undefined {
  const [left, right] = [lengthOf(node.left), lengthOf(node.right)]
  if ((left === undefined) === (right === undefined)) return undefined
  const difference = nanosecondsApart(p, left === undefined ? node.left : node.right, scope)
  if (difference === undefined) return undefined
  return left === undefined ? `${difference} ${sign} (${right})` : `(${left}) ${sign} ${difference}`
}

function lengthOf(node: Node): bigint | undefined {
  const span = foldSpan(node)
  return span === undefined ? undefined : fixedLength(span)
}

/** Of one time minus another, which as an INTERVAL would have microseconds only. */
function nanosecondsApart(p: Printer, node: Node, scope: Scope): string | undefined {
  const times = node.class === 'FUNCTION' && node.function_name === '-' && node.children?.length === 2 ? (node.children as Node[]) : []
  if (p.plain || times.length !== 2 || times.some((time) => kindOf(time, scope) !== 'time')) return undefined
  p.rewrites++
  const [from, to] = times.map((time) => `epoch_ns(${p.expr(time, scope)})`)
  return `(${from} - ${to})`
}
