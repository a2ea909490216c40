/** A row group as a sample block: its series and times are decoded once for all fields, the values of a field are kept as they are stored. */
import { type Integers, SAMPLE_STALE } from 'svcdb/lib/columns'
import { PageFault } from '../../parquet/page-fault.ts'
import type { PackedBlock } from './packed-block.ts'
import { BLOCK_BYTES, EDGES_BYTES, NAN_HIGH, type SampleBlock, STALE_LOW, zoneBytes } from './sample-block.ts'
import { lowerBound } from './search.ts'

/** Series and times of a row group's rows; of all of them, but for `sparse`. In a shared table runs are ordered by measurement, then by series. */
export interface Frame extends Omit<SampleBlock, 'values' | 'divisor' | 'kinds' | 'blobs'> {
  /** Of each series, in a shared table. */
  measurements?: Int32Array
  /** What tells times by itself: reading `times` unpacks all of them. */
  packed?: PackedBlock
}

export interface PageBlock extends Frame, SampleBlock {}

/** Of rows that have no value of the field. */
export const NO_SAMPLES: SampleBlock = {
  series: new Int32Array(0),
  starts: new Int32Array(1),
  times: new Float64Array(0),
  values: new Float64Array(0),
  sparse: true,
  minTime: Number.POSITIVE_INFINITY,
  maxTime: Number.NEGATIVE_INFINITY,
}

interface FrameRows {
  rows: number
  series: Int32Array
  measurements: Int32Array | undefined
  times: Float64Array
  rests: Int32Array
  minTime: number
  maxTime: number
}

/** @param rows whose arrays are used again but for `times`. @throws PageFault for rows that are not in order. */
export function frameOf({ rows, series, measurements, times, rests, minTime, maxTime }: FrameRows): Frame {
  const runs = measurements === undefined ? countRuns(series, rows) : countOwnedRuns(series, measurements, rows)
  const ownSeries = new Int32Array(runs)
  const starts = new Int32Array(runs + 1)
  const owners = measurements === undefined ? undefined : new Int32Array(runs)
  for (let run = 0, i = 0; run < runs; run++) {
    if (i > 0 && !follows(series, measurements, i)) throw new PageFault('the rows of a row group do not come in order')
    ownSeries[run] = series[i]
    if (owners !== undefined) owners[run] = (measurements as Int32Array)[i]
    starts[run] = i
    i = endOfRun(series, measurements, i, rows)
  }
  starts[runs] = rows
  const frame: Frame = { series: ownSeries, starts, times, minTime, maxTime }
  if (owners !== undefined) frame.measurements = owners
  if (anyOf(rests, rows)) frame.rests = rests.slice(0, rows)
  if (!ascend(starts, times)) frame.duplicates = true
  return frame
}

function countRuns(series: Int32Array, rows: number): number {
  let runs = rows === 0 ? 0 : 1
  for (let i = 1; i < rows; i++) if (series[i] !== series[i - 1]) runs++
  return runs
}

function countOwnedRuns(series: Int32Array, measurements: Int32Array, rows: number): number {
  let runs = rows === 0 ? 0 : 1
  for (let i = 1; i < rows; i++) if (series[i] !== series[i - 1] || measurements[i] !== measurements[i - 1]) runs++
  return runs
}

function endOfRun(series: Int32Array, measurements: Int32Array | undefined, first: number, rows: number): number {
  const own = series[first]
  let i = first + 1
  if (measurements === undefined) while (i < rows && series[i] === own) i++
  else while (i < rows && series[i] === own && measurements[i] === measurements[first]) i++
  return i
}

/** Whether row i, the first of a run, may come after the row before it. */
function follows(series: Int32Array, measurements: Int32Array | undefined, i: number): boolean {
  if (measurements !== undefined && measurements[i] !== measurements[i - 1]) return measurements[i] > measurements[i - 1]
  return series[i] > series[i - 1]
}

function anyOf(numbers: Int32Array, count: number): boolean {
  for (let i = 0; i < count; i++) if (numbers[i] !== 0) return true
  return false
}

function ascend(starts: Int32Array, times: Float64Array): boolean {
  for (let run = 0; run + 1 < starts.length; run++) {
    let before = Number.NEGATIVE_INFINITY
    for (let i = starts[run]; i < starts[run + 1]; i++) {
      const time = times[i]
      if (!(before < time)) return false
      before = time
    }
  }
  return true
}

/** With the edges of each series (row-runs.ts), which are made when all of them are read. */
export function frameBytes({ series, starts, rests }: Frame): number {
  const rows = starts[series.length]
  return BLOCK_BYTES + series.length * (12 + EDGES_BYTES) + rows * (rests === undefined ? 8 : 12)
}

/** The block of a column that has a value in every row. */
export function blockOf(frame: Frame, values: Integers | Float64Array, divisor: number | undefined): PageBlock {
  return divisor === undefined ? { ...frame, values } : { ...frame, values, divisor }
}

/** The block of a column with nulls: arrays of its own, of the rows that have a value. @param validity a byte a row. */
export function compactBlock(frame: Frame, values: Int32Array | Float64Array, divisor: number | undefined, validity: Uint8Array): PageBlock {
  const { series, starts, times, rests, measurements } = frame
  const rows = starts[series.length]
  let count = 0
  for (let i = 0; i < rows; i++) count += validity[i]
  const ownSeries = new Int32Array(series.length)
  const ownStarts = new Int32Array(series.length + 1)
  const owners = measurements === undefined ? undefined : new Int32Array(series.length)
  const ownTimes = new Float64Array(count)
  const ownRests = rests === undefined ? undefined : new Int32Array(count)
  const ints = values instanceof Int32Array
  // Doubles by halves: a copy as double might change a NaN.
  const from = ints ? values : new Int32Array(values.buffer, values.byteOffset, values.length * 2)
  const into = new Int32Array(ints ? count : count * 2)
  let n = 0
  let runs = 0
  for (let run = 0; run < series.length; run++) {
    const before = n
    for (let i = starts[run]; i < starts[run + 1]; i++) {
      if (validity[i] === 0) continue
      ownTimes[n] = times[i]
      if (ownRests !== undefined) ownRests[n] = (rests as Int32Array)[i]
      if (ints) into[n] = from[i]
      else {
        into[n * 2] = from[i * 2]
        into[n * 2 + 1] = from[i * 2 + 1]
      }
      n++
    }
    if (n === before) continue
    ownSeries[runs] = series[run]
    if (owners !== undefined) owners[runs] = (measurements as Int32Array)[run]
    ownStarts[runs++] = before
  }
  ownStarts[runs] = n
  const own: Frame = { ...frame, sparse: true, series: ownSeries.slice(0, runs), starts: ownStarts.slice(0, runs + 1), times: ownTimes }
  if (owners !== undefined) own.measurements = owners.slice(0, runs)
  if (ownRests !== undefined) own.rests = ownRests
  return blockOf(own, ints ? into : new Float64Array(into.buffer), divisor)
}

/** Marks staleness markers among doubles. */
export function withKinds(block: PageBlock): PageBlock {
  const { values, starts, series } = block
  const rows = starts[series.length]
  const halves = new Int32Array(values.buffer, values.byteOffset, rows * 2)
  let kinds: Uint8Array | undefined
  for (let i = 0; i < rows; i++) {
    if (halves[i * 2] !== STALE_LOW || (halves[i * 2 + 1] & NAN_HIGH) !== NAN_HIGH) continue
    kinds ??= new Uint8Array(rows)
    kinds[i] = SAMPLE_STALE
  }
  return kinds === undefined ? block : { ...block, kinds }
}

/** The part of a measurement; undefined when it has none. @param measurement undefined in a table of one. */
export function partOf<F extends Frame>(block: F, measurement: number | undefined): F | undefined {
  const { measurements, series, starts } = block
  if (measurement === undefined || measurements === undefined) return block
  const from = lowerBound(measurements, measurement)
  const to = lowerBound(measurements, measurement + 1, from)
  if (from === to) return undefined
  return { ...block, series: series.subarray(from, to), starts: starts.subarray(from, to + 1) }
}

/** What a block takes beside its frame. */
export function valueBytes(block: PageBlock, frame: Frame): number {
  const own = block.times === frame.times ? 0 : frameBytes(block)
  const rows = block.starts[block.series.length]
  return BLOCK_BYTES + own + rows * (block.values.BYTES_PER_ELEMENT + (block.kinds === undefined ? 0 : 1)) + zoneBytes(block.values)
}
