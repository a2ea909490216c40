/** Scales of decimals: a field's is decided by the first write that has it, and all values are brought to it. */
import type { Column } from 'svcdb/lib/columns'
import type { SvcError } from 'svcdb/lib/errors'
import { rescale } from '../../common/decimal.ts'
import type { Measurement } from '../catalog/schema.ts'
import type { Refusals } from './refusals.ts'
import { type Rows, used } from './rows.ts'

/** The scale each new decimal field gets: the most fractional digits among the rows that are left. */
export function newScales(measurement: Measurement, rows: Rows): Map<string, number> {
  const scales = new Map<string, number>()
  for (const column of used(rows)) {
    if (column.type !== 'decimal' || measurement.fields.has(column.name)) continue
    let max = 0
    for (let row = 0; row < column.next; row++) if (column.has(row)) max = Math.max(max, (column.scales as Uint8Array)[row])
    scales.set(column.name, max)
  }
  return scales
}

/** Refuses decimals of these fields that do not fit the scale: of a field that exists, or the one it is about to get. */
export function checkDecimals(measurement: string, rows: Rows, scales: ReadonlyMap<string, number>, refused: Refusals): void {
  for (const column of used(rows)) {
    const scale = scales.get(column.name)
    if (column.type !== 'decimal' || scale === undefined) continue
    for (let row = 0; row < Math.min(column.next, rows.rows); row++) {
      if (!column.has(row)) continue
      try {
        rescale(unscaledAt(column, row), (column.scales as Uint8Array)[row], scale, measurement, column.name)
      } catch (error) {
        refused.row(row, () => error as SvcError)
      }
    }
  }
}

/** Brings all values to the field's scale; they were checked. */
export function rescaleColumn(column: Column, scale: number): void {
  const scales = column.scales as Uint8Array
  for (let row = 0; row < column.next; row++) {
    if (scales[row] === scale || !column.has(row)) continue
    const value = unscaledAt(column, row) * 10n ** BigInt(scale - scales[row])
    for (let lane = 0; lane < 4; lane++) column.i32[row * 4 + lane] = Number(BigInt.asIntN(32, value >> BigInt(32 * lane)))
    scales[row] = scale
  }
}

function unscaledAt(column: Column, row: number): bigint {
  let value = BigInt(column.i32[row * 4 + 3])
  for (let lane = 2; lane >= 0; lane--) value = (value << 32n) | BigInt(column.i32[row * 4 + lane] >>> 0)
  return value
}
