/** Which of DuckDB's types of time an expression surely has: what `kindOf` of scope.ts knows of times, dates and intervals. */

import { fits, parseInstant, parseTime } from 'svcdb/lib/time-buckets'
import { constantText, type Node } from './ast.ts'
import { foldName } from './names.ts'
import type { Kind } from './scope.ts'

/** TIMESTAMP_NS, other timestamps without a zone, TIMESTAMP WITH TIME ZONE, DATE, INTERVAL. */
export type TimeKind = 'time' | 'stamp' | 'zoned' | 'date' | 'interval'

const TYPES: Record<string, TimeKind> = {
  TIMESTAMP_NS: 'time',
  TIMESTAMP: 'stamp',
  TIMESTAMP_S: 'stamp',
  TIMESTAMP_MS: 'stamp',
  'TIMESTAMP WITH TIME ZONE': 'zoned',
  DATE: 'date',
  INTERVAL: 'interval',
}

/** Words that the parser leaves as column names. */
const WORDS: Record<string, TimeKind> = { current_timestamp: 'zoned', localtimestamp: 'stamp', current_date: 'date' }

const RESULTS = new Map<string, TimeKind>()
const define = (kind: TimeKind, names: string): void => {
  for (const name of names.split(' ')) RESULTS.set(name, kind)
}
define('time', 'time_bucket make_timestamp_ns')
define('stamp', 'current_localtimestamp make_timestamp make_timestamp_ms')
define('zoned', 'now get_current_timestamp transaction_timestamp to_timestamp make_timestamptz ago')
define('date', 'today make_date last_day')
define('interval', 'age to_years to_quarters to_months to_weeks to_days to_hours to_minutes to_seconds to_milliseconds to_microseconds')
define('interval', 'to_decades to_centuries to_millennia normalized_interval')

const TIMES = new Set<Kind | undefined>(['time', 'stamp', 'zoned', 'date'])
export const isTimeKind = (kind: Kind | undefined): boolean => TIMES.has(kind)

function kindOfTimeType(id: string | undefined): TimeKind | undefined {
  return id !== undefined && Object.hasOwn(TYPES, id) ? TYPES[id] : undefined
}

/** Of a name that is no column. */
export function kindOfWord(names: readonly string[]): TimeKind | undefined {
  const word = names.length === 1 ? foldName(names[0]) : ''
  return Object.hasOwn(WORDS, word) ? WORDS[word] : undefined
}

/** A timestamp's text with more than six digits behind the point is read as nanoseconds. */
export function kindOfTimeCast(node: Node): TimeKind | undefined {
  const kind = kindOfTimeType(node.cast_type?.id)
  const text = node.cast_type?.id === 'TIMESTAMP' ? constantText(node.child) : undefined
  const digits = text === undefined ? 0 : (parseTime(text)?.fractionDigits ?? 0)
  return digits <= 6 ? kind : fits(parseInstant(text as string) as bigint) ? 'time' : 'stamp'
}

/** @param kind of an argument. */
export function kindOfTimeCall(name: string, children: readonly Node[], kind: (node: Node) => Kind | undefined): Kind | undefined {
  const found = RESULTS.get(name)
  if (found !== undefined) return found
  switch (name) {
    case '+':
    case 'add':
    case 'date_add':
      return children.length === 2 ? (sum(kind(children[0]), kind(children[1])) ?? sum(kind(children[1]), kind(children[0]))) : undefined
    case '-':
    case 'subtract':
      return children.length === 2 ? difference(kind(children[0]), kind(children[1])) : children.length === 1 ? interval(kind(children[0])) : undefined
    case '*':
    case '/':
    case 'multiply':
    case 'divide':
      return children.map(kind).includes('interval') ? 'interval' : undefined
    case 'date_trunc':
    case 'datetrunc': {
      const of = children.length === 2 ? kind(children[1]) : undefined
      return of === 'date' ? 'stamp' : of === 'interval' || isTimeKind(of) ? of : undefined
    }
    case 'timezone': {
      const of = children.length === 2 ? kind(children[1]) : undefined
      return of === 'zoned' ? 'stamp' : isTimeKind(of) ? 'zoned' : undefined
    }
    case 'epoch_ms':
      return kind(children[0]) === 'exact' ? 'stamp' : undefined
    case 'greatest':
    case 'least':
    case 'ifnull':
      return mixed(children, kind)
    case 'avg':
    case 'mean':
    case 'quantile':
    case 'quantile_disc':
    case 'quantile_cont':
      return kind(children[0]) === 'time' && (children.length === 1 || children[1].class === 'CONSTANT') ? 'time' : undefined
    default:
      return undefined
  }
}

const interval = (kind: Kind | undefined): TimeKind | undefined => (kind === 'interval' ? 'interval' : undefined)

function sum(time: Kind | undefined, by: Kind | undefined): Kind | undefined {
  if (by === 'interval') return time === 'date' ? 'stamp' : time === 'interval' || isTimeKind(time) ? time : undefined
  return by === 'exact' && time === 'date' ? 'date' : undefined
}

function difference(left: Kind | undefined, right: Kind | undefined): Kind | undefined {
  if (right === 'interval' || right === 'exact') return sum(left, right)
  if (left === 'date' && right === 'date') return 'exact'
  return isTimeKind(left) && isTimeKind(right) ? 'interval' : undefined
}

/** The kind of a value that is one of several: nanoseconds as soon as one has them and all are times. */
export function mixed(nodes: readonly Node[], kind: (node: Node) => Kind | undefined): Kind | undefined {
  const kinds = new Set(nodes.filter((node) => node.class !== 'CONSTANT' || node.value?.is_null !== true).map(kind))
  if (kinds.size === 1) return [...kinds][0]
  return kinds.has('time') && [...kinds].every(isTimeKind) ? 'time' : undefined
}
