/** Times of a record batch as nanoseconds in two halves, as a write takes them. */
import type { Data } from 'apache-arrow'
import { Int64 } from 'svcdb/lib/numbers'
import type { RowRefusals } from './refusals.ts'

const TWO_32 = 4294967296
const NANOSECONDS = 1e9

/** Low and high half of the time of each row. @param perSecond the column's unit. */
export function timesOf(data: Data, perSecond: number, refusals: RowRefusals): Int32Array {
  const rows = data.length
  const values = data.values as BigInt64Array
  const halves = new Int32Array(values.buffer, values.byteOffset, rows * 2)
  if (data.nullCount > 0)
    for (let row = 0; row < rows; row++) if (!data.getValid(row)) refusals.refuse(row, 'INVALID_POINT', 'cannot write the row: it has no time')
  if (data.values instanceof BigUint64Array)
    for (let row = 0; row < rows; row++)
      if (halves[row * 2 + 1] < 0)
        refusals.refuse(row, 'INVALID_POINT', `cannot write the row: its time of ${data.values[row]} ns is outside the range of nanoseconds in 64 bits`)
  if (perSecond === NANOSECONDS) return halves
  const pairs = new Int32Array(rows * 2)
  const time = new Int64()
  const nanos = NANOSECONDS / perSecond
  for (let row = 0; row < rows; row++) {
    const value = halves[row * 2 + 1] * TWO_32 + (halves[row * 2] >>> 0)
    const magnitude = Math.abs(value)
    const lead = Math.floor(magnitude / perSecond)
    const fits = Number.isSafeInteger(value) ? time.setSeconds(lead, (magnitude - lead * perSecond) * nanos, value < 0) : scaled(values[row], nanos, time)
    if (!fits)
      refusals.refuse(row, 'INVALID_POINT', `cannot write the row: its time of ${values[row]} / ${perSecond} s is outside the range of nanoseconds in 64 bits`)
    pairs[row * 2] = time.low
    pairs[row * 2 + 1] = time.high
  }
  return pairs
}

function scaled(value: bigint, nanos: number, time: Int64): boolean {
  const product = value * BigInt(nanos)
  time.setBigInt(product)
  return BigInt.asIntN(64, product) === product
}
