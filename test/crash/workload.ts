/**
 * What is written: a batch is a pure function of its number, so that the check needs no copy of what was sent.
 *
 * A point's time names its batch and place: base + batch * 1 ms + place; remote write has milliseconds, and there a tag names the place.
 * Batches go by one protocol or the other, each one's to a measurement of its own; every third line protocol batch sends each point as two lines,
 * which the server must merge.
 */
export const NS_PER_BATCH = 1_000_000n

export type Protocol = 'line_protocol' | 'json' | 'remote_write' | 'otlp' | 'grpc' | 'flight_sql'

/** The protocols that need nothing but text over HTTP. */
export const TEXT_PROTOCOLS: readonly Protocol[] = ['line_protocol', 'json']
export const ALL_PROTOCOLS: readonly Protocol[] = ['line_protocol', 'json', 'remote_write', 'otlp', 'grpc', 'flight_sql']

export interface ExpectedPoint {
  time: bigint
  tags: Record<string, string>
  /** As the native query shows them, in one canonical text. */
  fields: string
}

export const MEASUREMENT: Record<Protocol, string> = {
  line_protocol: 'crash_lines',
  json: 'crash_json',
  remote_write: 'crash_remote_write',
  otlp: 'crash_otlp',
  grpc: 'crash_grpc',
  flight_sql: 'crash_flight_sql',
}

/** What tells the points of a measurement apart, in SQL. */
export function identityOf(protocol: Protocol): string {
  return protocol === 'remote_write' ? '(_time, place)' : '_time'
}

export function protocolOf(batch: number, protocols: readonly Protocol[] = TEXT_PROTOCOLS): Protocol {
  return protocols[mix(batch, 1) % protocols.length]
}

export function sizeOf(batch: number): number {
  return 1 + (mix(batch, 2) % 60)
}

export function timeOf(base: bigint, batch: number, place: number): bigint {
  return base + BigInt(batch) * NS_PER_BATCH + BigInt(place)
}

export function batchAt(base: bigint, time: bigint): number {
  return Number((time - base) / NS_PER_BATCH)
}

export interface Values {
  tags: Record<string, string>
  float: number
  integer: bigint
  text: string
  decimal: string
  flag: boolean
}

export function valuesOf(batch: number, place: number): Values {
  const r = mix(batch, place + 3)
  return {
    tags: { host: `h${r % 7}`, zone: `z${(r >>> 4) % 3}` },
    float: (r % 100_000) + 0.5,
    // Beyond 2^53, where a float would show.
    integer: 2n ** 62n + BigInt(batch) * 1000n + BigInt(place),
    text: `b${batch} "p"${place} ${'é'.repeat(r % 9)}`,
    decimal: `${r % 1000}.${String(r % 100).padStart(2, '0')}`,
    flag: r % 2 === 0,
  }
}

/** Of a text protocol. */
export function bodyOf(base: bigint, batch: number, protocol: Protocol): string {
  const places = Array.from({ length: sizeOf(batch) }, (_, place) => place)
  if (protocol === 'json') return `[${places.map((place) => jsonPoint(base, batch, place)).join(',')}]`
  return places.map((place) => linePoint(base, batch, place)).join('\n')
}

export function expectedPoints(base: bigint, batch: number, protocol: Protocol): ExpectedPoint[] {
  return Array.from({ length: sizeOf(batch) }, (_, place) => {
    const values = valuesOf(batch, place)
    const time = timeOf(base, batch, protocol === 'remote_write' ? 0 : place)
    const tags = protocol === 'remote_write' ? { ...values.tags, place: `p${place}` } : values.tags
    return { time, tags, fields: canonical(fieldsOf(protocol, values)) }
  })
}

function fieldsOf(protocol: Protocol, { float, integer, text, decimal, flag }: Values): Record<string, unknown> {
  const some = { d: { decimal }, f: float, t: text }
  if (protocol === 'json') return { ...some, b: flag }
  if (protocol === 'line_protocol') return { ...some, i: integer }
  if (protocol === 'grpc') return { ...some, b: flag, i: integer }
  if (protocol === 'flight_sql') return { f: float, t: text, b: flag, i: integer }
  return { value: float }
}

/** Members in order, integers as their digits. */
export function canonical(fields: Record<string, unknown>): string {
  return Object.keys(fields)
    .sort()
    .map((key) => `${key}=${typeof fields[key] === 'bigint' ? fields[key] : JSON.stringify(fields[key])}`)
    .join(' ')
}

function linePoint(base: bigint, batch: number, place: number): string {
  const { tags, float, integer, text, decimal } = valuesOf(batch, place)
  const key = `${MEASUREMENT.line_protocol},host=${tags.host},zone=${tags.zone}`
  const time = timeOf(base, batch, place)
  const numbers = `f=${float},i=${integer}i`
  const rest = `t="${text.replaceAll('"', '\\"')}",d=${decimal}d`
  return batch % 3 === 0 ? `${key} ${numbers} ${time}\n${key} ${rest} ${time}` : `${key} ${numbers},${rest} ${time}`
}

function jsonPoint(base: bigint, batch: number, place: number): string {
  const { tags, float, text, decimal, flag } = valuesOf(batch, place)
  const fields = { f: float, t: text, d: { decimal }, b: flag }
  const head = JSON.stringify({ measurement: MEASUREMENT.json, tags, fields })
  // The time is past 2^53: JSON.stringify would round it.
  return `${head.slice(0, -1)},"timestamp":${timeOf(base, batch, place)}}`
}

/** A number of 31 bits that looks random and is the same every time. */
function mix(a: number, b: number): number {
  let h = Math.imul(a ^ 0x9e3779b9, 0x85ebca6b) ^ Math.imul(b + 0x7f4a7c15, 0xc2b2ae35)
  h = Math.imul(h ^ (h >>> 15), 0x2c1b3c6d)
  h = Math.imul(h ^ (h >>> 12), 0x297a2d39)
  return (h ^ (h >>> 15)) & 0x7fffffff
}
