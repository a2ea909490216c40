/**
 * Series as numbers of this process. The engine keeps no points, so a number stands for the bytes by which an upstream knows the series: measurement and tags
 * as svc.Point has them, written once and copied into every record.
 *
 * Memory is bounded: when a generation has too many series, or too many bytes of names, keys and fields, the next one begins, `epoch` rises, and the numbers of the former ones stay good until the last batch that was
 * open then has ended. Numbers are never used twice.
 */
import type { FieldInfo, MeasurementRef, SeriesResolver } from 'svcdb'
import type { WriteBatch, WriteLimits } from 'svcdb/lib/columns'
import { SvcError } from 'svcdb/lib/errors'
import { ProtobufWriter } from 'svcdb/lib/protobuf'
import type { Limits } from '../common/limits.ts'
import { canonicalTags, checkMeasurementName } from '../common/names.ts'
import { SortedKeys } from '../common/sorted-keys.ts'

export interface Measurement extends MeasurementRef {
  fields: Map<string, FieldInfo>
}

interface Entry {
  measurement: Measurement
  byTags: Map<string, number>
  tags: Set<string>
}

interface Series {
  measurement: Measurement
  /** Fields 1 and 2 of svc.Point. */
  key: Uint8Array
}

/** What a field takes beside its name, about. */
const FIELD_BYTES = 100

const bytesOf = (field: FieldInfo): number => FIELD_BYTES + field.name.length

class Generation {
  readonly first: number
  /** Of names, keys and fields that came with it, about. */
  bytes = 0
  readonly series: Series[] = []
  readonly measurements = new Map<string, Entry>()
  /** Those of `measurements`. */
  readonly sorted = new SortedKeys()

  constructor(first: number) {
    this.first = first
  }
}

const writer = new ProtobufWriter()

export class SeriesNames implements SeriesResolver {
  readonly writeLimits: WriteLimits
  epoch = 0
  private readonly limits: Limits
  private readonly most: number
  private readonly maxBytes: number
  private current = new Generation(0)
  /** Ascending; what open batches still need. */
  private former: Generation[] = []
  /** The first number that each open batch may hold. */
  private readonly open = new Map<WriteBatch, number>()
  private nextMeasurement = 0

  /** @param most series of a generation. @param maxBytes of what it knows. */
  constructor(limits: Limits, most: number, maxBytes: number) {
    this.limits = limits
    this.writeLimits = limits.writeLimits
    this.most = most
    this.maxBytes = maxBytes
  }

  measurement(namespace: string, name: string): Measurement {
    return this.entry(namespace, name).measurement
  }

  series(ref: MeasurementRef, tags: readonly string[]): number {
    const sorted = canonicalTags(tags, this.limits)
    const byTags = sorted.join('\0')
    const known = this.entry(ref.namespace, ref.name).byTags.get(byTags)
    if (known !== undefined) return known
    if (this.current.series.length >= this.most) this.turn()
    const entry = this.entry(ref.namespace, ref.name)
    const { current } = this
    writer.string(1, ref.name)
    for (let i = 0; i < sorted.length; i += 2) {
      entry.tags.add(sorted[i])
      const tag = writer.open(2)
      writer.string(1, sorted[i])
      writer.string(2, sorted[i + 1])
      writer.close(tag)
    }
    const number = current.first + current.series.length
    const key = writer.take()
    current.bytes += key.length + byTags.length
    current.series.push({ measurement: entry.measurement, key })
    entry.byTags.set(byTags, number)
    return number
  }

  /** A field that was not known. */
  learn({ fields }: Measurement, field: FieldInfo): void {
    fields.set(field.name, field)
    this.current.bytes += bytesOf(field)
  }

  of(number: number): Series {
    const generation = number >= this.current.first ? this.current : this.former.findLast(({ first }) => first <= number)
    const series = generation?.series[number - generation.first]
    if (series === undefined) throw new SvcError('DATABASE_ERROR', `cannot write to series ${number}: the number was never handed out, or its batch is over`)
    return series
  }

  /** Measurements with fields that were written since the table began anew, by name. */
  *list(namespace: string): Generator<Readonly<Entry>> {
    const { measurements, sorted } = this.current
    for (const key of sorted.from(keyOf(namespace, ''))) {
      const entry = measurements.get(key) as Entry
      if (entry.measurement.namespace !== namespace) return
      if (entry.measurement.fields.size > 0) yield entry
    }
  }

  /** One of those. */
  find(namespace: string, name: string): Readonly<Entry> | undefined {
    const known = this.current.measurements.get(keyOf(namespace, name))
    return known !== undefined && known.measurement.fields.size > 0 ? known : undefined
  }

  namespaces(): string[] {
    return [...new Set([...this.current.measurements.values()].map(({ measurement }) => measurement.namespace))].sort()
  }

  /** Series and measurements known of a namespace. */
  count(namespace: string): { series: number; measurements: number } {
    const all = [...this.current.measurements.values()].filter(({ measurement }) => measurement.namespace === namespace)
    return { series: all.reduce((sum, { byTags }) => sum + byTags.size, 0), measurements: all.length }
  }

  /** What is known of the types of a measurement was wrong: an upstream has others. */
  forgetTypes(namespace: string, name: string): void {
    this.current.measurements.get(keyOf(namespace, name))?.measurement.fields.clear()
  }

  begun(batch: WriteBatch): void {
    // Whoever remembers its series asks for none.
    if (this.current.bytes > this.maxBytes) this.turn()
    this.open.set(batch, this.current.first)
  }

  /** @throws Error for a batch that is not open. */
  ended(batch: WriteBatch): void {
    if (!this.open.delete(batch)) throw new Error('cannot take back a batch: it is not open; a batch is written or recycled once')
    if (this.former.length === 0) return
    let oldest = this.current.first
    for (const first of this.open.values()) if (first < oldest) oldest = first
    this.former = this.former.filter(({ first }) => first >= oldest)
  }

  private turn(): void {
    if (this.open.size > 0) this.former.push(this.current)
    this.current = new Generation(this.current.first + this.current.series.length)
    this.epoch++
  }

  private entry(namespace: string, name: string): Entry {
    const key = keyOf(namespace, name)
    if (this.current.bytes > this.maxBytes) this.turn()
    let entry = this.current.measurements.get(key)
    if (entry === undefined) {
      checkMeasurementName(name, this.limits)
      // Names alone are bounded as well.
      if (this.current.measurements.size >= this.most) this.turn()
      entry = { measurement: this.carried(key) ?? { namespace, name, id: this.nextMeasurement++, fields: new Map() }, byTags: new Map(), tags: new Set() }
      this.current.measurements.set(key, entry)
      this.current.sorted.add(key)
      this.current.bytes += key.length
    }
    return entry
  }

  /** Types outlive a generation where there is room for them: a row of a wrong type would otherwise decide for those behind it. */
  private carried(key: string): Measurement | undefined {
    const before = this.former.at(-1)?.measurements.get(key)?.measurement
    if (before === undefined) return undefined
    let bytes = this.current.bytes
    for (const field of before.fields.values()) bytes += bytesOf(field)
    if (bytes > this.maxBytes) return undefined
    this.current.bytes = bytes
    return before
  }
}

const keyOf = (namespace: string, name: string): string => `${namespace}\0${name}`
