/**
 * What an expression over `_time` alone says of it: a time moved by a fixed interval, or rounded down. With its value v and the row's time t it always holds
 * that t lies in [v - shift, v - shift + slack]; that is all pruning needs to know.
 */

import { fixedLength, parseSpan, parseTime, type Span } from 'svcdb/lib/time-buckets'
import { constantText, type Node } from './ast.ts'
import { foldInstant, foldSpan, foldTime } from './fold.ts'
import { foldName } from './names.ts'
import { longest, truncationOf } from './truncation.ts'

export interface TimeTerm {
  shift: bigint
  slack: bigint
  /** It has nanoseconds: texts and integers that it is compared with are read exactly. Else DuckDB reads them, in its own way. */
  exact: boolean
}

const HOUR = 3_600_000_000_000n
const DAY = 24n * HOUR

export function timeTerm(node: Node | undefined, isTime: (node: Node) => boolean): TimeTerm | undefined {
  if (node === undefined) return undefined
  if (isTime(node)) return { shift: 0n, slack: 0n, exact: true }
  if (node.class === 'CAST') return rounded(timeTerm(node.child, isTime), CASTS[String(node.cast_type?.id)])
  if (node.class !== 'FUNCTION' || (node.schema !== undefined && node.schema !== 'main') || node.catalog !== undefined) return undefined
  const [a, b, ...more] = (node.children ?? []) as Node[]
  switch (foldName(String(node.function_name))) {
    case '+':
    case 'date_add':
      return more.length > 0 ? undefined : (moved(timeTerm(a, isTime), b, 1n) ?? moved(timeTerm(b, isTime), a, 1n))
    case '-':
      return more.length > 0 ? undefined : moved(timeTerm(a, isTime), b, -1n)
    case 'date_trunc':
    case 'datetrunc': {
      const truncation = more.length > 0 ? undefined : truncationOf(constantText(a))
      return truncation === undefined ? undefined : rounded(timeTerm(b, isTime), { slack: longest(truncation) - 1n, exact: true })
    }
    case 'time_bucket': {
      const width = constantText(a)
      const span = width === undefined ? a && foldSpan(a) : parseSpan(width)
      return span === undefined ? undefined : rounded(timeTerm(b, isTime), { slack: longestBucket(span), exact: true })
    }
    default:
      return undefined
  }
}

const CASTS: Record<string, Pick<TimeTerm, 'slack' | 'exact'>> = {
  TIMESTAMP_NS: { slack: 0n, exact: true },
  TIMESTAMP: { slack: 999n, exact: false },
  'TIMESTAMP WITH TIME ZONE': { slack: 999n, exact: false },
  DATE: { slack: DAY - 1n, exact: false },
}

function rounded(term: TimeTerm | undefined, by: Pick<TimeTerm, 'slack' | 'exact'> | undefined): TimeTerm | undefined {
  return term === undefined || by === undefined ? undefined : { shift: term.shift, slack: term.slack + by.slack, exact: term.exact && by.exact }
}

function moved(term: TimeTerm | undefined, by: Node | undefined, sign: bigint): TimeTerm | undefined {
  const span = term === undefined || by === undefined ? undefined : foldSpan(by)
  const length = span === undefined ? undefined : fixedLength(span)
  return term === undefined || length === undefined ? undefined : { ...term, shift: term.shift + sign * length }
}

/** On the clock of a zone a day may have 25 hours, and a month begins an hour early. */
function longestBucket({ months, days, ns }: Span): bigint {
  return BigInt(months) * 31n * DAY + BigInt(days) * (DAY + HOUR) + ns + DAY
}

/** The instant that the term is compared with; undefined when it is none, or when only DuckDB knows how it reads it. */
export function valueFor(term: TimeTerm, other: Node, now: bigint): bigint | undefined {
  if (term.exact) return foldInstant(other, now)
  const text = constantText(other)
  if (text === undefined) return foldTime(other, now)?.ns
  const time = parseTime(text)
  return time?.dateOnly && time.offset === undefined ? time.local : undefined
}
