/** What an expression came to, as the member `data` of an answer without its end: `{"resultType":..,"result":..`. */
import type { MatrixValue, SampleBlock, ScalarValue, Steps, StringValue, VectorValue } from '../eval/value.ts'
import { FLOAT, HISTOGRAM, SAMPLE_HISTOGRAM } from '../eval/value.ts'
import type { FloatHistogram } from '../histogram/float-histogram.ts'
import type { Labels } from '../labels.ts'
import type { AnswerStream } from './answer-stream.ts'
import { type JsonWriter, StepTexts } from './json-writer.ts'
import { type OrderedSeries, orderOf } from './series-order.ts'

/** `,[t,"1"]` of a time in this century. */
const MIN_POINT_BYTES = 17
/** Of a point of any time and value. */
const MOST_POINT_BYTES = 50
/** Of one that is a histogram, and of each of its buckets. */
const MOST_HISTOGRAM_BYTES = 300
const MOST_BUCKET_BYTES = 100
/** Of a character of a label, and of a pair beside its texts. */
const MOST_CHAR_BYTES = 6
const PAIR_BYTES = 6
/** Of a series beside its labels and points. */
const SERIES_BYTES = 50
/** Labels of a series of an instant vector are not looked at to tell their size: they are taken to have no more. */
const USUAL_LABELS_BYTES = 4096
/** Points between two looks at the answer's size. */
const SLICE = 1024

const FLOATS = [FLOAT]
const FLOATS_AND_HISTOGRAMS = [FLOAT, HISTOGRAM]

interface Written {
  series: number
  /** Some series were left out at the limit. */
  truncated: boolean
}

/** @param limit series; those that come first are kept. */
export async function writeResult(
  out: AnswerStream,
  value: ScalarValue | StringValue | VectorValue | MatrixValue,
  steps: Steps,
  instant: boolean,
  limit: number,
): Promise<Written> {
  switch (value.type) {
    case 'string':
      out.json.raw('{"resultType":"string","result":[')
      out.json.room(40)
      out.json.time(steps.start)
      out.json.raw(',')
      out.json.string(value.value)
      out.json.raw(']')
      return { series: 0, truncated: false }
    case 'scalar':
      return instant ? writeScalar(out, value, steps) : writeScalars(out, value, steps)
    case 'vector':
      return instant ? writeVector(out, value, steps.start, limit) : writeSteps(out, value, steps, limit)
    case 'matrix':
      return writeSamples(out, value, limit)
  }
}

function writeScalar({ json }: AnswerStream, value: ScalarValue, steps: Steps): Written {
  json.raw('{"resultType":"scalar","result":')
  json.point(steps.start, value.values[0])
  return { series: 0, truncated: false }
}

/** Over a range, a scalar is a series without labels. */
async function writeScalars(out: AnswerStream, { values }: ScalarValue, steps: Steps): Promise<Written> {
  out.expect(values.length * MIN_POINT_BYTES)
  return out.sized(values.length * MOST_POINT_BYTES, (out) => writeScalarPoints(out, values, steps))
}

async function writeScalarPoints(out: AnswerStream, values: Float64Array, steps: Steps): Promise<Written> {
  const { json } = out
  json.raw('{"resultType":"matrix","result":[{"metric":{},"values":[')
  for (let t = 0; t < steps.count; t++) {
    if (t > 0) json.raw(',')
    json.point(steps.start + t * steps.interval, values[t])
    if (out.full) await out.flush()
  }
  json.raw(']}]')
  return { series: 1, truncated: false }
}

async function writeVector(out: AnswerStream, value: VectorValue, time: number, limit: number): Promise<Written> {
  const series = Math.min(value.kinds.length, limit) * (SERIES_BYTES + USUAL_LABELS_BYTES + MOST_POINT_BYTES)
  return out.sized(series + histogramsBytes(value.histograms), (out) => writeVectorPoints(out, value, time, limit))
}

async function writeVectorPoints(out: AnswerStream, value: VectorValue, time: number, limit: number): Promise<Written> {
  const { json } = out
  const { kinds, values, histograms, labels } = value
  json.raw('{"resultType":"vector","result":[')
  let series = 0
  for (let i = 0; i < kinds.length; i++) {
    const kind = kinds[i]
    if (kind !== FLOAT && kind !== HISTOGRAM) continue
    if (series === limit) {
      json.raw(']')
      return { series, truncated: true }
    }
    json.raw(series++ === 0 ? '{"metric":' : ',{"metric":')
    writeLabels(json, labels.at(i))
    if (kind === FLOAT) {
      json.raw(',"value":')
      json.point(time, values[i])
    } else {
      json.raw(',"histogram":')
      writeHistogramPoint(json, time, histograms?.[i])
    }
    json.raw('}')
    if (out.full) await out.flush()
  }
  json.raw(']')
  return { series, truncated: false }
}

async function writeSteps(out: AnswerStream, value: VectorValue, steps: Steps, limit: number): Promise<Written> {
  const { count } = steps
  const { kinds, histograms } = value
  const { list: kept, truncated } = orderOf(value.labels, (series) => hasPoint(kinds, series * count, (series + 1) * count), limit)
  let points = 0
  for (let place = 0; place < kept.length; place++) {
    const first = kept[place].series * count
    for (let at = first; at < first + count; at++) if (kinds[at] !== 0) points++
  }
  out.expect(points * MIN_POINT_BYTES)
  await out.sized(labelsBytes(kept) + points * MOST_POINT_BYTES + histogramsBytes(histograms), (out) => writeStepPoints(out, value, steps, kept))
  return { series: kept.length, truncated }
}

async function writeStepPoints(out: AnswerStream, value: VectorValue, { start, interval, count }: Steps, kept: readonly OrderedSeries[]): Promise<void> {
  const { json } = out
  const { kinds, values, histograms } = value
  const held = histograms === undefined ? FLOATS : FLOATS_AND_HISTOGRAMS
  const times = new StepTexts(start, interval, count)
  json.raw('{"resultType":"matrix","result":[')
  for (let place = 0; place < kept.length; place++) {
    const { series, labels } = kept[place]
    json.raw(place === 0 ? '{"metric":' : ',{"metric":')
    writeLabels(json, labels)
    const base = series * count
    for (let kind = 0; kind < held.length; kind++) {
      const wanted = held[kind]
      let first = true
      for (let from = 0; from < count; from += SLICE) {
        for (let t = from; t < Math.min(from + SLICE, count); t++) {
          if (kinds[base + t] !== wanted) continue
          json.raw(first ? (wanted === FLOAT ? ',"values":[' : ',"histograms":[') : ',')
          first = false
          if (wanted === FLOAT) json.pointAt(times, t, values, base + t)
          else writeHistogramPoint(json, start + t * interval, histograms?.[base + t])
        }
        if (out.full) await out.flush()
      }
      if (!first) json.raw(']')
    }
    json.raw('}')
  }
  json.raw(']')
}

function labelsBytes(kept: readonly OrderedSeries[]): number {
  let bytes = SERIES_BYTES * kept.length
  for (let place = 0; place < kept.length; place++) {
    const { pairs } = kept[place].labels
    for (let i = 0; i < pairs.length; i++) bytes += PAIR_BYTES + pairs[i].length * MOST_CHAR_BYTES
  }
  return bytes
}

function histogramsBytes(histograms: readonly (FloatHistogram | undefined)[] | undefined): number {
  let bytes = 0
  for (const histogram of histograms ?? [])
    if (histogram !== undefined) bytes += MOST_HISTOGRAM_BYTES + (histogram.positive.counts.length + histogram.negative.counts.length) * MOST_BUCKET_BYTES
  return bytes
}

function hasPoint(kinds: Uint8Array, from: number, to: number): boolean {
  for (let at = from; at < to; at++) if (kinds[at] !== 0) return true
  return false
}

/** Raw samples, as an instant query for a range vector gives them. */
async function writeSamples(out: AnswerStream, value: MatrixValue, limit: number): Promise<Written> {
  const blocks: SampleBlock[] = []
  const blockOf = new Int32Array(value.labels.length).fill(-1)
  let most = 0
  for await (const block of value.blocks()) {
    for (let i = 0; i + 1 < block.starts.length; i++) if (block.starts[i] < block.starts[i + 1]) blockOf[block.first + i] = blocks.length
    out.expect(block.times.length * MIN_POINT_BYTES)
    blocks.push(block)
    most += block.times.length * MOST_POINT_BYTES + histogramsBytes(block.histograms)
  }
  const { list: kept, truncated } = orderOf(value.labels, (series) => blockOf[series] !== -1, limit)
  await out.sized(labelsBytes(kept) + most, (out) => writeSeriesSamples(out, kept, (series) => blocks[blockOf[series]]))
  return { series: kept.length, truncated }
}

async function writeSeriesSamples(out: AnswerStream, kept: readonly OrderedSeries[], blockOf: (series: number) => SampleBlock): Promise<void> {
  const { json } = out
  json.raw('{"resultType":"matrix","result":[')
  for (let place = 0; place < kept.length; place++) {
    const { series, labels } = kept[place]
    json.raw(place === 0 ? '{"metric":' : ',{"metric":')
    writeLabels(json, labels)
    const { first, starts, times, values, kinds, histograms } = blockOf(series)
    const from = starts[series - first]
    const to = starts[series - first + 1]
    for (const histogram of kinds === undefined ? [false] : [false, true]) {
      let begun = false
      for (let at = from; at < to; at++) {
        if (kinds !== undefined && (kinds[at] === SAMPLE_HISTOGRAM) !== histogram) continue
        json.raw(begun ? ',' : histogram ? ',"histograms":[' : ',"values":[')
        begun = true
        if (histogram) writeHistogramPoint(json, times[at], histograms?.[at])
        else json.point(times[at], values[at])
        if (at % SLICE === 0 && out.full) await out.flush()
      }
      if (begun) json.raw(']')
    }
    json.raw('}')
    if (out.full) await out.flush()
  }
  json.raw(']')
}

function writeHistogramPoint(json: JsonWriter, time: number, histogram: FloatHistogram | undefined): void {
  if (histogram === undefined) throw new Error('a cell that holds a histogram has none')
  json.raw('[')
  json.room(40)
  json.time(time)
  json.raw(',')
  json.raw(histogram.toJsonText())
  json.raw(']')
}

export function writeLabels(json: JsonWriter, { pairs }: Labels): void {
  json.raw('{')
  for (let i = 0; i < pairs.length; i += 2) {
    if (i > 0) json.raw(',')
    json.string(pairs[i])
    json.raw(':')
    json.string(pairs[i + 1])
  }
  json.raw('}')
}
