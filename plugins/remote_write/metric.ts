/** The metrics that a decoder has met, and where their samples go in the write at hand. */
import type { MeasurementRef, SeriesResolver } from 'svcdb'
import { type Column, type TableBatch, VALUE_FIELD } from 'svcdb/lib/columns'

/** What the field `value` of a metric holds. */
export const NOTHING = 0
export const FLOATS = 1
export const HISTOGRAMS = 2
const OTHER = 3

export class Metric {
  readonly ref: MeasurementRef
  /** Number of the write that what follows is of. */
  serial = 0
  holds = NOTHING
  floats: TableBatch | undefined
  floatColumn: Column | undefined
  histograms: TableBatch | undefined
  histogramColumn: Column | undefined
  /** The metadata last taken over in version 2, and in which write that was looked at. */
  saidIn = 0
  saidType = -1
  saidHelp = -1
  saidUnit = -1

  constructor(ref: MeasurementRef) {
    this.ref = ref
  }

  begin(serial: number): void {
    this.serial = serial
    const declared = this.ref.fields.get(VALUE_FIELD)?.type
    this.holds = declared === undefined ? NOTHING : declared === 'float64' ? FLOATS : declared === 'histogram' ? HISTOGRAMS : OTHER
    this.floats = this.floatColumn = this.histograms = this.histogramColumn = undefined
  }
}

export class Metrics {
  readonly list: Metric[] = []
  private readonly byName = new Map<string, number>()
  private readonly resolver: SeriesResolver
  private readonly namespace: string

  constructor(resolver: SeriesResolver, namespace: string) {
    this.resolver = resolver
    this.namespace = namespace
  }

  /** Its place in `list`. @throws INVALID_POINT. */
  find(name: string): number {
    let place = this.byName.get(name)
    if (place === undefined) {
      place = this.list.push(new Metric(this.resolver.measurement(this.namespace, name))) - 1
      this.byName.set(name, place)
    }
    return place
  }

  clear(): void {
    this.list.length = 0
    this.byName.clear()
  }
}
