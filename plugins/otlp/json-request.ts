/**
 * OTLP/JSON to the bytes of the same message, which the one decoder reads: what one encoding gives, the other gives.
 *
 * Names of members in lowerCamelCase or as in the proto files, 64-bit integers as strings or numbers, enums as numbers or names; unknown
 * members are ignored, and a null is a member that is not there (protobuf.dev, "ProtoJSON Format"; OTLP specification, "JSON Protobuf Encoding").
 */
import { SvcError } from 'svcdb/lib/errors'
import { ProtobufWriter } from 'svcdb/lib/protobuf'
import { bigOf, bytesOf, doubleOf, enumOf, halvesOf, intOf, textOf, truthOf } from './json-scalars.ts'
import { parseJson } from './json-text.ts'
import { EXPONENTIAL, GAUGE, HISTOGRAM, SUM, SUMMARY } from './metric-header.ts'

/** Lists within lists; the decoder refuses what is nested deeper than this as it refuses it in protobuf. */
const MAX_DEPTH = 40

type Members = Record<string, unknown>
type Write = (out: ProtobufWriter, value: unknown, path: string) => void

/** @throws BAD_REQUEST naming the member. */
export function messageOfJson(body: Buffer): Uint8Array {
  const root = parseJson(body)
  const out = new ProtobufWriter(Math.max(1024, body.length))
  request(out, root, '')
  return out.take()
}

interface Field {
  number: number
  write: (out: ProtobufWriter, field: number, value: unknown, path: string) => void
}

/** A message's members by both of their names, in the order that encoders write them. */
function message(fields: Record<string, Field>): Write {
  const list = Object.entries(fields).map(([name, field]) => ({ name, snake: name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`), ...field }))
  return (out, value, path) => {
    if (typeof value !== 'object' || value === null || Array.isArray(value)) throw wrong(path, 'an object')
    const members = value as Members
    for (const { name, snake, number, write } of list) {
      const given = members[name] ?? members[snake]
      if (given !== undefined && given !== null) write(out, number, given, path === '' ? name : `${path}.${name}`)
    }
  }
}

const one = (number: number, write: Write): Field => ({
  number,
  write: (out, field, value, path) => {
    const mark = out.open(field)
    write(out, value, path)
    out.close(mark)
  },
})

const many = (number: number, write: Write): Field => ({
  number,
  write: (out, field, value, path) => {
    const list = listOf(value, path)
    for (let i = 0; i < list.length; i++) {
      const mark = out.open(field)
      write(out, list[i], `${path}[${i}]`)
      out.close(mark)
    }
  },
})

const scalar = (number: number, put: (out: ProtobufWriter, field: number, value: unknown, path: string) => void): Field => ({ number, write: put })

const string = (number: number): Field => scalar(number, (out, field, value, path) => out.string(field, textOf(value, path)))
const double = (number: number): Field => scalar(number, (out, field, value, path) => out.double(field, doubleOf(value, path)))
const fixed64 = (number: number, signed = false): Field =>
  scalar(number, (out, field, value, path) => {
    const { low, high } = halvesOf(value, path, signed)
    out.fixed64(field, low, high)
  })
const uint32 = (number: number): Field => scalar(number, (out, field, value, path) => out.int(field, intOf(value, path, 0, 2 ** 32 - 1)))
const sint32 = (number: number): Field => scalar(number, (out, field, value, path) => out.sint(field, intOf(value, path, -(2 ** 31), 2 ** 31 - 1)))
const bool = (number: number): Field => scalar(number, (out, field, value, path) => out.int(field, truthOf(value, path) ? 1 : 0))

const doubles = (number: number): Field =>
  scalar(number, (out, field, value, path) =>
    out.doubles(
      field,
      listOf(value, path).map((each, i) => doubleOf(each, `${path}[${i}]`)),
    ),
  )

/** Packed fixed64. */
const fixed64s = (number: number): Field =>
  scalar(number, (out, field, value, path) => {
    const list = listOf(value, path)
    const packed = Buffer.alloc(list.length * 8)
    for (let i = 0; i < list.length; i++) packed.writeBigUInt64LE(bigOf(list[i], `${path}[${i}]`, false), i * 8)
    out.blob(field, packed)
  })

/** Packed uint64. */
const varints = (number: number): Field =>
  scalar(number, (out, field, value, path) => {
    const list = listOf(value, path)
    const mark = out.open(field)
    for (let i = 0; i < list.length; i++) out.append(varintOf(bigOf(list[i], `${path}[${i}]`, false)))
    out.close(mark)
  })

const temporality = scalar(2, (out, field, value, path) =>
  out.int(field, enumOf(value, path, 'AGGREGATION_TEMPORALITY_', ['UNSPECIFIED', 'DELTA', 'CUMULATIVE'])),
)

/** AnyValue holds itself: how deep is counted. */
function anyValue(depth: number): Write {
  return (out, value, path) => {
    if (depth > MAX_DEPTH) throw new SvcError('BAD_REQUEST', `cannot read the JSON message: ${path.slice(0, 128)} is nested too deep`)
    anyValues[depth] ??= message({
      stringValue: string(1),
      boolValue: bool(2),
      intValue: scalar(3, (inner, field, given, at) => {
        inner.varint(field * 8)
        inner.append(varintOf(BigInt.asUintN(64, bigOf(given, at, true))))
      }),
      doubleValue: double(4),
      arrayValue: one(5, message({ values: many(1, anyValue(depth + 1)) })),
      kvlistValue: one(6, message({ values: many(1, message({ key: string(1), value: one(2, anyValue(depth + 1)) })) })),
      bytesValue: scalar(7, (inner, field, given, at) => inner.blob(field, bytesOf(given, at))),
    })
    anyValues[depth](out, value, path)
  }
}
const anyValues: Write[] = []

const attributes = (number: number): Field => many(number, message({ key: string(1), value: one(2, anyValue(0)) }))
/** An id, in hexadecimal digits as OTLP/JSON has it. */
const id = (number: number): Field =>
  scalar(number, (out, field, value) => {
    if (typeof value === 'string' && /^(?:[\da-f]{2})*$/i.test(value)) out.blob(field, Buffer.from(value, 'hex'))
  })
const exemplar = message({
  timeUnixNano: fixed64(2),
  asDouble: double(3),
  spanId: id(4),
  traceId: id(5),
  asInt: fixed64(6, true),
  filteredAttributes: attributes(7),
})
/** One that cannot be read is counted all the same, and refuses nothing. */
const exemplars = (number: number): Field =>
  many(number, (out, value, path) => {
    const inner = new ProtobufWriter(128)
    try {
      exemplar(inner, value, path)
    } catch {
      return
    }
    out.append(inner.take())
  })
const times = { startTimeUnixNano: fixed64(2), timeUnixNano: fixed64(3) }

const numberPoint = message({ ...times, asDouble: double(4), exemplars: exemplars(5), asInt: fixed64(6, true), attributes: attributes(7), flags: uint32(8) })
const histogramPoint = message({
  ...times,
  count: fixed64(4),
  sum: double(5),
  bucketCounts: fixed64s(6),
  explicitBounds: doubles(7),
  exemplars: exemplars(8),
  attributes: attributes(9),
  flags: uint32(10),
})
const buckets = message({ offset: sint32(1), bucketCounts: varints(2) })
const exponentialPoint = message({
  attributes: attributes(1),
  ...times,
  count: fixed64(4),
  sum: double(5),
  scale: sint32(6),
  zeroCount: fixed64(7),
  positive: one(8, buckets),
  negative: one(9, buckets),
  flags: uint32(10),
  exemplars: exemplars(11),
  zeroThreshold: double(14),
})
const summaryPoint = message({
  ...times,
  count: fixed64(4),
  sum: double(5),
  quantileValues: many(6, message({ quantile: double(1), value: double(2) })),
  attributes: attributes(7),
  flags: uint32(8),
})
const metric = message({
  name: string(1),
  description: string(2),
  unit: string(3),
  gauge: one(GAUGE, message({ dataPoints: many(1, numberPoint) })),
  sum: one(SUM, message({ dataPoints: many(1, numberPoint), aggregationTemporality: temporality, isMonotonic: bool(3) })),
  histogram: one(HISTOGRAM, message({ dataPoints: many(1, histogramPoint), aggregationTemporality: temporality })),
  exponentialHistogram: one(EXPONENTIAL, message({ dataPoints: many(1, exponentialPoint), aggregationTemporality: temporality })),
  summary: one(SUMMARY, message({ dataPoints: many(1, summaryPoint) })),
})
const scopeMetrics = message({ scope: one(1, message({ name: string(1), version: string(2) })), metrics: many(2, metric) })
const resourceMetrics = message({ resource: one(1, message({ attributes: attributes(1) })), scopeMetrics: many(2, scopeMetrics) })
const request = message({ resourceMetrics: many(1, resourceMetrics) })

function listOf(value: unknown, path: string): unknown[] {
  if (!Array.isArray(value)) throw wrong(path, 'a list')
  return value
}

function varintOf(value: bigint): Uint8Array {
  const bytes: number[] = []
  let rest = value
  for (; rest > 127n; rest >>= 7n) bytes.push(Number(rest & 127n) | 128)
  bytes.push(Number(rest))
  return Uint8Array.from(bytes)
}

function wrong(path: string, wanted: string): SvcError {
  return new SvcError('BAD_REQUEST', `cannot read the JSON message: ${path === '' ? 'it' : path.slice(0, 256)} is not ${wanted}`)
}
