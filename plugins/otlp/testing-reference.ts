/** A decoder of metrics requests as plain as can be, for fuzzing: any difference to the real one is a bug in one of them. */
import { varintAt, type WireField, walkFields } from 'svcdb/testkit'
import type { Cell, Point } from './testing-decoding.ts'

export interface ReferenceResult {
  points: Point[]
  refused: number
  skipped: number
  exemplars: number
}

type Reader = (bytes: Uint8Array) => Cell | Record<string, Cell> | 'refused' | 'skipped'

class Refused extends Error {}

const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })
const scratch = new DataView(new ArrayBuffer(8))

/** @throws Error when the bytes are no request. */
export function referenceDecode(message: Uint8Array): ReferenceResult {
  const result: ReferenceResult = { points: [], refused: 0, skipped: 0, exemplars: 0 }
  let position = 0
  const types: Types = new Map()
  for (const resourceMetrics of messagesOf(message, 1)) {
    const all = fieldsOf(resourceMetrics)
    const resource = joined(all.filter(({ number }) => number === 1).map(blob))
    const tags = attempt(() => attributesOf(messagesOf(resource, 1)))
    for (const scope of all.filter(({ number }) => number === 2))
      for (const metric of messagesOf(blob(scope), 2)) position = metricPoints(metric, tags, types, result, position)
  }
  return result
}

function metricPoints(metric: Uint8Array, tags: Record<string, string> | undefined, types: Types, result: ReferenceResult, start: number): number {
  const fields = fieldsOf(metric)
  let data = 0
  let parts: Uint8Array[] = []
  for (const field of fields) {
    if (![5, 7, 9, 10, 11].includes(field.number)) continue
    if (field.number !== data) parts = []
    data = field.number
    parts.push(blob(field))
  }
  if (data === 0) return start
  const points: Uint8Array[] = []
  let delta = false
  for (const field of fieldsOf(joined(parts))) {
    if (field.number === 1) points.push(blob(field))
    else if (field.number === 2 && field.wire === 0) delta = BigInt.asIntN(32, field.value) === 1n
  }
  if (points.length === 0) return start
  const name = attempt(() => text(fields.filter(({ number, wire }) => number === 1 && wire === 2).at(-1)?.bytes ?? new Uint8Array(0)))
  if (name === undefined || tags === undefined) {
    result.refused += points.length
    return start + points.length
  }
  for (const [i, bytes] of points.entries()) onePoint(bytes, data, delta, name, tags, types, result, start + i)
  return start + points.length
}

const SHAPES: Record<number, { attributes: number; exemplars: number; flags: number; read: (fields: WireField[], delta: boolean) => ReturnType<Reader> }> = {
  5: { attributes: 7, exemplars: 5, flags: 8, read: (fields) => named('gauge', numberOf(fields)) },
  7: { attributes: 7, exemplars: 5, flags: 8, read: (fields) => named('value', numberOf(fields)) },
  9: { attributes: 9, exemplars: 8, flags: 10, read: (fields, delta) => named('value', explicitOf(fields, delta)) },
  10: { attributes: 1, exemplars: 11, flags: 10, read: (fields, delta) => named('value', exponentialOf(fields, delta)) },
  11: { attributes: 7, exemplars: -1, flags: 8, read: summaryOf },
}

function onePoint(
  bytes: Uint8Array,
  data: number,
  delta: boolean,
  measurement: string,
  tags: Record<string, string>,
  types: Types,
  result: ReferenceResult,
  position: number,
): void {
  const shape = SHAPES[data]
  const fields = fieldsOf(bytes)
  const attributes = fields.filter(({ number }) => number === shape.attributes).map(blob)
  result.exemplars += fields.filter(({ number }) => number === shape.exemplars).map(blob).length
  let flags = 0n
  let time = 0n
  for (const field of fields) {
    if (field.number === shape.flags) flags = varint(field)
    if (field.number === 3) time = fixed(field)
  }
  const stale = (flags & 1n) === 1n
  const read = shape.read(fields, delta)
  if (time === 0n || time >= 2n ** 63n) {
    result.refused++
    return
  }
  let cells: Record<string, Cell>
  if (stale && (data !== 11 || read !== 'refused'))
    cells = Object.fromEntries(Object.keys(data === 11 ? (read as object) : { [data === 5 ? 'gauge' : 'value']: 0 }).map((name) => [name, 'stale']))
  else if (read === 'refused' || read === 'skipped') {
    result[read]++
    return
  } else cells = read as Record<string, Cell>
  if (data === 11 && !stale) cells = Object.fromEntries(Object.entries(cells).filter(([, value]) => Number.isFinite(value)))
  const own = attempt(() => attributesOf(attributes))
  const fate = own === undefined ? 'refused' : settle(types, measurement, cells, data)
  if (own === undefined || fate === 'refused') result.refused++
  else if (fate === 'skipped') result.skipped++
  else result.points.push({ position, measurement, tags: withoutEmpty({ ...tags, ...own }), time, fields: cells })
}

/** By measurement and field: what a number's first value made of it, and what the measurement's own table has, quantiles among it. */
type Types = Map<string, 'float64' | 'int64' | 'histogram'>

/** Numbers: an integer beyond 2^53 that comes first makes a field of integers, which takes no doubles and has no staleness markers. */
function settle(types: Types, measurement: string, cells: Record<string, Cell>, data: number): 'refused' | 'skipped' | 'taken' {
  if (data === 11) {
    const earlier = `own ${measurement} quantile_`
    if (Object.values(cells).includes('stale'))
      for (const known of types.keys()) if (known.startsWith(earlier)) cells[known.slice(`own ${measurement} `.length)] = 'stale'
    for (const field of Object.keys(cells)) types.set(`own ${measurement} ${field}`, 'float64')
    return 'taken'
  }
  const [[field, cell]] = Object.entries(cells)
  const own = `own ${measurement} ${field}`
  if (data > 7) {
    if (types.get(own) === 'int64') return 'refused'
    types.set(own, 'histogram')
    return 'taken'
  }
  const number = `${measurement} ${field}`
  if (!types.has(number)) {
    const big = typeof cell === 'bigint' && (cell > 2n ** 53n || cell < -(2n ** 53n))
    if (big && types.get(own) === 'histogram') return 'refused'
    types.set(number, big ? 'int64' : 'float64')
    if (big) types.set(own, 'int64')
  }
  if (types.get(number) === 'int64') return cell === 'stale' ? 'skipped' : typeof cell === 'bigint' ? 'taken' : 'refused'
  if (typeof cell === 'bigint') cells[field] = Number(cell)
  return 'taken'
}

const named = (name: string, cell: Cell | 'refused' | 'skipped') => (cell === 'refused' || cell === 'skipped' ? cell : { [name]: cell })

function numberOf(fields: WireField[]): Cell | 'refused' | 'skipped' {
  let value: number | bigint | undefined
  for (const field of fields) {
    if (field.number === 4) value = double(field)
    else if (field.number === 6) value = BigInt.asIntN(64, fixed(field))
  }
  if (value === undefined) return 'refused'
  return typeof value === 'bigint' || Number.isFinite(value) ? value : 'skipped'
}

function common(fields: WireField[]): { count: bigint; sum: number } {
  let count = 0n
  let sum = Number.NaN
  for (const field of fields) {
    if (field.number === 4) count = fixed(field)
    else if (field.number === 5) {
      sum = double(field)
      if (!Number.isFinite(sum)) sum = Number.NaN
    }
  }
  return { count, sum }
}

function histogram(
  schema: number,
  { count, sum }: { count: bigint; sum: number },
  delta: boolean,
  most: Partial<Exclude<Cell, number | bigint | 'stale'>>,
): Cell {
  const none = new Float64Array(0)
  return {
    schema,
    counterReset: delta ? 'gauge' : 'unknown',
    count: Number(count),
    sum,
    zeroThreshold: 0,
    zeroCount: 0,
    positiveSpans: [],
    positiveCounts: none,
    negativeSpans: [],
    negativeCounts: none,
    customBounds: none,
    integer: Number(count) <= Number.MAX_SAFE_INTEGER,
    ...most,
  }
}

function addsUp(count: number, sum: number, found: number): boolean {
  if (count > Number.MAX_SAFE_INTEGER) return true
  return Number.isNaN(sum) ? found <= count : found === count
}

const MAX = 100

function explicitOf(fields: WireField[], delta: boolean): Cell | 'refused' {
  const head = common(fields)
  let counts = fields.filter(({ number }) => number === 6).flatMap((field) => words(field).map((word) => Number(word)))
  const bounds = fields.filter(({ number }) => number === 7).flatMap((field) => words(field).map(doubleOf))
  if (Math.max(counts.length, bounds.length) > MAX) return 'refused'
  if (counts.length === 0 && bounds.length === 0) counts = [Number(head.count)]
  if (counts.length !== bounds.length + 1) return 'refused'
  if (bounds.some((bound, i) => Number.isNaN(bound) || (i > 0 && bound <= bounds[i - 1])) || bounds.at(-1) === Number.POSITIVE_INFINITY) return 'refused'
  let found = 0
  for (const count of counts) found += count
  if (!addsUp(Number(head.count), head.sum, found)) return 'refused'
  const side = sideOf(counts, 0)
  return histogram(-53, head, delta, { positiveSpans: side.spans, positiveCounts: side.counts, customBounds: Float64Array.from(bounds) })
}

function exponentialOf(fields: WireField[], delta: boolean): Cell | 'refused' {
  const head = common(fields)
  let scale = 0
  let zeroCount = 0
  let zeroThreshold = 0
  const sides = { 8: { offset: 0, counts: [] as number[] }, 9: { offset: 0, counts: [] as number[] } }
  for (const field of fields) {
    if (field.number === 6) scale = zigzag(varint(field))
    else if (field.number === 7) zeroCount = Number(fixed(field))
    else if (field.number === 14) zeroThreshold = double(field)
    else if (field.number === 8 || field.number === 9) {
      const side = sides[field.number]
      for (const inner of fieldsOf(blob(field))) {
        if (inner.number === 1) side.offset = zigzag(varint(inner))
        else if (inner.number === 2) side.counts.push(...varints(inner))
      }
    }
  }
  if (Math.max(sides[8].counts.length, sides[9].counts.length) > MAX) return 'refused'
  if (scale < -4 || scale > 52 || !(zeroThreshold >= 0 && zeroThreshold < Number.POSITIVE_INFINITY)) return 'refused'
  const shift = Math.max(0, scale - 8)
  const positive = downscaled(sides[8], shift)
  const negative = downscaled(sides[9], shift)
  if (positive === undefined || negative === undefined) return 'refused'
  let found = zeroCount
  for (const count of negative.counts) found += count
  for (const count of positive.counts) found += count
  if (!addsUp(Number(head.count), head.sum, found)) return 'refused'
  return histogram(Math.min(8, scale), head, delta, {
    zeroThreshold: zeroThreshold === 0 ? 1e-128 : zeroThreshold,
    zeroCount,
    positiveSpans: positive.spans,
    positiveCounts: positive.counts,
    negativeSpans: negative.spans,
    negativeCounts: negative.counts,
  })
}

/** OTLP's bucket i, in (base^i, base^(i+1)], is bucket i + 1 here; each step of scale halves the number of buckets. */
function downscaled({ offset, counts }: { offset: number; counts: number[] }, shift: number): ReturnType<typeof sideOf> | undefined {
  const merged = new Map<number, number>()
  for (const [i, count] of counts.entries()) {
    const index = Math.floor((offset + i) / 2 ** shift) + 1
    merged.set(index, (merged.get(index) ?? 0) + count)
  }
  const first = Math.min(...merged.keys())
  const side = sideOf([...merged.values()], merged.size === 0 ? 0 : first)
  const span = side.spans[0]
  return span !== undefined && (Math.abs(span.offset) > 2 ** 30 || Math.abs(span.offset + span.length) > 2 ** 30) ? undefined : side
}

function sideOf(counts: number[], index: number): { spans: { offset: number; length: number }[]; counts: Float64Array } {
  const first = counts.findIndex((count) => count !== 0)
  if (first < 0) return { spans: [], counts: new Float64Array(0) }
  const last = counts.findLastIndex((count) => count !== 0)
  return { spans: [{ offset: index + first, length: last - first + 1 }], counts: Float64Array.from(counts.slice(first, last + 1)) }
}

function summaryOf(fields: WireField[]): Record<string, Cell> | 'refused' {
  const cells: Record<string, Cell> = { count: 0, sum: 0 }
  let bad = 0
  for (const field of fields) {
    if (field.number === 4) cells.count = Number(fixed(field))
    else if (field.number === 5) cells.sum = double(field)
    else if (field.number === 6) {
      let quantile = 0
      let value = 0
      for (const inner of fieldsOf(blob(field))) {
        if (inner.number === 1) quantile = double(inner)
        else if (inner.number === 2) value = double(inner)
      }
      if (quantile >= 0 && quantile <= 1) cells[`quantile_${quantile}`] = value
      else bad++
    }
  }
  return bad > 0 ? 'refused' : cells
}

function attributesOf(list: Uint8Array[]): Record<string, string> {
  const tags: Record<string, string> = {}
  let refused = false
  for (const each of list) {
    try {
      let key = ''
      let value: Uint8Array | undefined
      for (const field of walkFields(each)) {
        if (field.number === 1) key = text(blob(field))
        else if (field.number === 2) value = blob(field)
      }
      tags[key] = value === undefined ? '' : (anyOf(value, 0)?.text ?? '')
    } catch (error) {
      if (!(error instanceof Refused)) throw error
      refused = true
    }
  }
  if (refused) throw new Refused()
  return tags
}

function anyOf(bytes: Uint8Array, depth: number): { text: string; json: string } | undefined {
  if (depth > 32) throw new Refused()
  let value: { text: string; json: string } | undefined
  const same = (json: string) => ({ text: json, json })
  const quoted = (plain: string) => ({ text: plain, json: JSON.stringify(plain) })
  for (const field of walkFields(bytes)) {
    if (field.number === 1) value = quoted(text(blob(field)))
    else if (field.number === 2) value = same(varint(field) === 0n ? 'false' : 'true')
    else if (field.number === 3) value = same(String(BigInt.asIntN(64, varint(field))))
    else if (field.number === 4) {
      const number = double(field)
      value = Number.isFinite(number) ? same(String(number)) : quoted(String(number))
    } else if (field.number === 5) value = same(`[${itemsOf(blob(field), (item) => anyOf(item, depth + 1)?.json ?? 'null')}]`)
    else if (field.number === 6) value = same(`{${itemsOf(blob(field), (item) => memberOf(item, depth))}}`)
    else if (field.number === 7) value = quoted(Buffer.from(blob(field)).toString('base64'))
  }
  return value
}

function itemsOf(bytes: Uint8Array, read: (item: Uint8Array) => string): string {
  const items: string[] = []
  for (const field of walkFields(bytes)) if (field.number === 1) items.push(read(blob(field)))
  return items.join(',')
}

function memberOf(bytes: Uint8Array, depth: number): string {
  let key = ''
  let value: Uint8Array | undefined
  for (const field of walkFields(bytes)) {
    if (field.number === 1) key = text(blob(field))
    else if (field.number === 2) value = blob(field)
  }
  return `${JSON.stringify(key)}:${value === undefined ? 'null' : (anyOf(value, depth + 1)?.json ?? 'null')}`
}

function withoutEmpty(tags: Record<string, string>): Record<string, string> {
  return Object.fromEntries(Object.entries(tags).filter(([, value]) => value !== ''))
}

/** What `read` gives; undefined when it cannot be stored. */
function attempt<T>(read: () => T): T | undefined {
  try {
    return read()
  } catch (error) {
    if (error instanceof Refused) return undefined
    throw error
  }
}

function text(bytes: Uint8Array): string {
  try {
    return utf8.decode(bytes)
  } catch {
    throw new Refused()
  }
}

function joined(parts: Uint8Array[]): Uint8Array {
  return Buffer.concat(parts)
}

function messagesOf(bytes: Uint8Array, number: number): Uint8Array[] {
  return fieldsOf(bytes)
    .filter((field) => field.number === number)
    .map(blob)
}

function blob(field: WireField): Uint8Array {
  if (field.wire !== 2) throw new Error('not length-delimited')
  return field.bytes
}

function varint(field: WireField): bigint {
  if (field.wire !== 0) throw new Error('not a varint')
  return field.value
}

function fixed(field: WireField): bigint {
  if (field.wire !== 1) throw new Error('not 8 bytes')
  return field.value
}

function double(field: WireField): number {
  return doubleOf(fixed(field))
}

function doubleOf(bits: bigint): number {
  scratch.setBigUint64(0, bits)
  return scratch.getFloat64(0)
}

function zigzag(value: bigint): number {
  const low = BigInt.asUintN(32, value)
  return Number(BigInt.asIntN(32, (low >> 1n) ^ -(low & 1n)))
}

/** Repeated values of 8 bytes, packed or not. */
function words(field: WireField): bigint[] {
  if (field.wire !== 2) return [fixed(field)]
  if (field.bytes.length % 8 !== 0) throw new Error('cut')
  const view = Buffer.from(field.bytes)
  return Array.from({ length: field.bytes.length / 8 }, (_, i) => view.readBigUInt64LE(i * 8))
}

function varints(field: WireField): number[] {
  if (field.wire !== 2) return [Number(varint(field))]
  const values: number[] = []
  for (let at = 0; at < field.bytes.length; ) {
    const [value, next] = varintAt(field.bytes, at)
    values.push(Number(value))
    at = next
  }
  return values
}

function fieldsOf(message: Uint8Array): WireField[] {
  return [...walkFields(message)]
}
