/** The functions that a module computes: from the columns of a partition, or the lists of groups, to a column. */
import type { SqlConstant, SqlFunctionBody, SqlFunctionColumn } from 'svcdb'
import { scoresOf } from './detect/detectors.ts'
import { type Decomposition, stl } from './detect/stl.ts'
import { UnfitError } from './forecast/model.ts'
import { crossCorrelation, ewm as ewmOf, mahalanobis, rate as rateOf } from './series.ts'

const numbers = (column: SqlFunctionColumn): Float64Array => column.values as Float64Array

function rates(instant: boolean): SqlFunctionBody {
  return ([values, times], rows) => {
    const out = new Float64Array(rows)
    const { starts, lengths } = values.lists as NonNullable<SqlFunctionColumn['lists']>
    const begins = (times.lists as NonNullable<SqlFunctionColumn['lists']>).starts
    for (let i = 0; i < rows; i++) {
      const samples = numbers(values).subarray(starts[i], starts[i] + lengths[i])
      const sorted = byTime(samples, (times.values as BigInt64Array).subarray(begins[i], begins[i] + lengths[i]))
      out[i] = rateOf(sorted.samples, sorted.times, instant)
    }
    return { values: out }
  }
}

function byTime(samples: Float64Array, times: BigInt64Array): { samples: Float64Array; times: BigInt64Array } {
  let sorted = true
  for (let i = 1; i < times.length && sorted; i++) sorted = times[i - 1] <= times[i]
  if (sorted) return { samples, times }
  const order = Array.from(times, (_, i) => i).sort((a, b) => (times[a] < times[b] ? -1 : times[a] > times[b] ? 1 : a - b))
  return { samples: Float64Array.from(order, (i) => samples[i]), times: BigInt64Array.from(order, (i) => times[i]) }
}

export const rate = rates(false)
export const irate = rates(true)

export const ewm: SqlFunctionBody = ([values], _rows, [alpha]) => ({ values: ewmOf(numbers(values), Number(alpha)) })

export const cross_correlation: SqlFunctionBody = ([a, b], rows, [lag]) => ({
  values: new Float64Array(rows).fill(crossCorrelation(numbers(a), numbers(b), Number(lag))),
})

export const _mahalanobis: SqlFunctionBody = ([a, b, r], rows) => {
  const out = new Float64Array(rows)
  const [za, zb, correlation] = [numbers(a), numbers(b), numbers(r)]
  for (let i = 0; i < rows; i++) out[i] = mahalanobis(za[i], zb[i], correlation[i])
  return { values: out }
}

const scored = (columns: readonly SqlFunctionColumn[], detector: SqlConstant): SqlFunctionColumn | undefined => {
  try {
    return { values: scoresOf(String(detector), columns.map(numbers)) }
  } catch (error) {
    // Too few samples in the partition: NULL.
    if (error instanceof UnfitError) return undefined
    throw error
  }
}
export const _detector_score: SqlFunctionBody = (columns, _rows, [detector]) => scored(columns, detector)
export const _detector_score_of_two: SqlFunctionBody = (columns, _rows, [detector]) => scored(columns, detector)

/** Decompositions kept: a statement mostly asks for all parts of the same series. */
const KEPT = 4
const recent: { input: Buffer; key: string; parts: Decomposition | undefined }[] = []

function decompose(values: Float64Array, [period, robust]: readonly SqlConstant[]): Decomposition | undefined {
  const input = Buffer.from(values.buffer as ArrayBuffer, values.byteOffset, values.byteLength)
  const key = `${period}/${robust}`
  const known = recent.find((each) => each.key === key && each.input.equals(input))
  if (known !== undefined) return known.parts
  const parts = stl(values, Number(period), robust === true)
  if (recent.length >= KEPT) recent.shift()
  recent.push({ input: Buffer.from(input), key, parts })
  return parts
}

function part(which: keyof Decomposition): SqlFunctionBody {
  return ([values], _rows, constants) => {
    const parts = decompose(numbers(values), constants)
    return parts === undefined ? undefined : { values: parts[which] }
  }
}

export const stl_trend = part('trend')
export const stl_seasonal = part('seasonal')
export const stl_residual = part('residual')
