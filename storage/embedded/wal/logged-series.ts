/**
 * The series that a record of the log defines, left as they lie in it: a restart may read a million of them. Each is varint number, varint measurement,
 * then its tags: varint count, and length and bytes of each key and value, ordered by key.
 */
import { ByteReader } from '../../common/log/bytes.ts'

export interface SeriesDefinition {
  series: number
  measurement: number
  /** key, value, key, value ... ordered by key. */
  tags: string[]
}

export class LoggedSeries implements Iterable<SeriesDefinition> {
  static readonly NONE = new LoggedSeries(new Uint8Array(0), new Int32Array(0))
  readonly bytes: Uint8Array
  /** Of each series: number, measurement, where its tags begin in `bytes`. */
  private readonly entries: Int32Array

  private constructor(bytes: Uint8Array, entries: Int32Array) {
    this.bytes = bytes
    this.entries = entries
  }

  /** Takes them from a record, every length and text checked. @throws RangeError, TypeError when the bytes are not such a list. */
  static read(reader: ByteReader): LoggedSeries {
    const count = reader.varint()
    if (count === 0) return LoggedSeries.NONE
    // One takes three bytes at least; this refuses a count that corruption has made huge before memory is taken for it.
    if (count > reader.end - reader.position) throw new RangeError(`the record cannot hold ${count} series`)
    const entries = new Int32Array(count * 3)
    for (let i = 0; i < entries.length; i += 3) {
      entries[i] = reader.varint()
      entries[i + 1] = reader.varint()
      entries[i + 2] = reader.position
      for (let texts = reader.varint() * 2; texts > 0; texts--) reader.skipText()
    }
    return new LoggedSeries(reader.bytes, entries)
  }

  get length(): number {
    return this.entries.length / 3
  }

  series(i: number): number {
    return this.entries[i * 3]
  }

  measurement(i: number): number {
    return this.entries[i * 3 + 1]
  }

  /** Where the tags begin in `bytes`: their count comes first. */
  tagsAt(i: number): number {
    return this.entries[i * 3 + 2]
  }

  *[Symbol.iterator](): Generator<SeriesDefinition> {
    for (let i = 0; i < this.length; i++) yield { series: this.series(i), measurement: this.measurement(i), tags: taggedTexts(this.bytes, this.tagsAt(i)) }
  }
}

/** key, value, key, value ... @param at as `LoggedSeries.tagsAt`. */
export function taggedTexts(bytes: Uint8Array, at: number): string[] {
  const reader = new ByteReader(bytes, at)
  const tags: string[] = []
  for (let texts = reader.varint() * 2; texts > 0; texts--) tags.push(reader.text())
  return tags
}
