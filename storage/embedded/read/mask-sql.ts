/**
 * Masked rows within statements, when a source has many: one function that says of a row whether deletes or retention mask it. As conditions, each
 * would cost DuckDB vectors of its own in every thread and source, hundreds of megabytes for a few dozen deletes. Its name is not on the SQL gate's
 * list, so no query reaches it by itself.
 */
import type bindings from '@duckdb/node-bindings'
import { earlier, highHalf, later, lowHalf } from '../../common/time.ts'
import { duckdb } from '../duckdb/native.ts'
import { raise } from '../duckdb/raised.ts'
import { copyValues } from '../duckdb/vector-writer.ts'
import { contains, type Mask } from './masks.ts'

export const MASK_FUNCTION = '__svc_masked'
/** Rows of a DuckDB vector. */
const VECTOR_ROWS = 2048
/** Series, and ranges of time, that are compared one by one. */
const BOUND_SERIES = 32
const BOUND_TIMES = 16

/** Looks rows up by series and time. What is masked of one measurement only, is for the caller to leave out. */
export class MaskedRows {
  private readonly series: (Int32Array | undefined)[]
  /** First and last masked time of each entry: high half, low half. */
  private readonly first: Int32Array
  private readonly last: Int32Array
  /** Those that are about the series looked at. */
  private readonly entries: Int32Array

  constructor(masks: readonly Mask[]) {
    this.series = masks.map(({ series }) => series)
    this.entries = new Int32Array(masks.length)
    this.first = Int32Array.from(masks.flatMap(({ lo }) => [highHalf(lo), lowHalf(lo)]))
    this.last = Int32Array.from(masks.flatMap(({ hi }) => [highHalf(hi), lowHalf(hi)]))
  }

  /** @param time low half, high half of each row's time. @param out a byte a row, 1 = masked. */
  mark(series: Int32Array, time: Int32Array, rows: number, out: Uint8Array): void {
    // Rows mostly come series by series.
    let count = 0
    for (let row = 0; row < rows; row++) {
      if (row === 0 || series[row] !== series[row - 1]) count = this.entriesOf(series[row])
      out[row] = count > 0 && this.masks(count, time[row * 2], time[row * 2 + 1]) ? 1 : 0
    }
  }

  /** Finds the entries that are about a series, to `entries`. @returns how many. */
  private entriesOf(series: number): number {
    let count = 0
    for (let i = 0; i < this.series.length; i++) {
      const among = this.series[i]
      if (among === undefined || contains(among, series)) this.entries[count++] = i
    }
    return count
  }

  private masks(count: number, low: number, high: number): boolean {
    const { first, last, entries } = this
    for (let e = 0; e < count; e++) {
      const i = entries[e]
      if (high < first[i * 2] || (high === first[i * 2] && low >>> 0 < first[i * 2 + 1] >>> 0)) continue
      if (high > last[i * 2] || (high === last[i * 2] && low >>> 0 > last[i * 2 + 1] >>> 0)) continue
      return true
    }
    return false
  }
}

/** Rows of these series (all when undefined) and times, inclusive, may be masked. */
export interface MaskBounds {
  series: Int32Array | undefined
  lo: bigint
  hi: bigint
}

/**
 * Where masked rows are at most, in a few conditions that DuckDB settles by itself: those of masks of few series together, then times.
 * What is outside need not be looked up, which takes a call to this thread for every vector.
 */
export function maskBounds(masks: readonly Mask[]): MaskBounds[] {
  const few = new Set<number>()
  const others: Mask[] = []
  const out: MaskBounds[] = []
  for (const mask of [...masks].sort((a, b) => (a.series?.length ?? Number.POSITIVE_INFINITY) - (b.series?.length ?? Number.POSITIVE_INFINITY))) {
    if (mask.series === undefined || few.size + mask.series.length > BOUND_SERIES) {
      others.push(mask)
      continue
    }
    for (const series of mask.series) few.add(series)
    const [known] = out
    if (known === undefined) out.push({ series: undefined, lo: mask.lo, hi: mask.hi })
    else {
      known.lo = earlier(known.lo, mask.lo)
      known.hi = later(known.hi, mask.hi)
    }
  }
  if (out.length > 0) out[0].series = Int32Array.from(few).sort()
  const times: MaskBounds[] = []
  for (const { lo, hi } of others.sort((a, b) => (a.lo < b.lo ? -1 : a.lo > b.lo ? 1 : 0))) {
    const last = times.at(-1)
    if (last !== undefined && lo <= last.hi) last.hi = later(last.hi, hi)
    else times.push({ series: undefined, lo, hi })
  }
  if (times.length <= BOUND_TIMES) return [...out, ...times]
  return [...out, { series: undefined, lo: times[0].lo, hi: times[times.length - 1].hi }]
}

/** @param sets by the number that the statement names. */
export function registerMasks(connection: bindings.Connection, sets: ReadonlyMap<number, MaskedRows>): void {
  const fn = duckdb().create_scalar_function()
  duckdb().scalar_function_set_name(fn, MASK_FUNCTION)
  for (const type of [duckdb().Type.INTEGER, duckdb().Type.INTEGER, duckdb().Type.TIMESTAMP_NS])
    duckdb().scalar_function_add_parameter(fn, duckdb().create_logical_type(type))
  duckdb().scalar_function_set_return_type(fn, duckdb().create_logical_type(duckdb().Type.BOOLEAN))
  const out = new Uint8Array(VECTOR_ROWS)
  duckdb().scalar_function_set_function(fn, (info, input, output) => {
    try {
      const n = duckdb().data_chunk_get_size(input)
      if (n === 0) return
      const ints = (column: number, count: number): Int32Array => {
        const data = duckdb().vector_get_data(duckdb().data_chunk_get_vector(input, column), count * 4)
        return new Int32Array(data.buffer, data.byteOffset, count)
      }
      // The first argument is a constant: a statement asks for one source at a time.
      const set = sets.get(ints(0, 1)[0])
      if (set === undefined) throw new Error('there is no such set of masks rows')
      set.mark(ints(1, n), ints(2, n * 2), n, out)
      copyValues(output, out.buffer, 0, n)
    } catch (error) {
      duckdb().scalar_function_set_error(info, raise(error))
    }
  })
  duckdb().register_scalar_function(connection, fn)
  duckdb().destroy_scalar_function_sync(fn)
}
