/** Whose rows a segment of a shared table has. */

import type { OrderedRows } from '../memtable/row-order.ts'
import type { MeasurementDef } from '../threads/definitions.ts'
import type { SegmentMeta } from '../threads/segment-entry.ts'

type Measurements = ReadonlyMap<number, Pick<MeasurementDef, 'namespace'>>

/** Whether there is anything to tell apart. */
export function haveNames(measurements: Measurements): boolean {
  for (const { namespace } of measurements.values()) if (namespace !== '') return true
  return false
}

/** @param counts rows by measurement. */
export function ownersOf(counts: Iterable<[measurement: number, rows: number]>, measurements: Measurements): Pick<SegmentMeta, 'owners'> {
  const owners: NonNullable<SegmentMeta['owners']> = {}
  for (const [id, rows] of counts) {
    const namespace = measurements.get(id)?.namespace
    if (namespace === undefined) continue // the series was released, or its measurement dropped
    const known = Object.hasOwn(owners, namespace) ? owners[namespace] : [0, 0]
    owners[namespace] = [known[0] + rows, Math.max(known[1], id)]
  }
  return { owners }
}

export function* countByMeasurement({ series, starts }: OrderedRows, measurementOf: Int32Array): Generator<[measurement: number, rows: number]> {
  for (let i = 0; i < series.length; i++) yield [measurementOf[series[i]], starts[i + 1] - starts[i]]
}
