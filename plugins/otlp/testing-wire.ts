/** For tests and benches: the request as plain values, written field by field as protobuf and as JSON. Read by nobody but the decoder. */
import { Message } from 'svcdb/testkit'

export type WireValue = string | number | bigint | boolean | Uint8Array | WireValue[] | Map<string, WireValue> | null
export type WireAttributes = Record<string, WireValue>

export interface WirePoint {
  attributes?: WireAttributes
  start?: bigint
  time: bigint
  flags?: number
  /** A number: so many, of the epoch. */
  exemplars?: number | WireExemplar[]
}

/** A number is `double`, a bigint `int`; undefined: none. */
export interface WireNumber extends WirePoint {
  value?: number | bigint
}

export interface WireHistogram extends WirePoint {
  count?: bigint
  sum?: number
  counts?: bigint[]
  bounds?: number[]
  min?: number
  max?: number
}

export interface WireExponential extends WirePoint {
  count?: bigint
  sum?: number
  scale?: number
  zeroCount?: bigint
  zeroThreshold?: number
  positive?: { offset: number; counts: bigint[] }
  negative?: { offset: number; counts: bigint[] }
  min?: number
  max?: number
}

export interface WireSummary extends WirePoint {
  count?: bigint
  sum?: number
  quantiles?: [number, number][]
}

export interface WireMetric {
  name: string
  description?: string
  unit?: string
  gauge?: WireNumber[]
  sum?: WireNumber[]
  histogram?: WireHistogram[]
  exponential?: WireExponential[]
  summary?: WireSummary[]
  temporality?: number
  monotonic?: boolean
}

interface WireScope {
  name?: string
  version?: string
  metrics: WireMetric[]
}

export interface WireResource {
  attributes?: WireAttributes
  scopes: WireScope[]
}

export function anyValueOf(value: WireValue): Buffer {
  const out = new Message()
  if (value === null) return out.done()
  if (typeof value === 'string') out.put(1, value)
  else if (typeof value === 'boolean') out.int(2, value ? 1 : 0)
  else if (typeof value === 'bigint') out.int(3, value)
  else if (typeof value === 'number') out.double(4, value)
  else if (value instanceof Uint8Array) out.put(7, value)
  else if (Array.isArray(value)) {
    const list = new Message()
    for (const item of value) list.put(1, anyValueOf(item))
    out.put(5, list.done())
  } else {
    const list = new Message()
    for (const [key, item] of value) list.put(1, keyValue(key, item))
    out.put(6, list.done())
  }
  return out.done()
}

export function keyValue(key: string, value: WireValue): Buffer {
  return new Message().put(1, key).put(2, anyValueOf(value)).done()
}

function attributesInto(out: Message, field: number, attributes: WireAttributes = {}): void {
  for (const [key, value] of Object.entries(attributes)) out.put(field, keyValue(key, value))
}

function times(out: Message, { start, time }: WirePoint): Message {
  if (start !== undefined) out.fixed(2, start)
  return out.fixed(3, time)
}

export interface WireExemplar {
  time: bigint
  value: number | bigint
  traceId?: string
  spanId?: string
  attributes?: WireAttributes
}

export function exemplarsOf(exemplars: number | WireExemplar[] = 0): WireExemplar[] {
  if (typeof exemplars !== 'number') return exemplars
  return Array.from({ length: exemplars }, (_, i) => ({ time: 1n, value: 1, traceId: Buffer.alloc(16, i).toString('hex') }))
}

function exemplarsInto(out: Message, field: number, exemplars?: number | WireExemplar[]): void {
  for (const { time, value, traceId, spanId, attributes } of exemplarsOf(exemplars)) {
    const one = new Message().fixed(2, time)
    if (typeof value === 'number') one.double(3, value)
    if (spanId !== undefined) one.put(4, Buffer.from(spanId, 'hex'))
    if (traceId !== undefined) one.put(5, Buffer.from(traceId, 'hex'))
    if (typeof value === 'bigint') one.fixed(6, value)
    attributesInto(one, 7, attributes)
    out.put(field, one.done())
  }
}

export function numberPoint(point: WireNumber): Buffer {
  const out = times(new Message(), point)
  if (typeof point.value === 'number') out.double(4, point.value)
  exemplarsInto(out, 5, point.exemplars)
  if (typeof point.value === 'bigint') out.fixed(6, point.value)
  attributesInto(out, 7, point.attributes)
  if (point.flags) out.int(8, point.flags)
  return out.done()
}

const fixeds = (values: readonly bigint[]): Buffer => {
  const out = Buffer.alloc(values.length * 8)
  for (const [i, value] of values.entries()) out.writeBigUInt64LE(value, i * 8)
  return out
}

const doubles = (values: readonly number[]): Buffer => {
  const out = Buffer.alloc(values.length * 8)
  for (const [i, value] of values.entries()) out.writeDoubleLE(value, i * 8)
  return out
}

export function histogramPoint(point: WireHistogram): Buffer {
  const out = times(new Message(), point).fixed(4, point.count ?? 0n)
  if (point.sum !== undefined) out.double(5, point.sum)
  if (point.counts) out.put(6, fixeds(point.counts))
  if (point.bounds) out.put(7, doubles(point.bounds))
  exemplarsInto(out, 8, point.exemplars)
  attributesInto(out, 9, point.attributes)
  if (point.flags) out.int(10, point.flags)
  if (point.min !== undefined) out.double(11, point.min)
  if (point.max !== undefined) out.double(12, point.max)
  return out.done()
}

export function exponentialPoint(point: WireExponential): Buffer {
  const out = new Message()
  attributesInto(out, 1, point.attributes)
  times(out, point).fixed(4, point.count ?? 0n)
  if (point.sum !== undefined) out.double(5, point.sum)
  out.sint(6, point.scale ?? 0).fixed(7, point.zeroCount ?? 0n)
  for (const [field, side] of [
    [8, point.positive],
    [9, point.negative],
  ] as const) {
    if (side === undefined) continue
    const packed = new Message()
    for (const count of side.counts) packed.varint(count)
    out.put(field, new Message().sint(1, side.offset).put(2, packed.done()).done())
  }
  if (point.flags) out.int(10, point.flags)
  exemplarsInto(out, 11, point.exemplars)
  if (point.min !== undefined) out.double(12, point.min)
  if (point.max !== undefined) out.double(13, point.max)
  if (point.zeroThreshold !== undefined) out.double(14, point.zeroThreshold)
  return out.done()
}

export function summaryPoint(point: WireSummary): Buffer {
  const out = times(new Message(), point)
    .fixed(4, point.count ?? 0n)
    .double(5, point.sum ?? 0)
  for (const [quantile, value] of point.quantiles ?? []) out.put(6, new Message().double(1, quantile).double(2, value).done())
  attributesInto(out, 7, point.attributes)
  if (point.flags) out.int(8, point.flags)
  return out.done()
}

export function metricOf(metric: WireMetric): Buffer {
  const out = new Message().put(1, metric.name)
  if (metric.description) out.put(2, metric.description)
  if (metric.unit) out.put(3, metric.unit)
  const kind = <P>(field: number, points: readonly P[] | undefined, write: (point: P) => Buffer): void => {
    if (points === undefined) return
    const data = new Message()
    for (const point of points) data.put(1, write(point))
    if (metric.temporality !== undefined) data.int(2, metric.temporality)
    if (metric.monotonic) data.int(3, 1)
    out.put(field, data.done())
  }
  kind(5, metric.gauge, numberPoint)
  kind(7, metric.sum, numberPoint)
  kind(9, metric.histogram, histogramPoint)
  kind(10, metric.exponential, exponentialPoint)
  kind(11, metric.summary, summaryPoint)
  return out.done()
}

export function writeRequest(resources: readonly WireResource[]): Buffer {
  const out = new Message()
  for (const { attributes, scopes } of resources) {
    const resource = new Message()
    if (attributes !== undefined) {
      const named = new Message()
      attributesInto(named, 1, attributes)
      resource.put(1, named.done())
    }
    for (const { name, version, metrics } of scopes) {
      const scope = new Message()
      if (name !== undefined)
        scope.put(
          1,
          new Message()
            .put(1, name)
            .put(2, version ?? '')
            .done(),
        )
      for (const metric of metrics) scope.put(2, metricOf(metric))
      resource.put(2, scope.done())
    }
    out.put(1, resource.done())
  }
  return out.done()
}

/** One metric, or several, of one resource. */
export function writeMetrics(metrics: readonly WireMetric[], attributes: WireAttributes = {}): Buffer {
  return writeRequest([{ attributes, scopes: [{ name: 'test', version: '1', metrics: [...metrics] }] }])
}
