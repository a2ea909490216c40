/** Exemplars of a data point: where they lie in the message, and what they say once the point is taken. */
import type { SeriesExemplar } from 'svcdb'
import { SvcError } from 'svcdb/lib/errors'
import type { ProtobufReader } from 'svcdb/lib/protobuf'
import { AttributeError, attributeText, keyValueAt } from './attribute-value.ts'

/** Kept of one request until it is written. */
const MAX_FOUND = 10_000
/** OpenMetrics, "Exemplars": names and values together, in characters. Of more, attributes are left out. */
const MAX_CHARACTERS = 128
const NS_PER_MS = 1_000_000n
const TWO_32 = 4294967296
const NOTHING = { labels: [], value: undefined, time: 0 }

/** Name, value, name, value ... of a series as PromQL shows it. */
export interface ExemplarSeries {
  labels: readonly string[]
  histogram?: true
}

export class PointExemplars {
  private readonly reader: ProtobufReader
  private readonly places: number[] = []

  constructor(reader: ProtobufReader) {
    this.reader = reader
  }

  /** Call at the beginning of a data point. */
  clear(): void {
    this.places.length = 0
  }

  add(start: number, end: number): void {
    this.places.push(start, end)
  }

  /** One that cannot be read is left out. @param series asked for once, if at all; undefined = it cannot be told. */
  read(series: () => ExemplarSeries | undefined, found: SeriesExemplar[]): void {
    const { places, reader } = this
    if (places.length === 0 || found.length >= MAX_FOUND) return
    const { bytes } = reader
    const of = attempted(series)
    if (of === undefined) return
    for (let i = 0; i < places.length && found.length < MAX_FOUND; i += 2) {
      reader.begin(bytes.subarray(places[i], places[i + 1]))
      const { labels, value, time } = attempted(() => exemplarIn(reader)) ?? NOTHING
      if (value !== undefined) found.push({ series: of.labels, ...(of.histogram === true ? { histogram: true } : {}), labels, value, time })
    }
    reader.begin(bytes)
  }
}

/** A point that has no value is skipped, and nobody has looked at its attributes: those of its exemplars may be no message. @returns undefined for what cannot be read. */
function attempted<T>(read: () => T): T | undefined {
  try {
    return read()
  } catch (error) {
    if (!(error instanceof SvcError)) throw error
    return undefined
  }
}

/** The message Exemplar. @returns value undefined where it has none. */
function exemplarIn(reader: ProtobufReader): { labels: string[]; value: number | undefined; time: number } {
  let time = 0
  let value: number | undefined
  const ids: string[] = []
  const attributes: string[] = []
  while (reader.next()) {
    switch (reader.field) {
      case 2:
        reader.fixed64()
        // A double would not hold it.
        time = Number(((BigInt(reader.high >>> 0) << 32n) | BigInt(reader.low >>> 0)) / NS_PER_MS)
        break
      case 3:
        value = reader.double()
        break
      case 6:
        reader.fixed64()
        value = reader.high * TWO_32 + (reader.low >>> 0)
        break
      case 4:
      case 5: {
        const name = reader.field === 4 ? 'span_id' : 'trace_id'
        const from = reader.span()
        const id = Buffer.from(reader.bytes.buffer, reader.bytes.byteOffset + from, reader.at - from).toString('hex')
        if (/[1-9a-f]/.test(id)) ids.push(name, id)
        break
      }
      case 7:
        attribute(reader, attributes)
        break
      default:
        reader.skip()
    }
  }
  const fits = [...ids, ...attributes].reduce((sum, text) => sum + [...text].length, 0) <= MAX_CHARACTERS
  return { labels: fits ? [...ids, ...attributes] : ids, value, time }
}

function attribute(reader: ProtobufReader, into: string[]): void {
  const { at, end } = reader
  try {
    const { key, start, end: stop } = keyValueAt(reader)
    into.push(key, start < 0 ? '' : attributeText(reader, start, stop))
  } catch (error) {
    if (!(error instanceof AttributeError)) throw error
    reader.at = at
    reader.end = end
    reader.span()
  }
}
