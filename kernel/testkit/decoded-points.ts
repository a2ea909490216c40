/** For tests and benches of decoders: a resolver without a storage, and a batch read back as plain points. */
import type { Column, WriteBatch } from '../lib/columns/index.ts'
import { SvcError } from '../lib/errors/index.ts'
import { Int64 } from '../lib/numbers/index.ts'
import type { FieldInfo, MeasurementRef, SeriesResolver } from '../storage/storage.ts'

/** Numbers measurements and series as they come. @param maxSeries series that may come; further ones throw CARDINALITY_EXCEEDED. */
export class FakeResolver implements SeriesResolver {
  epoch = 0
  /** Calls of `series`: how often a decoder took a key apart. */
  calls = 0
  readonly measurements: (MeasurementRef & { fields: Map<string, FieldInfo> })[] = []
  readonly tagSets: { measurement: MeasurementRef; tags: Record<string, string> }[] = []
  private readonly byName = new Map<string, MeasurementRef>()
  private readonly bySeries = new Map<string, number>()
  private readonly maxSeries: number

  constructor(maxSeries: number = Number.POSITIVE_INFINITY) {
    this.maxSeries = maxSeries
  }

  measurement(namespace: string, name: string): MeasurementRef & { fields: Map<string, FieldInfo> } {
    const key = JSON.stringify([namespace, name])
    let ref = this.byName.get(key) as (MeasurementRef & { fields: Map<string, FieldInfo> }) | undefined
    if (ref === undefined) {
      ref = { namespace, name, id: this.measurements.length, fields: new Map() }
      this.measurements.push(ref)
      this.byName.set(key, ref)
    }
    return ref
  }

  series(measurement: MeasurementRef, tags: readonly string[]): number {
    this.calls++
    const pairs: [string, string][] = []
    for (let i = 0; i < tags.length; i += 2) if (tags[i + 1] !== '') pairs.push([tags[i], tags[i + 1]])
    pairs.sort(([a], [b]) => (a < b ? -1 : 1))
    const key = JSON.stringify([measurement.id, pairs])
    let series = this.bySeries.get(key)
    if (series === undefined) {
      if (this.tagSets.length >= this.maxSeries)
        throw new SvcError('CARDINALITY_EXCEEDED', 'cannot add a series: the budget is spent; raise max_series_cardinality')
      series = this.tagSets.length
      this.tagSets.push({ measurement, tags: Object.fromEntries(pairs) })
      this.bySeries.set(key, series)
    }
    return series
  }
}

/** A row of a batch as a plain object. `time` in nanoseconds since the Unix epoch. */
export interface DecodedPoint {
  position: number
  measurement: string
  tags: Record<string, string>
  time: bigint
  /** int64 and uint64 as bigint, decimals as {decimal: text}, histograms as {histogram: bytes in hex}. */
  fields: Record<string, number | bigint | boolean | string | { decimal: string } | { histogram: string }>
}

/** The points of a batch, by position. */
export function pointsOf(batch: WriteBatch, resolver: FakeResolver): DecodedPoint[] {
  const points: DecodedPoint[] = []
  const int = new Int64()
  for (const table of batch.tables) {
    for (let row = 0; row < table.rows; row++) {
      const { measurement, tags } = resolver.tagSets[table.series[row]]
      int.low = table.time[row * 2]
      int.high = table.time[row * 2 + 1]
      const fields = Object.fromEntries(table.columns.filter((column) => column.has(row)).map((column) => [column.name, cellOf(batch, column, row)]))
      points.push({ position: table.position[row], measurement: measurement.name, tags, time: int.toBigInt(), fields })
    }
  }
  return points.sort((a, b) => a.position - b.position)
}

function cellOf(batch: WriteBatch, column: Column, row: number): DecodedPoint['fields'][string] {
  if (column.type === 'float64') return column.f64[row]
  if (column.type === 'bool') return column.u8[row] === 1
  const halves = column.i32
  if (column.type === 'decimal') {
    let unscaled = BigInt(halves[row * 4 + 3])
    for (let lane = 2; lane >= 0; lane--) unscaled = (unscaled << 32n) | BigInt(halves[row * 4 + lane] >>> 0)
    return { decimal: decimalText(unscaled, (column.scales as Uint8Array)[row]) }
  }
  const low = halves[row * 2]
  const high = halves[row * 2 + 1]
  if (column.type === 'string') return Buffer.from(batch.heap.bytes.subarray(low, low + high)).toString('utf8')
  if (column.type === 'histogram') return { histogram: Buffer.from(batch.heap.bytes.subarray(low, low + high)).toString('hex') }
  const value = (BigInt(high) << 32n) | BigInt(low >>> 0)
  return column.type === 'int64' ? value : BigInt.asUintN(64, value)
}

function decimalText(unscaled: bigint, scale: number): string {
  const digits = String(unscaled < 0n ? -unscaled : unscaled).padStart(scale + 1, '0')
  const text = scale === 0 ? digits : `${digits.slice(0, -scale)}.${digits.slice(-scale)}`
  return unscaled < 0n ? `-${text}` : text
}
