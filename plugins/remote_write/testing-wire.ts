/** For tests and benches: both messages written plainly, field by field, and read by nobody but the decoder. */
import { Message, zigzag } from 'svcdb/testkit'

export interface WireHistogram {
  ms?: number
  sum?: number
  sumBits?: bigint
  countInt?: number
  countFloat?: number
  schema?: number
  zeroThreshold?: number
  zeroInt?: number
  zeroFloat?: number
  negativeSpans?: [number, number][]
  negativeDeltas?: number[]
  negativeCounts?: number[]
  positiveSpans?: [number, number][]
  positiveDeltas?: number[]
  positiveCounts?: number[]
  reset?: number
  bounds?: number[]
}

export interface WireSample {
  ms: number | bigint
  value: number | bigint
}

export interface WireExemplar {
  labels: [string, string][]
  value: number
  ms: number
}

export interface WireSeries {
  labels: [string | Uint8Array, string | Uint8Array][]
  samples?: WireSample[]
  histograms?: WireHistogram[]
  /** A number: so many, of the epoch. */
  exemplars?: number | WireExemplar[]
  metadata?: { type: number; help: string; unit: string }
}

interface WireMetadata {
  type: number
  metric: string
  help: string
  unit: string
}

export const STALE = 0x7ff0000000000002n

export function sampleOf({ ms, value }: WireSample): Buffer {
  const out = new Message()
  // proto3 leaves out what is zero; -0 has a bit set.
  if (typeof value === 'bigint' || !Object.is(value, 0)) out.double(1, value)
  if (BigInt(ms) !== 0n) out.int(2, ms)
  return out.done()
}

export function histogramOf(h: WireHistogram): Buffer {
  const out = new Message()
  if (h.countInt !== undefined) out.int(1, h.countInt)
  if (h.countFloat !== undefined) out.double(2, h.countFloat)
  out.double(3, h.sumBits ?? h.sum ?? 0).sint(4, h.schema ?? 0)
  out.double(5, h.zeroThreshold ?? 0)
  if (h.zeroInt !== undefined) out.int(6, h.zeroInt)
  if (h.zeroFloat !== undefined) out.double(7, h.zeroFloat)
  const side = (spans: [number, number][] = [], deltas: number[] = [], counts: number[] = [], first: number) => {
    for (const [offset, length] of spans) out.put(first, new Message().sint(1, offset).int(2, length).done())
    if (deltas.length > 0)
      out.put(
        first + 1,
        packed(deltas, (m, n) => m.varint(zigzag(n))),
      )
    if (counts.length > 0) out.put(first + 2, doubles(counts))
  }
  side(h.negativeSpans, h.negativeDeltas, h.negativeCounts, 8)
  side(h.positiveSpans, h.positiveDeltas, h.positiveCounts, 11)
  if (h.reset !== undefined) out.int(14, h.reset)
  out.int(15, h.ms ?? 0)
  if (h.bounds !== undefined) out.put(16, doubles(h.bounds))
  return out.done()
}

function packed<T>(values: readonly T[], write: (message: Message, value: T) => void): Buffer {
  const out = new Message()
  for (const value of values) write(out, value)
  return out.done()
}

function doubles(values: readonly number[]): Buffer {
  const out = Buffer.alloc(values.length * 8)
  for (const [i, value] of values.entries()) out.writeDoubleLE(value, i * 8)
  return out
}

export function labelOf([name, value]: WireSeries['labels'][number]): Buffer {
  return new Message().put(1, name).put(2, value).done()
}

function exemplarsOf(exemplars: number | WireExemplar[]): WireExemplar[] {
  if (typeof exemplars !== 'number') return exemplars
  return Array.from({ length: exemplars }, (_, i) => ({ labels: [['trace_id', `t${i}`]], value: 1, ms: 0 }))
}

export function writeRequest(series: readonly WireSeries[], metadata: readonly WireMetadata[] = []): Buffer {
  const out = new Message()
  for (const { labels, samples = [], histograms = [], exemplars = 0 } of series) {
    const one = new Message()
    for (const label of labels) one.put(1, labelOf(label))
    for (const sample of samples) one.put(2, sampleOf(sample))
    for (const { labels, value, ms } of exemplarsOf(exemplars)) {
      const exemplar = new Message()
      for (const label of labels) exemplar.put(1, labelOf(label))
      one.put(3, exemplar.double(2, value).int(3, ms).done())
    }
    for (const histogram of histograms) one.put(4, histogramOf(histogram))
    out.put(1, one.done())
  }
  for (const { type, metric, help, unit } of metadata) out.put(3, new Message().int(1, type).put(2, metric).put(4, help).put(5, unit).done())
  return out.done()
}

export function writeRequestV2(series: readonly WireSeries[]): Buffer {
  const symbols = new Map<string, number>([['', 0]])
  const texts: (string | Uint8Array)[] = ['']
  const ref = (text: string | Uint8Array): number => {
    const key = typeof text === 'string' ? text : `bytes ${Buffer.from(text).toString('hex')}`
    const known = symbols.get(key)
    if (known !== undefined) return known
    symbols.set(key, texts.length)
    return texts.push(text) - 1
  }
  const rest = new Message()
  for (const { labels, samples = [], histograms = [], exemplars = 0, metadata } of series) {
    const one = new Message().put(
      1,
      packed(labels.flat(), (m, text) => m.varint(ref(text))),
    )
    for (const sample of samples) one.put(2, sampleOf(sample))
    for (const histogram of histograms) one.put(3, histogramOf(histogram))
    for (const { labels, value, ms } of exemplarsOf(exemplars)) {
      const refs = packed(labels.flat(), (m, text) => m.varint(ref(text)))
      one.put(4, new Message().put(1, refs).double(2, value).int(3, ms).done())
    }
    if (metadata !== undefined) one.put(5, new Message().int(1, metadata.type).int(3, ref(metadata.help)).int(4, ref(metadata.unit)).done())
    rest.put(5, one.done())
  }
  const out = new Message()
  for (const text of texts) out.put(4, text)
  return out.raw(rest.done()).done()
}
