/**
 * `histogram_count(v)` and the like: docs/reference/sql-functions.md. A histogram column is a BLOB to DuckDB; bytes that are no
 * histogram, as a cast can make, give NULL, and so does a staleness marker.
 */
import duckdb from '@duckdb/node-bindings'
import { emptyParts, fraction, type HistogramParts, histogramJson, mean, PartsDecoder, quantile, variance } from 'svcdb/lib/histogram'
import { copyValidity, copyValues, writeTexts } from '../duckdb/vector-writer.ts'
import { bytesOfRows, readValidity } from '../duckdb/vectors.ts'
import { defineScalar } from './scalar-function.ts'

const { Type } = duckdb
/** Rows of a DuckDB vector. */
const VECTOR_ROWS = 2048
const encoder = new TextEncoder()

/** Numbers before the histogram among the arguments, and the result of one row; NaN is NULL. */
const NUMBERS: Record<string, { arguments: number; of(h: HistogramParts, a: number, b: number): number }> = {
  histogram_count: { arguments: 0, of: (h) => h.count },
  histogram_sum: { arguments: 0, of: (h) => h.sum },
  histogram_avg: { arguments: 0, of: mean },
  histogram_stddev: { arguments: 0, of: (h) => Math.sqrt(variance(h)) },
  histogram_stdvar: { arguments: 0, of: variance },
  histogram_quantile: { arguments: 1, of: (h, q) => quantile(h, q) },
  histogram_fraction: { arguments: 2, of: (h, from, to) => fraction(h, from, to) },
}

export function registerHistogramFunctions(connection: duckdb.Connection): void {
  const rows = new HistogramRows()
  const values = new Float64Array(VECTOR_ROWS)
  for (const [name, { arguments: numbers, of }] of Object.entries(NUMBERS)) {
    defineScalar(connection, name, [...Array<duckdb.Type>(numbers).fill(Type.DOUBLE), Type.BLOB], Type.DOUBLE, (input, output, n) => {
      rows.start(n)
      const [a, b] = [0, 1].map((i) => (i < numbers ? doubles(input, i, n, rows) : values))
      rows.each(input, numbers, (h, i) => {
        const value = of(h, a[i], b[i])
        if (Number.isNaN(value)) rows.clear(i)
        else values[i] = value
      })
      copyValues(output, values.buffer, 0, n * 8)
      if (rows.hasNulls) copyValidity(output, rows.bits.buffer, 0, n)
    })
  }
  const texts: Uint8Array[] = []
  defineScalar(connection, 'histogram_json', [Type.BLOB], Type.VARCHAR, (input, output, n) => {
    rows.start(n)
    rows.each(input, 0, (h, i) => {
      texts[i] = encoder.encode(histogramJson(h))
    })
    writeTexts(output, n, rows.hasNulls, rows.bits, (i) => texts[i])
  })
}

/** The histograms of one vector, and which rows have a result: a bit a row. */
class HistogramRows {
  readonly bits = new Uint8Array(VECTOR_ROWS / 8)
  hasNulls = false
  private readonly decoder = new PartsDecoder()
  private readonly parts = emptyParts()

  start(n: number): void {
    this.hasNulls = false
    this.bits.fill(255, 0, (n + 7) >> 3)
  }

  clear(row: number): void {
    this.hasNulls = true
    this.bits[row >> 3] &= ~(1 << (row & 7))
  }

  each(input: duckdb.DataChunk, column: number, visit: (h: HistogramParts, row: number) => void): void {
    const n = duckdb.data_chunk_get_size(input)
    bytesOfRows(duckdb.data_chunk_get_vector(input, column), n, (row, bytes) => {
      if (bytes === undefined || !this.decodes(bytes)) this.clear(row)
      else if ((this.bits[row >> 3] & (1 << (row & 7))) !== 0) visit(this.parts, row)
    })
  }

  private decodes(bytes: Uint8Array): boolean {
    try {
      return this.decoder.decode(bytes, 0, bytes.length, this.parts)
    } catch (error) {
      if (error instanceof RangeError) return false
      throw error
    }
  }
}

/** A column of numbers; where it has none the row has no result. */
function doubles(input: duckdb.DataChunk, column: number, n: number, rows: HistogramRows): Float64Array {
  const vector = duckdb.data_chunk_get_vector(input, column)
  const validity = readValidity(vector, n)
  if (validity !== undefined) for (let i = 0; i < n; i++) if (validity[i] === 0) rows.clear(i)
  const data = duckdb.vector_get_data(vector, n * 8)
  return new Float64Array(data.buffer, data.byteOffset, n)
}
