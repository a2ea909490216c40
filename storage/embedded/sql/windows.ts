/**
 * The analytic functions of supplement B.6, as SQL over what DuckDB has; docs/reference/sql-functions.md defines each.
 * Those that follow a recursion or need a whole series (`ewm`, `stl_*`, `cross_correlation`, `rate`) gather it into a list and
 * call a function of `analytic-functions.ts`.
 */
import { constantInteger, constantNumber, constantText, type Node, refuse } from './ast.ts'
import type { Printer } from './printer.ts'

interface Window {
  /** Arguments as text, cast to DOUBLE where they are values. */
  arg(i: number): string
  /** A constant argument. */
  integer(i: number, name: string, low: number, fallback?: number): number
  number(i: number, name: string, accept: (n: number) => boolean, hint: string): number
  flag(i: number): boolean
  /** OVER clauses: in order with a frame, the rows' order alone, the whole partition, and that in order. */
  over(frame: string): string
  ordered: string
  whole: string
  wholeOrdered: string
}

interface Analytic {
  arguments: [least: number, most: number]
  print(w: Window): string
}

const trailing = (width: number): string => `ROWS BETWEEN ${width - 1} PRECEDING AND CURRENT ROW`

/** A constant series has no spread: its scores are 0, not a division by zero. */
function zscore(v: string, over: string): string {
  return `CASE WHEN stddev_samp(${v}) ${over} = 0 THEN ${v} * 0 ELSE (${v} - avg(${v}) ${over}) / stddev_samp(${v}) ${over} END`
}

const stl = (part: 0 | 1 | 2, w: Window): string => {
  const period = w.integer(1, 'period', 2)
  return `__svc_stl(list(${w.arg(0)}) ${w.wholeOrdered}, row_number() ${w.ordered}, ${period}, ${w.flag(2) ? 1 : 0}, ${part})`
}

const WINDOWS: Record<string, Analytic> = {
  diff: {
    arguments: [1, 2],
    print: (w) => {
      const order = w.integer(1, 'order', 1, 1)
      if (order > 16) throw refuse('cannot call diff: the order must be at most 16')
      let coefficient = 1
      let text = w.arg(0)
      for (let k = 1; k <= order; k++) {
        coefficient = (coefficient * (order - k + 1)) / k
        text += ` ${k % 2 === 1 ? '-' : '+'} ${coefficient} * lag(${w.arg(0)}, ${k} IGNORE NULLS) ${w.ordered}`
      }
      return `(${text})`
    },
  },
  pct_change: { arguments: [1, 1], print: (w) => `(${w.arg(0)} / lag(${w.arg(0)}, 1 IGNORE NULLS) ${w.ordered} - 1)` },
  rolling_mean: { arguments: [2, 2], print: (w) => `avg(${w.arg(0)}) ${w.over(trailing(w.integer(1, 'window', 1)))}` },
  rolling_std: { arguments: [2, 2], print: (w) => `stddev_samp(${w.arg(0)}) ${w.over(trailing(w.integer(1, 'window', 1)))}` },
  rolling_corr: { arguments: [3, 3], print: (w) => `corr(${w.arg(0)}, ${w.arg(1)}) ${w.over(trailing(w.integer(2, 'window', 1)))}` },
  zscore: { arguments: [1, 1], print: (w) => zscore(w.arg(0), w.whole) },
  anomaly_score: { arguments: [2, 2], print: (w) => `(abs(${zscore(w.arg(0), w.whole)}) / ${w.number(1, 'threshold', (n) => n > 0, 'above 0')}e0)` },
  ewm: {
    arguments: [2, 2],
    print: (w) =>
      `__svc_ewm(list(${w.arg(0)}) ${w.wholeOrdered}, row_number() ${w.ordered}, ${w.number(1, 'alpha', (n) => n > 0 && n <= 1, 'above 0 and at most 1')}::DOUBLE)`,
  },
  stl_trend: { arguments: [2, 3], print: (w) => stl(0, w) },
  stl_seasonal: { arguments: [2, 3], print: (w) => stl(1, w) },
  stl_residual: { arguments: [2, 3], print: (w) => stl(2, w) },
  stl_decompose: { arguments: [2, 3], print: (w) => `struct_pack(trend := ${stl(0, w)}, seasonal := ${stl(1, w)}, residual := ${stl(2, w)})` },
  correlation: { arguments: [2, 2], print: (w) => `corr(${w.arg(0)}, ${w.arg(1)}) ${w.whole}` },
  cross_correlation: {
    arguments: [3, 3],
    print: (w) => `__svc_cross_correlation(list(${w.arg(0)}) ${w.wholeOrdered}, list(${w.arg(1)}) ${w.wholeOrdered}, ${w.integer(2, 'lag', -1_000_000)})`,
  },
  multivariate_anomaly: {
    arguments: [3, 3],
    print: (w) => {
      const [a, b, over] = [w.arg(0), w.arg(1), w.whole]
      const threshold = `${w.number(2, 'threshold', (n) => n > 0, 'above 0')}::DOUBLE`
      return `__svc_mahalanobis(${zscore(a, over)}, ${zscore(b, over)}, coalesce(corr(${a}, ${b}) ${over}, 0)) / ${threshold}`
    },
  },
}

export const ANALYTIC_WINDOWS: ReadonlySet<string> = new Set(Object.keys(WINDOWS))
export const ANALYTIC_AGGREGATES: ReadonlySet<string> = new Set(['first', 'last', 'rate', 'irate'])

export function printAnalyticWindow(p: Printer, name: string, children: Node[], print: (node: Node) => string, partition: string, order: string): string {
  const analytic = WINDOWS[name]
  const [least, most] = analytic.arguments
  if (children.length < least || children.length > most) {
    throw refuse(`cannot call ${name} with ${children.length} arguments: it takes ${least === most ? least : `${least} to ${most}`}`)
  }
  const over = (parts: string[]): string => `OVER (${parts.filter((part) => part !== '').join(' ')})`
  const values = children.map((child) => (child.class === 'CONSTANT' ? undefined : `CAST(${print(child)} AS DOUBLE)`))
  return p.put(
    `(${analytic.print({
      arg: (i) => values[i] ?? `CAST(${print(children[i])} AS DOUBLE)`,
      integer(i, what, low, fallback) {
        if (children[i] === undefined && fallback !== undefined) return fallback
        const value = constantInteger(children[i])
        if (value === undefined || value < BigInt(low) || value > 1_000_000n)
          throw refuse(`cannot call ${name}: the ${what} must be a constant integer from ${low} to 1000000`)
        return Number(value)
      },
      number(i, what, accept, hint) {
        const value = constantNumber(children[i])
        if (value === undefined || !accept(value)) throw refuse(`cannot call ${name}: the ${what} must be a constant number ${hint}`)
        return value
      },
      flag(i) {
        if (children[i] === undefined) return false
        const value = booleanOf(children[i])
        if (value === undefined) throw refuse(`cannot call ${name}: robust must be TRUE or FALSE`)
        return value
      },
      over: (frame) => over([partition, order.trim(), frame]),
      ordered: over([partition, order.trim()]),
      whole: over([partition]),
      wholeOrdered: over([partition, order.trim(), 'ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING']),
    })})`,
  )
}

/** The parser writes TRUE as CAST('t' AS BOOLEAN). */
function booleanOf(node: Node): boolean | undefined {
  if (node.class === 'CONSTANT' && node.value?.type?.id === 'BOOLEAN') return node.value.value === true
  const text = node.class === 'CAST' && node.cast_type?.id === 'BOOLEAN' ? constantText(node.child) : undefined
  return text === 't' || text === 'true' ? true : text === 'f' || text === 'false' ? false : undefined
}

/** `first`, `last`, `rate`, `irate` with a value and its time; `over` is empty or an OVER clause. */
export function printAnalyticAggregate(name: string, value: string, time: string, filter: string | undefined, over: string): string {
  const where = (condition: string): string => ` FILTER (WHERE ${condition})`
  if (name === 'first' || name === 'last')
    return `${name === 'first' ? 'arg_min' : 'arg_max'}(${value}, ${time})${filter === undefined ? '' : where(filter)}${over}`
  const present = where(`${value} IS NOT NULL AND ${time} IS NOT NULL${filter === undefined ? '' : ` AND ${filter}`}`)
  const list = (what: string): string => `list(${what} ORDER BY ${time})${present}${over}`
  return `__svc_rate(${list(`CAST(${value} AS DOUBLE)`)}, ${list(`epoch_ns(${time})`)}, ${name === 'irate' ? 1 : 0})`
}
