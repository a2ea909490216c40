/**
 * Masked rows within statements, when a source has many: one function that says of a row whether deletes or retention mask it. As conditions, each
 * would cost DuckDB vectors of its own in every thread and source, hundreds of megabytes for a few dozen deletes. Its name is not on the SQL gate's
 * list, so no query reaches it by itself.
 */
import duckdb from '@duckdb/node-bindings'
import { highHalf, lowHalf } from '../../common/time.ts'
import { raise } from '../duckdb/raised.ts'
import { copyValues } from '../duckdb/vector-writer.ts'
import { contains, type Mask } from './masks.ts'

export const MASK_FUNCTION = '__svc_masked'
/** Rows of a DuckDB vector. */
const VECTOR_ROWS = 2048

/** Looks rows up by series and time. What is masked of one measurement only, is for the caller to leave out. */
export class MaskedRows {
  private readonly series: (Int32Array | undefined)[]
  /** First and last masked time of each entry: high half, low half. */
  private readonly first: Int32Array
  private readonly last: Int32Array

  constructor(masks: readonly Mask[]) {
    this.series = masks.map(({ series }) => series)
    this.first = Int32Array.from(masks.flatMap(({ lo }) => [highHalf(lo), lowHalf(lo)]))
    this.last = Int32Array.from(masks.flatMap(({ hi }) => [highHalf(hi), lowHalf(hi)]))
  }

  /** @param time low half, high half of each row's time. @param out a byte a row, 1 = masked. */
  mark(series: Int32Array, time: Int32Array, rows: number, out: Uint8Array): void {
    for (let row = 0; row < rows; row++) out[row] = this.masks(series[row], time[row * 2], time[row * 2 + 1]) ? 1 : 0
  }

  private masks(series: number, low: number, high: number): boolean {
    const { first, last } = this
    for (let i = 0; i < this.series.length; i++) {
      if (high < first[i * 2] || (high === first[i * 2] && low >>> 0 < first[i * 2 + 1] >>> 0)) continue
      if (high > last[i * 2] || (high === last[i * 2] && low >>> 0 > last[i * 2 + 1] >>> 0)) continue
      const among = this.series[i]
      if (among === undefined || contains(among, series)) return true
    }
    return false
  }
}

/** @param sets by the number that the statement names. */
export function registerMasks(connection: duckdb.Connection, sets: ReadonlyMap<number, MaskedRows>): void {
  const fn = duckdb.create_scalar_function()
  duckdb.scalar_function_set_name(fn, MASK_FUNCTION)
  for (const type of [duckdb.Type.INTEGER, duckdb.Type.INTEGER, duckdb.Type.TIMESTAMP_NS])
    duckdb.scalar_function_add_parameter(fn, duckdb.create_logical_type(type))
  duckdb.scalar_function_set_return_type(fn, duckdb.create_logical_type(duckdb.Type.BOOLEAN))
  const out = new Uint8Array(VECTOR_ROWS)
  duckdb.scalar_function_set_function(fn, (info, input, output) => {
    try {
      const n = duckdb.data_chunk_get_size(input)
      if (n === 0) return
      const ints = (column: number, count: number): Int32Array => {
        const data = duckdb.vector_get_data(duckdb.data_chunk_get_vector(input, column), count * 4)
        return new Int32Array(data.buffer, data.byteOffset, count)
      }
      // The first argument is a constant: a statement asks for one source at a time.
      const set = sets.get(ints(0, 1)[0])
      if (set === undefined) throw new Error('there is no such set of masks rows')
      set.mark(ints(1, n), ints(2, n * 2), n, out)
      copyValues(output, out.buffer, 0, n)
    } catch (error) {
      duckdb.scalar_function_set_error(info, raise(error))
    }
  })
  duckdb.register_scalar_function(connection, fn)
  duckdb.destroy_scalar_function_sync(fn)
}
