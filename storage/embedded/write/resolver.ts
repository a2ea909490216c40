/** Turns the names that decoders meet into the engine's numbers. */
import type { MeasurementRef, SeriesResolver } from 'svcdb'
import type { Limits } from '../../common/limits.ts'
import { canonicalTags, checkMeasurementName } from '../../common/names.ts'
import type { Schema } from '../catalog/schema.ts'
import type { SeriesIndex } from '../series/series-index.ts'

const UNDERSCORE = 95

export function seriesResolver(schema: Schema, index: SeriesIndex, limits: Limits): SeriesResolver {
  return {
    writeLimits: limits.writeLimits,
    get epoch() {
      return index.epoch
    },
    measurement: (namespace, name) => {
      const known = schema.find(namespace, name)
      if (known !== undefined) return known
      checkMeasurementName(name, limits)
      return schema.resolve(namespace, name)
    },
    series: (measurement: MeasurementRef, tags: readonly string[]) => index.resolve(measurement, canonicalTags(tags, limits)),
    seriesAscii: (measurement: MeasurementRef, bytes: Uint8Array, ranges: Int32Array, pairs: number) => {
      if (pairs > limits.maxTagsPerSeries) return -1
      for (let i = 0; i < pairs; i++) {
        const start = ranges[i * 4]
        // Reserved names begin with an underscore.
        if (bytes[start] === UNDERSCORE || ranges[i * 4 + 1] - start > limits.maxNameBytes || ranges[i * 4 + 3] - ranges[i * 4 + 2] > limits.maxTagValueBytes)
          return -1
      }
      return index.resolveAscii(measurement, bytes, ranges, pairs)
    },
  }
}
