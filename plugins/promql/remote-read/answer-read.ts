/** A remote read beside the data: every series that matches with its samples in the range, as the client asked for them. */
import type { JobIo } from 'svcdb'
import { TooManySamplesError } from 'svcdb/lib/columns'
import { ProtobufWriter } from 'svcdb/lib/protobuf'
import { encodeSnappy } from 'svcdb/lib/snappy'
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

/** What a series that waits takes beside its texts, which all have in common, and a chunk beside its data: some 700 bytes together, measured with four labels. */
const SERIES_BYTES = 350
const CHUNK_BYTES = 300
/** Of a label's name or value. */
const TEXT_BYTES = 8

export interface ReadArgs {
  namespace: string
  request: ReadRequest
  /** Of an answer as samples; 0 = no limit. */
  sampleLimit: number
  maxBytesInFrame: number
  /** What the answer may hold in memory. */
  maxBytes: number
}

/** @throws SvcError bad_data or execution for what is too large. */
export async function answerRead(source: SampleSource, args: ReadArgs, io: JobIo): Promise<void> {
  for (const { matchers } of args.request.queries) {
    for (const { op, value } of matchers) {
      const fault = op === '=~' || op === '!~' ? checkRegex(value) : undefined
      if (fault !== undefined) throw apiError('bad_data', fault)
    }
  }
  try {
    await (args.request.streamed ? answerChunks(source, args, io) : answerSamples(source, args, io))
  } catch (error) {
    throw error instanceof ExecutionError || error instanceof TooManySamplesError ? apiError('execution', error.message, error) : error
  }
}

function select(source: SampleSource, { matchers, start, end }: ReadQuery) {
  return source.select({ matchers, after: start - 1, upTo: end })
}

async function answerSamples(source: SampleSource, { request, sampleLimit, maxBytes }: ReadArgs, io: JobIo): Promise<void> {
  const out = new ProtobufWriter(64 * 1024)
  const pacer = new Pacer(io.signal)
  let samples = 0
  for (const query of request.queries) {
    const result = out.open(1)
    const { labels, blocks } = await select(source, query)
    for await (const block of blocks()) {
      samples += block.times.length
      if (sampleLimit > 0 && samples > sampleLimit) throw apiError('bad_data', `exceeded sample limit (${sampleLimit})`)
      for (let i = 0; i + 1 < block.starts.length; i++) {
        if (block.starts[i] === block.starts[i + 1]) continue
        writeSeries(out, labels.at(block.first + i), block, block.starts[i], block.starts[i + 1])
        if (out.at > maxBytes) throw tooLarge(maxBytes)
        if (pacer.due(block.starts[i + 1] - block.starts[i])) await pacer.pause()
      }
    }
    out.close(result)
  }
  await io.emit(Uint8Array.from(await encodeSnappy(out.bytes.subarray(0, out.at))))
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

async function answerChunks(source: SampleSource, { request, maxBytesInFrame, maxBytes }: ReadArgs, io: JobIo): Promise<void> {
  const frames = new FrameWriter(io, maxBytesInFrame)
  const pacer = new Pacer(io.signal)
  let held = 0
  for (const [index, query] of request.queries.entries()) {
    const { labels, blocks } = await select(source, query)
    // Series have to be sent in the order of their labels; those of the storage that come otherwise wait, compressed.
    const inOrder = isOrdered(labels)
    const waiting: { labels: Labels; chunks: Chunk[] }[] = []
    for await (const block of blocks()) {
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
