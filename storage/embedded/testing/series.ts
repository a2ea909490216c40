/** Series for tests of parts that see durable ones only. */
import type { MeasurementRef } from 'svcdb'
import { NOT_DURABLE } from '../series/provisional-series.ts'
import { SeriesIndex, type SeriesIndexOptions } from '../series/series-index.ts'
import { Shared } from '../threads/shared-header.ts'

export function newIndex(options: SeriesIndexOptions = {}, budget = 1_000_000): SeriesIndex {
  return new SeriesIndex(new Int32Array(new SharedArrayBuffer(Shared.SLOTS * 4)), budget, () => {}, options)
}

export function ref(id: number, namespace = 'default'): MeasurementRef {
  return { namespace, name: `m${id}`, id, fields: new Map() }
}

/** The number of a series, as if a write of it had been admitted. @param tags key, value ... */
export function admitted(index: SeriesIndex, measurement: MeasurementRef, tags: readonly string[]): number {
  const series = index.resolve(measurement, tags)
  const number = index.numberOf(series)
  return number === NOT_DURABLE ? index.promote(series) : number
}
