/** Signals: what a trigger has found, as it is kept, shown and delivered. */
import { createHash } from 'node:crypto'
import { jsonDigits } from 'svcdb/lib/json'
import { seriesText } from './cooldown/cooldowns.ts'

/** Characters of a condition that a signal has. */
const CONDITION = 1024

const NONE: ReadonlySet<string> = new Set()

export type Severity = 'info' | 'warning' | 'critical'

/** As it is kept. */
export interface Signal {
  event_id: string
  trigger_id: string
  trigger_name: string
  measurement: string
  tags: Record<string, string>
  /** Of the point, nanoseconds, as decimal text: JSON numbers are too short for it. */
  timestamp: string
  severity: Severity
  value: number
  metadata: SignalMetadata
}

interface SignalMetadata {
  /** Place in the order of the namespace's signals. */
  sequence: number
  condition: string
  /** The write was a backfill. */
  backfill?: true
  /** Tags that the series has beside these, for together they are too large. */
  tags_omitted?: number
}

export interface Thresholds {
  warning: number
  critical: number
}

export function severityOf(value: number, { warning, critical }: Thresholds): Severity {
  return value >= critical ? 'critical' : value >= warning ? 'warning' : 'info'
}

/**
 * The id of a trigger's signal for a point: the same whenever it is made (UUID version 5, RFC 9562, in the trigger's own namespace of names).
 * @param trigger a UUID.
 */
export function eventId(trigger: string, tags: Readonly<Record<string, string>>, time: string): string {
  const digest = createHash('sha1')
    .update(Buffer.from(trigger.replaceAll('-', ''), 'hex'))
    .update(`${time} ${seriesText(tags)}`)
    .digest()
  digest[6] = (digest[6] & 0x0f) | 0x50
  digest[8] = (digest[8] & 0x3f) | 0x80
  const hex = digest.toString('hex')
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-${hex.slice(12, 16)}-${hex.slice(16, 20)}-${hex.slice(20, 32)}`
}

/**
 * Tags as a signal has them: a series may have hundreds of kilobytes, and each of its points a signal. What is more than `most` bytes, keys included, is left out, the
 * largest tags first, and those that composites are by last: they compare them.
 */
export function signalTags(
  tags: Readonly<Record<string, string>>,
  most: number,
  by: () => ReadonlySet<string> = () => NONE,
): { tags: Record<string, string>; omitted: number } {
  const sized = Object.entries(tags).map(([key, value]) => ({ key, bytes: Buffer.byteLength(key) + Buffer.byteLength(value) }))
  let sum = sized.reduce((all, { bytes }) => all + bytes, 0)
  if (sum <= most) return { tags, omitted: 0 }
  const last = by()
  const left = new Set<string>()
  for (const { key, bytes } of sized.toSorted((a, b) => Number(last.has(a.key)) - Number(last.has(b.key)) || b.bytes - a.bytes)) {
    if (sum <= most) break
    left.add(key)
    sum -= bytes
  }
  return { tags: Object.fromEntries(Object.entries(tags).filter(([key]) => !left.has(key))), omitted: left.size }
}

/** A condition as a signal has it: thousands of characters would be kept with each. */
export const signalCondition = (text: string): string => (text.length > CONDITION ? `${text.slice(0, CONDITION).toWellFormed()}...` : text)

/** Characters of what may be large of a signal. */
export function sizeOf({ tags, metadata }: Pick<Signal, 'tags' | 'metadata'>): number {
  let size = metadata.condition?.length ?? 0
  for (const key in tags) size += key.length + tags[key].length
  return size
}

/** As callers read it, for JSON.stringify: the timestamp is an integer of nanoseconds, with all its digits. */
export function signalData(signal: Signal): Record<string, unknown> {
  const { event_id, trigger_id, trigger_name, measurement, tags, timestamp, severity, value, metadata } = signal
  return { event_id, trigger_id, trigger_name, measurement, tags, timestamp: jsonDigits(timestamp), signal_type: 'trigger', severity, value, metadata }
}

/** Milliseconds. */
export function millisOf(timestamp: string): number {
  return Number(BigInt(timestamp) / 1_000_000n)
}
