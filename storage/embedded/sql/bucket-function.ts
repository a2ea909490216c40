/** `__svc_bucket(time, specification)`: what `time_bucket` of a calendar is rewritten to. Its name is not on the gate's list, so no query reaches it by itself. */
import duckdb from '@duckdb/node-bindings'
import { type Bucketing, bucketOf } from 'svcdb/lib/time-buckets'
import { copyValidity, copyValues } from '../duckdb/vector-writer.ts'
import { readValidity, textAt } from '../duckdb/vectors.ts'
import { type BucketSpec, bucketingOf } from './bucket-sql.ts'
import { defineScalar } from './scalar-function.ts'
import { checked } from './time-functions.ts'

const { Type } = duckdb
const VECTOR_ROWS = 2048

const bucketings = new Map<string, Bucketing>()
/** Distinct specifications kept; they come from query texts, so their number must be bounded. */
const KEPT = 256

function bucketingOfText(text: string): Bucketing {
  let buckets = bucketings.get(text)
  if (buckets === undefined) {
    if (bucketings.size >= KEPT) bucketings.clear()
    bucketings.set(text, (buckets = bucketingOf(JSON.parse(text) as BucketSpec)))
  }
  return buckets
}

export function registerBucketFunction(connection: duckdb.Connection): void {
  const starts = new BigInt64Array(VECTOR_ROWS)
  const bits = new Uint8Array(VECTOR_ROWS / 8)
  defineScalar(connection, '__svc_bucket', [Type.BIGINT, Type.VARCHAR], Type.BIGINT, (input, output, rows) => {
    const vector = duckdb.data_chunk_get_vector(input, 0)
    const validity = readValidity(vector, rows)
    const data = duckdb.vector_get_data(vector, rows * 8)
    const times = new BigInt64Array(data.buffer, data.byteOffset, rows)
    const buckets = bucketingOfText(textAt(duckdb.data_chunk_get_vector(input, 1), 0))
    bits.fill(255, 0, (rows + 7) >> 3)
    // Rows come in time order within a series: most fall into the bucket of the row before.
    let start = 1n
    let end = 0n
    for (let i = 0; i < rows; i++) {
      if (validity !== undefined && validity[i] === 0) {
        bits[i >> 3] &= ~(1 << (i & 7))
        continue
      }
      const t = times[i]
      if (t < start || t >= end) {
        ;[start, end] = bucketOf(t, buckets)
        // The buckets of the first times of all begin before what 64 bits hold.
        checked(start)
      }
      starts[i] = start
    }
    copyValues(output, starts.buffer, 0, rows * 8)
    if (validity !== undefined) copyValidity(output, bits.buffer, 0, rows)
  })
}
