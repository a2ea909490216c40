/**
 * Arithmetic over TIMESTAMP_NS, which DuckDB's own functions would cut to microseconds. Intervals and units that are constants become integer arithmetic on
 * `epoch_ns`, the fastest there is; the others meet the overloads of time-functions.ts, so that the binder keeps nanoseconds also where this file does
 * not know a type. Where a function of DuckDB takes microseconds, times are rounded down to them: a cast would round towards 1970.
 */

import { fits, fixedLength, OUT_OF_RANGE, parseSpan } from 'svcdb/lib/time-buckets'
import { constantText, literal, type Node, refuse } from './ast.ts'
import { floorTo, REPEATED } from './bucket-sql.ts'
import { foldClock, foldInstant, foldSpan, foldTime } from './fold.ts'
import type { Printer } from './printer.ts'
import { isClockWord, type Kind, kindOf, readsClockColumn, resolve, type Scope } from './scope.ts'
import { isTimeKind, mixed } from './time-kind.ts'
import { type Truncation, truncationOf } from './truncation.ts'

/** An expression as text, and what is known of it. */
export interface Operand {
  readonly node: Node
  readonly text: string
  readonly kind: Kind | undefined
  /** If it can be read off the tree, it is that: no column is called like a clock. */
  readonly constant: boolean
}

/** What can be read off the tree is printed only when that is asked for: as a time it may have nanoseconds that DuckDB's types have not. */
export function operand(p: Printer, node: Node, scope: Scope): Operand {
  const constant = p.plain || !readsClockColumn(node, scope)
  if (p.plain || !constant || foldTime(node, p.now) === undefined) {
    const text = p.expr(node, scope)
    return { node, text, kind: kindOf(node, scope), constant }
  }
  return {
    constant,
    node,
    get text() {
      return p.expr(node, scope)
    },
    kind: kindOf(node, scope),
  }
}

/** A value among TIMESTAMP_NS: an instant with a zone, which DuckDB does not mix with them, becomes one. */
export function asTime(p: Printer, operand: Operand): string {
  if (operand.kind !== 'zoned' || p.plain) return operand.text
  p.rewrites++
  const ns = operand.constant ? foldInstant(operand.node, p.now) : undefined
  return ns !== undefined && fits(ns) ? `make_timestamp_ns(${ns})` : `CAST(CAST(${operand.text} AS TIMESTAMP) AS TIMESTAMP_NS)`
}

/** Values of which one is chosen (CASE, COALESCE, greatest): all of the type that TIMESTAMP_NS asks for, if one of them is that. */
export function alike(p: Printer, nodes: readonly Node[], scope: Scope): string[] {
  const operands = nodes.map((node) => operand(p, node, scope))
  const kinds = new Map(operands.map(({ node, kind }) => [node, kind]))
  const timed = !p.plain && mixed(nodes, (node) => kinds.get(node)) === 'time'
  return operands.map((each) => (timed ? asTime(p, each) : each.text))
}

/** `time + interval`, `interval + time`, `time - interval`, `time - instant`; undefined: as DuckDB has it. */
export function printSum(p: Printer, name: string, children: readonly Node[], scope: Scope): string | undefined {
  if (p.plain || children.length !== 2) return undefined
  const plus = name !== '-' && name !== 'subtract'
  const [left, right] = children.map((child) => kindOf(child, scope))
  if (left === 'time') return moved(p, children[0], plus ? 1n : -1n, children[1], right, scope)
  if (right !== 'time') return undefined
  if (plus) return moved(p, children[1], 1n, children[0], left, scope)
  return isTimeKind(left) ? `(${asTime(p, operand(p, children[0], scope))} - ${p.expr(children[1], scope)})` : undefined
}

function moved(p: Printer, time: Node, sign: bigint, by: Node, kind: Kind | undefined, scope: Scope): string | undefined {
  if (isTimeKind(kind)) return sign > 0n ? undefined : `(${p.expr(time, scope)} - ${asTime(p, operand(p, by, scope))})`
  const span = foldSpan(by)
  const length = span === undefined ? undefined : fixedLength(span)
  p.rewrites++
  const text = p.expr(time, scope)
  if (length === undefined) return `(${text} ${sign > 0n ? '+' : '-'} ${p.expr(by, scope)})`
  const shift = sign * length
  if (BigInt.asIntN(64, shift) !== shift) throw refuse(OUT_OF_RANGE)
  return `make_timestamp_ns(epoch_ns(${text}) ${shift < 0n ? '-' : '+'} ${shift < 0n ? -shift : shift})`
}

/** Functions whose arguments are read in microseconds: a time's part that they look at is not smaller, if it is rounded down. */
const MICROSECONDS = new Set(
  `age century date_diff date_part datediff datepart day dayname dayofmonth dayofweek dayofyear days_in_month decade epoch epoch_ms epoch_us era hour isodow
  isoyear julian last_day microsecond millennium millisecond minute month monthname quarter second timezone week weekday weekofyear year yearweek`.split(/\s+/),
)

/** now() and its other names: one instant for the whole statement, the one that scans are pruned by. */
export function printClock(p: Printer, node: Node, scope: Scope): string | undefined {
  if (p.plain || (node.class === 'COLUMN_REF' && !isClockWord(node.column_names, scope))) return undefined
  const clock = foldClock(node, p.now)
  if (clock === undefined) return undefined
  p.rewrites++
  const us = clock.ns / 1000n
  return clock.type === 'zoned' ? `make_timestamptz(${us})` : clock.type === 'date' ? `CAST(make_timestamp(${us}) AS DATE)` : `make_timestamp(${us})`
}

/** A call that has to do with times; undefined: as DuckDB has it. */
export function printTimeCall(p: Printer, name: string, children: readonly Node[], scope: Scope): string | undefined {
  if (p.plain || children.length === 0) return undefined
  switch (name) {
    case 'ago': {
      p.rewrites++
      return children.length === 1 ? `(make_timestamptz(${p.now / 1000n}) - ${p.expr(children[0], scope)})` : undefined
    }
    case 'add':
    case 'subtract':
    case 'date_add':
      return printSum(p, name, children, scope)
    case 'date_trunc':
    case 'datetrunc':
      return truncated(p, children, scope)
    case 'greatest':
    case 'least':
    case 'ifnull':
    case 'nullif':
      return mixed(children, (child) => kindOf(child, scope)) === 'time' ? call(name, alike(p, children, scope)) : undefined
    case 'date_sub':
    case 'datesub':
      return elapsed(p, children, scope)
    case 'date_diff':
    case 'datediff':
      return (nanosecondUnit(children[0]) ? elapsed(p, children, scope) : undefined) ?? inMicroseconds(p, name, children, scope)
    case 'date_part':
    case 'datepart':
      if (children.length === 2 && nanosecondUnit(children[0]) && kindOf(children[1], scope) === 'time') return call('nanosecond', [p.expr(children[1], scope)])
      return inMicroseconds(p, name, children, scope)
    default:
      return MICROSECONDS.has(name) ? inMicroseconds(p, name, children, scope) : undefined
  }
}

const call = (name: string, args: readonly string[]): string => `${name}(${args.join(', ')})`

const nanosecondUnit = (node: Node): boolean => truncationOf(constantText(node))?.name === 'nanosecond'

function inMicroseconds(p: Printer, name: string, children: readonly Node[], scope: Scope): string | undefined {
  const operands = children.map((child) => ({ child, kind: kindOf(child, scope) }))
  if (!operands.some(({ kind }) => kind === 'time')) return undefined
  p.rewrites++
  return call(
    name,
    operands.map(({ child, kind }) =>
      kind === 'time' ? microseconds(p, child, scope) : kind === 'zoned' ? `CAST(${p.expr(child, scope)} AS TIMESTAMP)` : p.expr(child, scope),
    ),
  )
}

/** TIMESTAMP of a time, rounded down. */
function microseconds(p: Printer, node: Node, scope: Scope): string {
  const text = p.expr(node, scope)
  const low = node.class === 'COLUMN_REF' ? resolve(node.column_names, scope)?.source.time[0] : undefined
  if (low !== undefined && low >= 0n) return `CAST(${text} AS TIMESTAMP)`
  const ns = `epoch_ns(${text})`
  if (ns.length > REPEATED) return `__svc_microseconds(${text})`
  return p.put(`make_timestamp(${ns} // 1000 - CASE WHEN ${ns} % 1000 < 0 THEN 1 ELSE 0 END)`)
}

function truncated(p: Printer, [unit, time, ...more]: readonly Node[], scope: Scope): string | undefined {
  const truncation: Truncation | undefined = truncationOf(constantText(unit))
  if (truncation === undefined || time === undefined || more.length > 0 || kindOf(time, scope) !== 'time') return undefined
  p.rewrites++
  if (truncation.kind !== 'fixed') return `CAST(date_trunc('${truncation.name}', ${microseconds(p, time, scope)}) AS TIMESTAMP_NS)`
  const low = time.class === 'COLUMN_REF' ? resolve(time.column_names, scope)?.source.time[0] : undefined
  return `make_timestamp_ns(${p.put(floorTo(`epoch_ns(${p.expr(time, scope)})`, truncation.step, truncation.anchor, low))})`
}

/** Whole units from one time to another: fixed ones are a division, months are counted by the overload. */
function elapsed(p: Printer, [unit, from, to, ...more]: readonly Node[], scope: Scope): string | undefined {
  if (to === undefined || more.length > 0) return undefined
  const operands = [from, to].map((node) => ({ node, kind: kindOf(node, scope) }))
  if (!operands.some(({ kind }) => kind === 'time') || !operands.every(({ kind }) => isTimeKind(kind))) return undefined
  p.rewrites++
  const [a, b] = operands.map(({ node }) => asTime(p, operand(p, node, scope)))
  const truncation = truncationOf(constantText(unit))
  if (truncation?.kind !== 'fixed') return call('date_sub', [p.expr(unit, scope), a, b])
  const apart = `(epoch_ns(${b}) - epoch_ns(${a}))`
  return truncation.step === 1n ? apart : `(${apart} // ${truncation.step})`
}

/** Averages and medians of times, over their nanoseconds as whole numbers. @param after FILTER and OVER. */
export function printTimeAggregate(
  p: Printer,
  name: string,
  children: readonly Node[],
  distinct: boolean,
  after: () => string,
  scope: Scope,
): string | undefined {
  if (p.plain || !TIME_AGGREGATES.has(name) || children.length === 0 || kindOf(children[0], scope) !== 'time') return undefined
  const clauses = after()
  const ns = `${distinct ? 'DISTINCT ' : ''}epoch_ns(${p.expr(children[0], scope)})`
  if (name === 'avg' || name === 'mean') {
    if (children.length !== 1) return undefined
    p.rewrites++
    return p.put(`make_timestamp_ns(CAST(sum(${ns})${clauses} // count(${ns})${clauses} AS BIGINT))`)
  }
  if (name === 'median') {
    if (children.length !== 1) return undefined
    p.rewrites++
    const middle = (sign: string): string => `${sign}quantile_disc(${ns.replace('epoch_ns', `${sign}epoch_ns`)}, 0.5)${clauses}`
    return p.put(`make_timestamp_ns(${middle('')} + (${middle('-')} - ${middle('')}) // 2)`)
  }
  throw refuse(`cannot call ${name} over times: it would interpolate between them; use quantile_disc, or ${name} over epoch_ns(...) as a number`)
}

const TIME_AGGREGATES = new Set(['avg', 'mean', 'median', 'quantile_cont'])

/** A cast of a time to a type of microseconds or less. */
export function printTimeCast(p: Printer, node: Node, type: string, scope: Scope): string | undefined {
  if (p.plain || !LESS_PRECISE.has(type) || kindOf(node.child, scope) !== 'time') return undefined
  p.rewrites++
  const text = microseconds(p, node.child, scope)
  return type === 'TIMESTAMP' ? text : `CAST(${text} AS ${type})`
}

const LESS_PRECISE = new Set(['TIMESTAMP', 'TIMESTAMP_S', 'TIMESTAMP_MS', 'TIMESTAMP WITH TIME ZONE', 'DATE', 'TIME'])

/** DuckDB's INTERVAL has microseconds: what it would cut is refused, where it does not become part of a time. */
export function checkInterval(text: string): void {
  const span = parseSpan(text)
  if (span !== undefined && span.ns % 1000n !== 0n)
    throw refuse(`cannot use the interval ${literal(text)} here: an INTERVAL has microseconds; nanoseconds can only be added to _time or compared with it`)
}
