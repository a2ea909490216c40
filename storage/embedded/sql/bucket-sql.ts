/** `time_bucket(width, time [, timezone [, origin]])` as SQL: fixed widths are integer arithmetic, calendar widths ask `__svc_bucket`. */

import type { Bucketing, Span } from 'svcdb/lib/time-buckets'
import { constantText, literal, type Node, refuse } from './ast.ts'
import { bucketing } from './bucket.ts'
import { foldInstant, foldSpan } from './fold.ts'
import type { Printer } from './printer.ts'
import { resolve, type Scope } from './scope.ts'

/** What `__svc_bucket` needs to know, as its second argument. */
export interface BucketSpec {
  span: { months: number; days: number; ns: string }
  zone: string
  origin?: string
}

export function printBucket(p: Printer, node: Node, scope: Scope): string {
  const [width, time, zone, origin] = (node.children ?? []) as Node[]
  const count = node.children?.length ?? 0
  if (count < 2 || count > 4)
    throw refuse(`cannot compute time_bucket: it takes a width, a time, and optionally a time zone and an origin, not ${count} arguments`)
  const open = [width, zone, origin].filter((node) => node?.class === 'PARAMETER')
  if (open.length > 0) return openBucket(p, nanoseconds(p, time, scope), open, scope)
  const spanOrText = constantText(width) ?? foldSpan(width)
  if (spanOrText === undefined) throw refuse("cannot compute time_bucket: the width must be a constant such as INTERVAL '5 minutes' or '5m'")
  const zoneName = zone === undefined ? '' : constantText(zone)
  if (zoneName === undefined) throw refuse("cannot compute time_bucket: the time zone must be a string such as 'Europe/Berlin', or '' for UTC")
  const originText = origin === undefined ? undefined : (constantText(origin) ?? constantText(origin.class === 'CAST' ? origin.child : undefined))
  if (origin !== undefined && originText === undefined)
    throw refuse("cannot compute time_bucket: the origin must be a constant such as '2024-01-01' or '2024-01-01T06:00:00Z'")
  const buckets = bucketing(spanOrText, zoneName, originText, p.now)
  const ns = nanoseconds(p, time, scope)
  if (buckets.kind !== 'fixed') return `make_timestamp_ns(__svc_bucket(${ns}, ${literal(JSON.stringify(specOf(buckets, zoneName, originText)))}))`
  return `make_timestamp_ns(${floorTo(ns, buckets.step, buckets.anchor, lowerBound(time, scope))})`
}

/** With values still to come: of the type that it will have. */
function openBucket(p: Printer, ns: string, open: readonly Node[], scope: Scope): string {
  return `make_timestamp_ns(CASE WHEN ${open.map((node) => `CAST(${p.expr(node, scope)} AS VARCHAR) IS NULL`).join(' OR ')} THEN NULL ELSE ${ns} END)`
}

function nanoseconds(p: Printer, time: Node, scope: Scope): string {
  const folded = constantText(time) === undefined ? undefined : foldInstant(time, p.now)
  return folded !== undefined ? `(${folded})::BIGINT` : `epoch_ns(${p.expr(time, scope)})`
}

/** The earliest time the scan lets through: from the anchor on, the remainder needs no correction for negative numbers. */
function lowerBound(time: Node, scope: Scope): bigint | undefined {
  return time.class === 'COLUMN_REF' ? resolve(time.column_names, scope)?.source.time[0] : undefined
}

/** Longer texts are not repeated within an expression: nested in each other they would multiply. */
export const REPEATED = 256

/** @param low no time is earlier: from the anchor on, the remainder needs no correction. */
export function floorTo(ns: string, step: bigint, anchor: bigint, low: bigint | undefined): string {
  if (step === 1n) return ns
  if (ns.length > REPEATED) return `__svc_floor(${ns}, (${step}), (${anchor}))`
  const rest = anchor === 0n ? `${ns} % ${step}` : `(${ns} - ${anchor}) % ${step}`
  if (low !== undefined && low >= anchor) return `${ns} - ${rest}`
  return `${ns} - (${rest}) - CASE WHEN (${rest}) < 0 THEN ${step} ELSE 0 END`
}

function specOf(buckets: Exclude<Bucketing, { kind: 'fixed' }>, zone: string, origin: string | undefined): BucketSpec {
  const span = { months: buckets.kind === 'months' ? buckets.count : 0, days: buckets.kind === 'days' ? buckets.count : 0, ns: '0' }
  return { span, zone, ...(origin === undefined ? {} : { origin }) }
}

export function bucketingOf(spec: BucketSpec): Bucketing {
  const span: Span = { months: spec.span.months, days: spec.span.days, ns: BigInt(spec.span.ns) }
  return bucketing(span, spec.zone, spec.origin, 0n)
}
