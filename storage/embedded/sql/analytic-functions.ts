/**
 * The JavaScript functions that rewritten statements call. Register once an instance; their names are not on the gate's list, so no
 * query reaches them by itself. Those of histograms (histogram-functions.ts) are on the list: queries call them as they are.
 *
 * A function over a whole partition gets the partition's list once a row: the lists of one chunk share their bytes, so equal offsets mean
 * the same list, and across chunks the last results are kept and found again by comparing bytes.
 */
import {
  BIGINT,
  DOUBLE,
  type DuckDBConnection,
  type DuckDBDataChunk,
  DuckDBScalarFunction,
  type DuckDBType,
  type DuckDBVector,
  INTEGER,
  LIST,
  VARCHAR,
} from '@duckdb/node-api'
import type duckdb from '@duckdb/node-bindings'
import { crossCorrelation, ewm, mahalanobis, rate } from './analytics.ts'
import { type Bucketing, bucketOf } from './bucket.ts'
import { type BucketSpec, bucketingOf } from './bucket-sql.ts'
import { registerHistogramFunctions } from './histogram-functions.ts'
import { stl } from './stl.ts'
import { registerTimeFunctions } from './time-functions.ts'

type Validity = { itemValid(i: number): boolean }
type Flat<T> = { items: T; validity: Validity }
type Lists = { entryData: BigUint64Array; validity: Validity; childData: Flat<Float64Array | BigInt64Array> }

const flat = <T>(chunk: DuckDBDataChunk, column: number): Flat<T> => chunk.getColumnVector(column) as unknown as Flat<T>
const lists = (chunk: DuckDBDataChunk, column: number): Lists => chunk.getColumnVector(column) as unknown as Lists

type Body = (chunk: DuckDBDataChunk, rows: number, set: (row: number, value: number | bigint | null) => void) => void

function define(connection: DuckDBConnection, name: string, parameterTypes: DuckDBType[], returnType: DuckDBType, body: Body): void {
  connection.registerScalarFunction(
    DuckDBScalarFunction.create({
      name,
      parameterTypes,
      returnType,
      mainFunction(_info: unknown, chunk: DuckDBDataChunk, output: DuckDBVector) {
        const out = output as unknown as { setItem(i: number, value: unknown): void; flush(): void }
        body(chunk, chunk.rowCount, (row, value) => out.setItem(row, typeof value === 'number' && Number.isNaN(value) ? null : value))
        out.flush()
      },
    }),
  )
}

export function registerSqlFunctions(connection: DuckDBConnection): void {
  const raw = (connection as unknown as { connection: duckdb.Connection }).connection
  registerHistogramFunctions(raw)
  registerTimeFunctions(raw)
  define(connection, '__svc_bucket', [BIGINT, VARCHAR], BIGINT, bucketColumn)
  define(connection, '__svc_mahalanobis', [DOUBLE, DOUBLE, DOUBLE], DOUBLE, (chunk, rows, set) => {
    const [a, b, r] = [0, 1, 2].map((i) => flat<Float64Array>(chunk, i))
    for (let i = 0; i < rows; i++)
      set(i, a.validity.itemValid(i) && b.validity.itemValid(i) && r.validity.itemValid(i) ? mahalanobis(a.items[i], b.items[i], r.items[i]) : null)
  })
  const means = new Recent<Float64Array>()
  define(connection, '__svc_ewm', [LIST(DOUBLE), BIGINT, DOUBLE], DOUBLE, (chunk, rows, set) => {
    const alpha = flat<Float64Array>(chunk, 2).items
    eachPartition(chunk, rows, set, (values) => means.of(values, String(alpha[0]), () => ewm(values, alpha[0])))
  })
  const parts = new Recent<Float64Array[]>()
  define(connection, '__svc_stl', [LIST(DOUBLE), BIGINT, INTEGER, INTEGER, INTEGER], DOUBLE, (chunk, rows, set) => {
    const [period, robust, part] = [2, 3, 4].map((i) => flat<Int32Array>(chunk, i).items[0])
    eachPartition(chunk, rows, set, (values) => {
      const found = parts.of(values, `${period}/${robust}`, () => {
        const made = stl(values, period, robust === 1)
        return made === undefined ? [] : [made.trend, made.seasonal, made.residual]
      })
      return found[part]
    })
  })
  const crossed = new Recent<number>()
  define(connection, '__svc_cross_correlation', [LIST(DOUBLE), LIST(DOUBLE), INTEGER], DOUBLE, (chunk, rows, set) => {
    const [a, b, lag] = [lists(chunk, 0), lists(chunk, 1), flat<Int32Array>(chunk, 2).items]
    let last = -1n
    let value = Number.NaN
    for (let i = 0; i < rows; i++) {
      if (!a.validity.itemValid(i) || !b.validity.itemValid(i)) {
        set(i, null)
        continue
      }
      if (a.entryData[2 * i] !== last) {
        last = a.entryData[2 * i]
        const [x, y] = [listAt(a, i), listAt(b, i)]
        const both = new Float64Array(x.length + y.length)
        both.set(x)
        both.set(y, x.length)
        value = crossed.of(both, String(lag[0]), () => crossCorrelation(x, y, lag[0]))
      }
      set(i, value)
    }
  })
  define(connection, '__svc_rate', [LIST(DOUBLE), LIST(BIGINT), INTEGER], DOUBLE, (chunk, rows, set) => {
    const [values, times, instant] = [lists(chunk, 0), lists(chunk, 1), flat<Int32Array>(chunk, 2).items]
    for (let i = 0; i < rows; i++) {
      if (!values.validity.itemValid(i) || !times.validity.itemValid(i)) set(i, null)
      else {
        const [start, length] = [Number(times.entryData[2 * i]), Number(times.entryData[2 * i + 1])]
        set(i, rate(listAt(values, i), (times.childData.items as BigInt64Array).subarray(start, start + length), instant[0] === 1))
      }
    }
  })
}

/** Sets, for each row, the value at its row number (from 1) of what `compute` makes of the partition's list. */
function eachPartition(
  chunk: DuckDBDataChunk,
  rows: number,
  set: (row: number, value: number | null) => void,
  compute: (values: Float64Array) => Float64Array | undefined,
): void {
  const list = lists(chunk, 0)
  const number = flat<BigInt64Array>(chunk, 1).items
  let last = -1n
  let made: Float64Array | undefined
  for (let i = 0; i < rows; i++) {
    if (!list.validity.itemValid(i)) {
      set(i, null)
      continue
    }
    if (list.entryData[2 * i] !== last) {
      last = list.entryData[2 * i]
      made = compute(listAt(list, i))
    }
    set(i, made === undefined ? null : made[Number(number[i]) - 1])
  }
}

/** A list's values, NaN where NULL. */
function listAt(list: Lists, row: number): Float64Array {
  const start = Number(list.entryData[2 * row])
  const length = Number(list.entryData[2 * row + 1])
  const values = (list.childData.items as Float64Array).slice(start, start + length)
  for (let i = 0; i < length; i++) if (!list.childData.validity.itemValid(start + i)) values[i] = Number.NaN
  return values
}

/** The last few results, found again by their input's bytes. */
class Recent<R> {
  private readonly entries: { input: Buffer; key: string; result: R }[] = []

  of(values: Float64Array, key: string, make: () => R): R {
    const input = Buffer.from(values.buffer, values.byteOffset, values.byteLength)
    const known = this.entries.find((entry) => entry.key === key && entry.input.equals(input))
    if (known !== undefined) return known.result
    const result = make()
    if (this.entries.length >= 4) this.entries.shift()
    this.entries.push({ input, key, result })
    return result
  }
}

const bucketings = new Map<string, Bucketing>()
/** Distinct specifications kept; they come from query texts, so their number must be bounded. */
const KEPT = 256

const bucketColumn: Body = (chunk, rows, set) => {
  if (rows === 0) return
  const times = flat<BigInt64Array>(chunk, 0)
  const text = String(chunk.getColumnVector(1).getItem(0))
  let buckets = bucketings.get(text)
  if (buckets === undefined) {
    if (bucketings.size >= KEPT) bucketings.clear()
    bucketings.set(text, (buckets = bucketingOf(JSON.parse(text) as BucketSpec)))
  }
  // Rows come in time order within a series: most fall into the bucket of the row before.
  let start = 1n
  let end = 0n
  for (let i = 0; i < rows; i++) {
    if (!times.validity.itemValid(i)) {
      set(i, null)
      continue
    }
    const t = times.items[i]
    if (t < start || t >= end) [start, end] = bucketOf(t, buckets)
    set(i, start)
  }
}
