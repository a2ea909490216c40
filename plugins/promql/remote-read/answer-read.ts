/** A remote read beside the data: every series that matches with its samples in the range, as the client asked for them. */
import type { JobIo } from 'svcdb'
import { TooManySamplesError } from 'svcdb/lib/columns'
import { ProtobufWriter } from 'svcdb/lib/protobuf'
import { SnappyParts } from 'svcdb/lib/snappy'
import { ExecutionError } from '../errors.ts'
import { Pacer } from '../eval/context.ts'
import type { SampleSource } from '../eval/source.ts'
import { SAMPLE_HISTOGRAM, SAMPLE_STALE, type SampleBlock } from '../eval/value.ts'
import { apiError } from '../http/api-error.ts'
import { compareLabels } from '../http/series-order.ts'
import type { LabelSets, Labels } from '../labels.ts'
import { checkRegex } from '../parser/regex-syntax.ts'
import { FrameWriter } from './frames.ts'
import { writeHistogram, writeLabelPairs, writeSample } from './messages.ts'
import type { ReadQuery, ReadRequest } from './request.ts'
import { type Chunk, nativeOf, seriesChunks } from './series-chunks.ts'

/** Samples are compressed when they have so many bytes; what waits is small. */
const PART_BYTES = 256 * 1024
/** What a series that waits takes beside its texts, which all have in common, and a chunk beside its data: some 700 bytes together, measured with four labels. */
const SERIES_BYTES = 350
const CHUNK_BYTES = 300
/** Of a label's name or value. */
const TEXT_BYTES = 8

/** `ReadResponse.results`, field 1 with a length. */
const RESULT_TAG = 10

export interface ReadArgs {
  namespace: string
  request: ReadRequest
  /** Of an answer as samples; 0 = no limit. */
  sampleLimit: number
  maxBytesInFrame: number
  /** What the answer may hold in memory. */
  maxBytes: number
}

/** Beside what waits: a block of samples, and what is made of it. */
const READ_BYTES = 4 << 20

/** Told what the answer holds, or is going to. */
type Room = (bytes: number) => Promise<void> | undefined

/** @throws SvcError bad_data or execution for what is too large. */
export async function answerRead(source: SampleSource, args: ReadArgs, io: JobIo, room: Room = () => undefined): Promise<void> {
  for (const { matchers } of args.request.queries) {
    for (const { op, value } of matchers) {
      const fault = op === '=~' || op === '!~' ? checkRegex(value) : undefined
      if (fault !== undefined) throw apiError('bad_data', fault)
    }
  }
  try {
    await room(READ_BYTES)
    await (args.request.streamed ? answerChunks(source, args, io, room) : answerSamples(source, args, io, room))
  } catch (error) {
    throw error instanceof ExecutionError || error instanceof TooManySamplesError ? apiError('execution', error.message, error) : error
  }
}

function select(source: SampleSource, { matchers, start, end }: ReadQuery) {
  return source.select({ matchers, after: start - 1, upTo: end })
}

async function answerSamples(source: SampleSource, { request, sampleLimit, maxBytes }: ReadArgs, io: JobIo, room: Room): Promise<void> {
  let out = new ProtobufWriter(PART_BYTES)
  const pacer = new Pacer(io.signal)
  const answer = new SnappyParts()
  let samples = 0
  for (const query of request.queries) {
    const result = new SnappyParts()
    const compress = async (): Promise<void> => {
      await result.add(out.bytes.subarray(0, out.at))
      out.at = 0
      // Not as large as the largest series.
      if (out.bytes.length > 2 * PART_BYTES) out = new ProtobufWriter(PART_BYTES)
      await room(READ_BYTES + answer.bytes + result.bytes)
    }
    const { labels, blocks } = await select(source, query)
    for await (const block of blocks()) {
      samples += block.times.length
      if (sampleLimit > 0 && samples > sampleLimit) throw apiError('bad_data', `exceeded sample limit (${sampleLimit})`)
      for (let i = 0; i + 1 < block.starts.length; i++) {
        if (block.starts[i] === block.starts[i + 1]) continue
        writeSeries(out, labels.at(block.first + i), block, block.starts[i], block.starts[i + 1])
        if (answer.length + result.length + out.at > maxBytes) throw tooLarge(maxBytes)
        if (out.at >= PART_BYTES) await compress()
        if (pacer.due(block.starts[i + 1] - block.starts[i])) await pacer.pause()
      }
    }
    await compress()
    out.varint(RESULT_TAG)
    out.varint(result.length)
    answer.literal(out.take())
    answer.append(result)
  }
  for (const part of answer.take()) await io.emit(part)
}

function writeSeries(out: ProtobufWriter, labels: Labels, block: SampleBlock, from: number, to: number): void {
  const { times, values, kinds, histograms } = block
  const series = out.open(1)
  writeLabelPairs(out, 1, labels)
  for (let at = from; at < to; at++) {
    if (kinds !== undefined && kinds[at] === SAMPLE_HISTOGRAM) writeHistogram(out, 4, times[at], nativeOf(histograms?.[at]))
    else writeSample(out, 2, times[at], values[at], kinds !== undefined && kinds[at] === SAMPLE_STALE)
  }
  out.close(series)
}

async function answerChunks(source: SampleSource, { request, maxBytesInFrame, maxBytes }: ReadArgs, io: JobIo, room: Room): Promise<void> {
  const frames = new FrameWriter(io, maxBytesInFrame)
  const pacer = new Pacer(io.signal)
  for (const [index, query] of request.queries.entries()) {
    const { labels, blocks } = await select(source, query)
    // Series have to be sent in the order of their labels; those of the storage that come otherwise wait, compressed.
    const inOrder = isOrdered(labels)
    const waiting: { labels: Labels; chunks: Chunk[] }[] = []
    let held = 0
    for await (const block of blocks()) {
      if (held > 0) await room(READ_BYTES + held)
      for (let i = 0; i + 1 < block.starts.length; i++) {
        if (block.starts[i] === block.starts[i + 1]) continue
        const chunks = seriesChunks(block, block.starts[i], block.starts[i + 1])
        const own = labels.at(block.first + i)
        if (inOrder) await frames.series(index, own, chunks)
        else {
          waiting.push({ labels: own, chunks })
          held += SERIES_BYTES + own.pairs.length * TEXT_BYTES
          for (const { data } of chunks) held += CHUNK_BYTES + data.length
          if (held > maxBytes) throw tooLarge(maxBytes)
        }
        if (pacer.due(block.starts[i + 1] - block.starts[i])) await pacer.pause()
      }
    }
    waiting.sort((a, b) => compareLabels(a.labels, b.labels))
    for (const { labels: own, chunks } of waiting) await frames.series(index, own, chunks)
  }
  await frames.flush()
}

function isOrdered(sets: LabelSets): boolean {
  for (let i = 1; i < sets.length; i++) if (compareLabels(sets.at(i - 1), sets.at(i)) > 0) return false
  return true
}

function tooLarge(maxBytes: number): Error {
  return apiError(
    'execution',
    `cannot answer the remote read: it holds more than ${maxBytes} bytes; ask for fewer series or a shorter range, or raise server.prom_max_result_bytes`,
  )
}
