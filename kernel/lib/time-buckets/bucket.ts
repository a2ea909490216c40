/**
 * Buckets of time (spec 001, "Rollup": widths, time zones, origins; the same rules for `time_bucket()`).
 *
 * Fixed widths (ns to h) are one division from a fixed anchor. Days, weeks, months and years follow the wall clock of the zone: a day has
 * 23 or 25 hours where the clock changes. Anchors without an origin: midnight of 1970-01-01 on the zone's clock (its standard offset for
 * fixed widths), Monday for weeks, 2000-01-01 for months and years.
 */
import { civilFromDays, daysFromCivil, floorDiv, parseTime } from './instant.ts'
import { fixedLength, foldAscii, parseSpan, type Span } from './span.ts'
import { type Zone, zoneOf } from './zone.ts'

const DAY = 86_400_000_000_000n
const MONDAY = 4 * 86_400
const EPOCH_2000 = 2000 * 12

/** Where buckets begin, made by `bucketing`. */
export type Bucketing =
  /** Start of the bucket of t: t - floorMod(t - anchor, step). */
  | { kind: 'fixed'; step: bigint; anchor: bigint }
  /** Every `count` days from day `anchor` (since 1970) at `clock` ns past midnight, on the zone's clock. */
  | { kind: 'days'; count: number; anchor: number; clock: bigint; zone: Zone }
  /** Every `count` months from month `anchor` (year * 12 + month - 1), on `day` at `clock`. */
  | { kind: 'months'; count: number; anchor: number; day: number; clock: bigint; zone: Zone }

/** A width, a zone or an origin that means nothing; the message says why, without a subject. */
export class BucketError extends Error {}

const bad = (what: string): BucketError => new BucketError(what)

/**
 * @param zoneName of the IANA database; empty = UTC. @param now nanoseconds: the zone's standard offset of that time counts for fixed widths.
 * @throws BucketError
 */
export function bucketing(width: Span | string, zoneName: string, origin: string | undefined, now: bigint): Bucketing {
  const span = typeof width === 'string' ? parseSpan(width) : width
  if (span === undefined) throw bad(`unknown width "${width}"; write a number and a unit out of ns, us, ms, s, m, min, h, d, w, mo, y`)
  if (span.months < 0 || span.days < 0 || span.ns < 0n || (span.months === 0 && span.days === 0 && span.ns === 0n)) throw bad('the width must be positive')
  const zone = zoneOf(zoneName === '' ? 'UTC' : zoneName)
  if (zone === undefined) throw bad(`unknown time zone "${zoneName}"; use a name of the IANA database such as "Europe/Berlin"`)
  const utc = zoneName === '' || ['utc', 'etc/utc', 'gmt', 'z'].includes(foldAscii(zoneName))
  if (span.months > 0) {
    if (span.days !== 0 || span.ns !== 0n) throw bad('a width of months or years cannot be combined with other units')
    return monthly(span.months, zone, origin)
  }
  if (span.days > 0 && span.ns !== 0n && !utc) throw bad('a width of days and hours has no meaning in a time zone; use one or the other')
  if (span.days === 0 || utc) return fixed(fixedLength(span) as bigint, span, zone, utc, origin, now)
  return daily(span.days, zone, origin)
}

function fixed(step: bigint, span: Span, zone: Zone, utc: boolean, origin: string | undefined, now: bigint): Bucketing {
  const at = readOrigin(origin, zone)
  if (at !== undefined) return { kind: 'fixed', step, anchor: floorMod(at.instant, step) }
  if (span.ns === 0n && span.days % 7 === 0) return { kind: 'fixed', step, anchor: floorMod(BigInt(MONDAY) * 1_000_000_000n, step) }
  const offset = utc ? 0 : zone.standardOffset(Number(now / 1_000_000_000n))
  return { kind: 'fixed', step, anchor: floorMod(BigInt(-offset) * 1_000_000_000n, step) }
}

function daily(count: number, zone: Zone, origin: string | undefined): Bucketing {
  const at = readOrigin(origin, zone)
  if (at === undefined) return { kind: 'days', count, anchor: count % 7 === 0 ? 4 : 0, clock: 0n, zone }
  return { kind: 'days', count, anchor: Number(floorDiv(at.local, DAY)), clock: floorMod(at.local, DAY), zone }
}

function monthly(count: number, zone: Zone, origin: string | undefined): Bucketing {
  const at = readOrigin(origin, zone)
  if (at === undefined) return { kind: 'months', count, anchor: EPOCH_2000, day: 1, clock: 0n, zone }
  const { year, month, day } = civilFromDays(Number(floorDiv(at.local, DAY)))
  if (day > 28) throw bad(`the origin "${origin}" of a monthly width falls on day ${day}; it must be a day from 1 to 28, which every month has`)
  return { kind: 'months', count, anchor: year * 12 + month - 1, day, clock: floorMod(at.local, DAY), zone }
}

/** A date or a local date-time is read on the zone's clock, an RFC 3339 instant stands for itself. */
function readOrigin(origin: string | undefined, zone: Zone): { instant: bigint; local: bigint } | undefined {
  if (origin === undefined) return undefined
  const time = parseTime(origin)
  if (time === undefined) throw bad(`unknown origin "${origin}"; use a date, a local date-time or an RFC 3339 instant`)
  if (time.offset === undefined) return { instant: zone.toInstant(time.local), local: time.local }
  const instant = time.local - BigInt(time.offset) * 60_000_000_000n
  return { instant, local: zone.toLocal(instant) }
}

/** Start (inclusive) and end (exclusive) of the bucket that holds t, in ns. */
export function bucketOf(t: bigint, b: Bucketing): [start: bigint, end: bigint] {
  if (b.kind === 'fixed') {
    const start = t - floorMod(t - b.anchor, b.step)
    return [start, start + b.step]
  }
  // A wall clock near a change may belong to an adjacent bucket's instants: step until the instants enclose t.
  let index = b.kind === 'days' ? dayIndex(b.zone.toLocal(t), b) : monthIndex(b.zone.toLocal(t), b)
  for (;;) {
    const start = boundary(index, b)
    if (t < start) {
      index--
      continue
    }
    const end = boundary(index + 1, b)
    if (t < end) return [start, end]
    index++
  }
}

function dayIndex(local: bigint, b: Bucketing & { kind: 'days' }): number {
  return Math.floor((Number(floorDiv(local - b.clock, DAY)) - b.anchor) / b.count)
}

function monthIndex(local: bigint, b: Bucketing & { kind: 'months' }): number {
  const { year, month, day } = civilFromDays(Number(floorDiv(local - b.clock, DAY)))
  return Math.floor((year * 12 + month - 1 - (day < b.day ? 1 : 0) - b.anchor) / b.count)
}

function boundary(index: number, b: Bucketing & { kind: 'days' | 'months' }): bigint {
  if (b.kind === 'days') return b.zone.toInstant(BigInt(b.anchor + index * b.count) * DAY + b.clock)
  const month = b.anchor + index * b.count
  return b.zone.toInstant(BigInt(daysFromCivil(Math.floor(month / 12), (((month % 12) + 12) % 12) + 1, b.day)) * DAY + b.clock)
}

/** The remainder that is never negative. */
export function floorMod(a: bigint, b: bigint): bigint {
  const rest = a % b
  return rest < 0n ? rest + b : rest
}
