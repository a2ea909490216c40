/** For tests: a decoder with what it needs, and what it made of a request in plain values. */

import type { MetricMetadataEntry } from 'svcdb'
import { WriteBatch } from 'svcdb/lib/columns'
import { atOnce } from 'svcdb/lib/event-loop'
import { decodeHistogram, isStaleHistogram, type NativeHistogram } from 'svcdb/lib/histogram'
import type { SlotMemory } from 'svcdb/lib/snappy'
import { FakeResolver, pointsOf } from 'svcdb/testkit'
import type { Version } from './content.ts'
import { RequestDecoder } from './decoder.ts'
import type { Outcome } from './outcome.ts'
import { type WireSeries, writeRequest, writeRequestV2 } from './testing-wire.ts'

export function decoding({
  maxCacheBytes = 1 << 20,
  maxBuckets = 100,
  maxSeries = 1e9,
  exemplars = false,
  memory,
}: {
  maxCacheBytes?: number
  maxBuckets?: number
  maxSeries?: number
  exemplars?: boolean
  memory?: SlotMemory
} = {}) {
  const resolver = new FakeResolver(maxSeries)
  const decoder = new RequestDecoder(resolver, '', { maxCacheBytes, maxBuckets, memory: () => memory, seed: 3 })
  const floats = new WriteBatch(resolver)
  const histograms = new WriteBatch(resolver)
  const said: MetricMetadataEntry[] = []
  return {
    resolver,
    floats,
    histograms,
    said,
    message: (version: Version, message: Uint8Array, maxSamples = 1e9, skipNonFinite = false): Outcome => {
      floats.reset()
      histograms.reset()
      const options = { maxSamples, maxFailures: 3, keepBoth: false, skipNonFinite, exemplars }
      return atOnce(
        decoder.decode(
          version,
          message,
          floats,
          () => histograms,
          (entry) => said.push(entry),
          options,
        ),
      )
    },
    points: () => pointsOf(floats, resolver).map(({ measurement, tags, time, fields }) => [measurement, tags, time, fields.value]),
    bits: () =>
      Array.from(
        floats
          .mixed()
          .find('value')
          ?.i32.subarray(0, floats.mixed().rows * 2) ?? [],
        (half) => half >>> 0,
      ),
    stored: (): (NativeHistogram | 'stale')[] =>
      histograms.tables.flatMap((table) => {
        const halves = table.find('value')?.i32 as Int32Array
        return Array.from({ length: table.rows }, (_, row) => {
          const start = halves[row * 2]
          const end = start + halves[row * 2 + 1]
          return isStaleHistogram(histograms.heap.bytes, start, end) ? 'stale' : decodeHistogram(histograms.heap.bytes, start, end)
        })
      }),
  }
}

export const encode = (version: Version, series: WireSeries[]) => (version === 1 ? writeRequest(series) : writeRequestV2(series))
