/** Exemplars behind the labels of a series: the two versions differ in how they say labels. */
import type { Exemplar, SeriesExemplar } from 'svcdb'
import { SvcError } from 'svcdb/lib/errors'
import { BYTES, type ProtobufReader } from 'svcdb/lib/protobuf'
import type { Symbols } from './symbols.ts'

/** Kept of one request until it is written: each is an object, and may be told in five bytes. */
const MAX_FOUND = 10_000

/** Reads the labels in the field at hand. @returns undefined where they name no labels. */
export type ReadLabels = () => string[] | undefined

/** Those in [start, end), which has been scanned. One that cannot be read is left out. @param series its labels; undefined = none is read. */
export function readExemplars(
  reader: ProtobufReader,
  [start, end, field]: readonly [number, number, number],
  series: readonly string[] | undefined,
  labelsOf: ReadLabels,
  found: SeriesExemplar[],
): void {
  reader.at = start
  reader.end = end
  while (reader.next()) {
    if (reader.field !== field || series === undefined || found.length >= MAX_FOUND) {
      reader.skip()
      continue
    }
    const from = reader.span()
    const after = reader.at
    reader.at = from
    reader.end = after
    try {
      const exemplar = exemplarIn(reader, labelsOf)
      if (exemplar !== undefined) found.push({ series, ...exemplar })
    } catch (error) {
      if (!(error instanceof SvcError)) throw error
    }
    reader.at = after
    reader.end = end
  }
}

function exemplarIn(reader: ProtobufReader, labelsOf: ReadLabels): Exemplar | undefined {
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
  return textsOf(refs, symbols)
}

/** @returns undefined for references to what is not there. */
export function textsOf(refs: Iterable<number>, symbols: Symbols): string[] | undefined {
  const texts: string[] = []
  for (const ref of refs) {
    if (ref >>> 0 >= symbols.count) return undefined
    texts.push(symbols.text(ref >>> 0))
  }
  return texts
}

function text(reader: ProtobufReader): string {
  const start = reader.span()
  return Buffer.from(reader.bytes.buffer, reader.bytes.byteOffset + start, reader.at - start).toString('utf8')
}
