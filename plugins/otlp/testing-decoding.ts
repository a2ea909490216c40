/** For tests: a decoder with what it needs, and what it made of a request in plain values. */

import type { MeasurementRef, MetricMetadataEntry } from 'svcdb'
import { WriteBatch } from 'svcdb/lib/columns'
import { atOnce, type Work } from 'svcdb/lib/event-loop'
import { decodeHistogram, isStaleHistogram, type NativeHistogram } from 'svcdb/lib/histogram'
import { FakeResolver } from 'svcdb/testkit'
import { type DecoderOptions, OtlpDecoder } from './decoder.ts'
import type { DecodeOptions, Outcome } from './outcome.ts'
import type { WireMetric, WireResource } from './testing-wire.ts'

export type Cell = number | bigint | 'stale' | NativeHistogram

export interface Point {
  position: number
  measurement: string
  tags: Record<string, string>
  time: bigint
  fields: Record<string, Cell>
}

/** A resolver that takes tags as bytes too. */
export class AsciiResolver extends FakeResolver {
  asciiCalls = 0

  seriesAscii(measurement: MeasurementRef, bytes: Uint8Array, ranges: Int32Array, pairs: number): number {
    this.asciiCalls++
    const text = (place: number): string => Buffer.from(bytes.subarray(ranges[place], ranges[place + 1])).toString('latin1')
    return this.series(
      measurement,
      Array.from({ length: pairs * 2 }, (_, i) => text(i * 2)),
    )
  }
}

export function decoding(
  options: Partial<DecoderOptions> = {},
  limits: DecodeOptions = { maxPoints: 1e9, maxFailures: 10 },
  resolver: FakeResolver = new FakeResolver(),
) {
  const defaults: DecoderOptions = {
    names: 'otel',
    scopeTags: false,
    refuseDelta: false,
    dropped: new Set(),
    maxBuckets: 100,
    maxQuantiles: 100,
    maxCacheBytes: 1 << 20,
    seed: 3,
  }
  const decoder = new OtlpDecoder(resolver, '', { ...defaults, ...options })
  const batches = { points: new WriteBatch(resolver), gauges: new WriteBatch(resolver) }
  const said: MetricMetadataEntry[] = []
  const work = (message: Uint8Array): Work<Outcome> => {
    batches.points.reset()
    batches.gauges.reset()
    return decoder.decode(
      message,
      (name) => batches[name],
      (entry) => said.push(entry),
      limits,
    )
  }
  return {
    resolver,
    said,
    decode: (message: Uint8Array): Outcome => atOnce(work(message)),
    /** Reads it. @param between called when others have their turn. @returns how often they had it. */
    turns: (message: Uint8Array, between: (turn: number) => void = () => {}): number => {
      let turns = 0
      for (const _ of work(message)) between(++turns)
      return turns
    },
    points: (): Point[] => [...pointsOf(batches.points, resolver), ...pointsOf(batches.gauges, resolver)].sort((a, b) => a.position - b.position),
  }
}

function pointsOf(batch: WriteBatch, resolver: FakeResolver): Point[] {
  const points: Point[] = []
  for (const table of batch.tables) {
    for (let row = 0; row < table.rows; row++) {
      const { measurement, tags } = resolver.tagSets[table.series[row]]
      const time = (BigInt(table.time[row * 2 + 1]) << 32n) | BigInt(table.time[row * 2] >>> 0)
      const fields: Record<string, Cell> = {}
      for (const column of table.columns) {
        if (!column.has(row)) continue
        const low = column.i32[row * 2]
        const high = column.i32[row * 2 + 1]
        if (column.type === 'int64' || column.type === 'uint64') {
          const bits = (BigInt(high) << 32n) | BigInt(low >>> 0)
          fields[column.name] = column.type === 'int64' ? bits : BigInt.asUintN(64, bits)
        } else if (column.type === 'float64') fields[column.name] = low === 2 && high === 0x7ff00000 ? 'stale' : column.f64[row]
        else fields[column.name] = isStaleHistogram(batch.heap.bytes, low, low + high) ? 'stale' : decodeHistogram(batch.heap.bytes, low, low + high)
      }
      points.push({ position: table.position[row], measurement: measurement.name, tags, time, fields })
    }
  }
  return points
}

export const one = (metrics: WireMetric[], attributes: WireResource['attributes'] = {}): WireResource[] => [
  { attributes, scopes: [{ name: 'lib', version: '2', metrics }] },
]
