/** Exemplars behind the labels of a series: the two versions differ in how they say labels. */
import type { Exemplar } from 'svcdb'
import { SvcError } from 'svcdb/lib/errors'
import { BYTES, type ProtobufReader } from 'svcdb/lib/protobuf'
import { MAX_LABELS } from './label-set.ts'
import type { Outcome } from './outcome.ts'
import type { Symbols } from './symbols.ts'

/** Kept of one request until it is written: each is an object, and may be told in five bytes. */
const MAX_FOUND = 10_000
/** Likewise, of the labels of their series in characters: references may say the same symbol again and again. */
const MAX_FOUND_CHARACTERS = 16_777_216
/** A label has at least so many places in memory for its texts. */
const LABEL_CHARACTERS = 16
/** Of the labels of a series; more are no series that exemplars are kept of. */
const MAX_SERIES_BYTES = 131_072
/** Of the message of an exemplar, and of the texts that it refers to: of labels, 128 characters are kept at most. */
const MAX_BYTES = 2048

/** Reads the labels in the field at hand. @returns undefined where they name no labels. */
type ReadLabels = () => string[] | undefined

/**
 * Those in [start, end), which has been scanned. One that cannot be read is left out. @param seriesOf the labels of the series, asked for once, if at all;
 * undefined = none is read.
 */
export function readExemplars(
  reader: ProtobufReader,
  [start, end, field]: readonly [number, number, number],
  seriesOf: () => readonly string[] | undefined,
  labelsOf: ReadLabels,
  outcome: Outcome,
): void {
  const { found } = outcome
  if (found.length >= MAX_FOUND || outcome.foundCharacters >= MAX_FOUND_CHARACTERS) return
  let series: readonly string[] | undefined
  reader.at = start
  reader.end = end
  while (found.length < MAX_FOUND && reader.next()) {
    if (reader.field !== field) {
      reader.skip()
      continue
    }
    const from = reader.span()
    const after = reader.at
    reader.at = from
    reader.end = after
    try {
      const exemplar = exemplarIn(reader, labelsOf)
      if (exemplar !== undefined) {
        // Not before there is one to keep: labels may be long, and said in a few bytes again and again.
        if (series === undefined && (series = seriesOf()) === undefined) return
        found.push({ series, ...exemplar })
      }
    } catch (error) {
      if (!(error instanceof SvcError)) throw error
    }
    reader.at = after
    reader.end = end
  }
  if (series !== undefined) outcome.foundCharacters += series.reduce((sum, text) => sum + text.length, series.length * LABEL_CHARACTERS)
}

function exemplarIn(reader: ProtobufReader, labelsOf: ReadLabels): Exemplar | undefined {
  if (reader.end - reader.at > MAX_BYTES) return undefined
  const labels: string[] = []
  let value = 0
  let time = 0
  while (reader.next()) {
    if (reader.field === 1) {
      const read = labelsOf()
      if (read === undefined) return undefined
      for (const text of read) labels.push(text)
    } else if (reader.field === 2) value = reader.double()
    else if (reader.field === 3) {
      reader.int64()
      time = reader.signed
    } else reader.skip()
  }
  return { labels, value, time }
}

/** The messages Label of version 1 in [start, end). @returns undefined where they are too long. */
export function seriesV1(reader: ProtobufReader, start: number, end: number): string[] | undefined {
  if (end - start > MAX_SERIES_BYTES) return undefined
  const series: string[] = []
  reader.at = start
  reader.end = end
  while (reader.next()) series.push(...labelV1(reader))
  return series
}

/** A message Label of version 1. */
export function labelV1(reader: ProtobufReader): string[] {
  const outer = reader.enter()
  let name = ''
  let value = ''
  while (reader.next()) {
    if (reader.field === 1) name = text(reader)
    else if (reader.field === 2) value = text(reader)
    else reader.skip()
  }
  reader.leave(outer)
  return [name, value]
}

/** References of version 2, names and values in turn. */
export function labelsV2(reader: ProtobufReader, symbols: Symbols): string[] | undefined {
  const refs: number[] = []
  if (reader.wire === BYTES) {
    const outer = reader.enter()
    while (reader.at < reader.end) {
      reader.varint()
      refs.push(reader.low >>> 0)
    }
    reader.leave(outer)
  } else refs.push(reader.uint32())
  return textsOf(refs, symbols, MAX_BYTES)
}

/** References of version 2 to the labels of a series. @returns undefined where they are too many or too long, or refer to what is not there. */
export function seriesV2(refs: Int32Array, symbols: Symbols): string[] | undefined {
  return refs.length % 2 === 0 && refs.length <= MAX_LABELS * 2 ? textsOf(refs, symbols, MAX_SERIES_BYTES) : undefined
}

function textsOf(refs: ArrayLike<number>, symbols: Symbols, mostBytes: number): string[] | undefined {
  let bytes = 0
  for (let i = 0; i < refs.length; i++) {
    const ref = refs[i] >>> 0
    if (ref >= symbols.count) return undefined
    bytes += symbols.ends[ref] - symbols.starts[ref]
  }
  return bytes > mostBytes ? undefined : Array.from(refs, (ref) => symbols.text(ref >>> 0))
}

function text(reader: ProtobufReader): string {
  const start = reader.span()
  return Buffer.from(reader.bytes.buffer, reader.bytes.byteOffset + start, reader.at - start).toString('utf8')
}
