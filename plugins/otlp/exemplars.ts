/** Exemplars of a data point: where they lie in the message, and what they say once the point is taken. */
import { SvcError } from 'svcdb/lib/errors'
import type { ProtobufReader } from 'svcdb/lib/protobuf'
import { AttributeError, attributeText, keyValueAt, ValueBudget } from './attribute-value.ts'
import type { Outcome } from './outcome.ts'

/** Kept of one request until it is written. */
const MAX_FOUND = 10_000
/** Likewise, of the labels of their series: those of a resource are listed again with each. */
const MAX_FOUND_LABELS = 1_048_576
/** OpenMetrics, "Exemplars": names and values together, in characters. Of more, attributes are left out. */
const MAX_CHARACTERS = 128
/** As many as fit where each attribute has a name of one character. */
const MAX_TEXTS = 2 * MAX_CHARACTERS
/** Of an id, which is shown in twice as many characters, and of an attribute, whose text may be shorter than its message. What is longer is not looked at. */
const MAX_ID_BYTES = 64
const MAX_ATTRIBUTE_BYTES = 4096
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
  read(series: () => ExemplarSeries | undefined, outcome: Outcome): void {
    const { places, reader } = this
    const { found } = outcome
    if (places.length === 0 || found.length >= MAX_FOUND || outcome.foundLabels >= MAX_FOUND_LABELS) return
    const { bytes } = reader
    const of = attempted(series)
    if (of === undefined) return
    outcome.foundLabels += of.labels.length
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
  const ids = new Map<string, string>()
  const attributes: string[] = []
  let fits = true
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
        const id = Buffer.from(reader.bytes.buffer, reader.bytes.byteOffset + from, Math.min(reader.at - from, MAX_ID_BYTES)).toString('hex')
        if (/[1-9a-f]/.test(id)) ids.set(name, id)
        break
      }
      case 7: {
        const { at } = reader
        const from = reader.span()
        fits &&= reader.at - from <= MAX_ATTRIBUTE_BYTES && attributes.length < MAX_TEXTS
        if (!fits) break
        reader.at = at
        attribute(reader, attributes)
        break
      }
      default:
        reader.skip()
    }
  }
  const named = [...ids].flat()
  fits &&= [...named, ...attributes].reduce((sum, text) => sum + [...text].length, 0) <= MAX_CHARACTERS
  return { labels: fits ? [...named, ...attributes] : named, value, time }
}

function attribute(reader: ProtobufReader, into: string[]): void {
  const { at, end } = reader
  try {
    const { key, start, end: stop } = keyValueAt(reader)
    into.push(key, start < 0 ? '' : attributeText(reader, start, stop, new ValueBudget()))
  } catch (error) {
    if (!(error instanceof AttributeError)) throw error
    reader.at = at
    reader.end = end
    reader.span()
  }
}
