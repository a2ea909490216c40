/**
 * A sample block in a fraction of its memory, of which any sample can be read by itself: the samples of a series in miniblocks of 32, of which each has its first
 * time and its least value, and beside them, in as many bits as the widest takes, how far each sample is from those. Values that are no 32-bit integers stay
 * doubles. Made of blocks that have nothing but numbers at whole milliseconds; others stay as they are.
 */
import { type Integers, isIntegers } from 'svcdb/lib/columns'
import { RUN } from '../../memtable/runs.ts'
import { DecimalScale } from './decimal-scale.ts'
import { BLOCK_BYTES, type SampleBlock } from './sample-block.ts'
import { lowerBound } from './search.ts'

const MINIBLOCK_SHIFT = 5
const MINIBLOCK = 1 << MINIBLOCK_SHIFT
const MINIBLOCK_MASK = MINIBLOCK - 1
/** Bits of a miniblock's shape: the width of its times, of its values, and whether its values fall. */
const VALUE_WIDTH_SHIFT = 6
const WIDTH_MASK = 63
const FALLS = 1 << 12
const MAX_SPAN = 2 ** 31 - 1
/** A block that keeps more than this share of its size is not worth it: its series have a few samples each. */
const WORTH = 0.7
/** Numbers of a miniblock beside its bits: 14 bytes, and of a series 12. */
const MINIBLOCK_BYTES = 14
const SERIES_BYTES = 12

/** The head of an image: two doubles and some numbers. */
const IMAGE_TIMES_BYTES = 16
const IMAGE_NUMBERS = 6
const IMAGE_SPARSE = 1
const IMAGE_FALLS = 2

/** What a packed block is made of. */
interface PackedParts {
  series: Int32Array
  starts: Int32Array
  divisor: number | undefined
  sparse: true | undefined
  minTime: number
  maxTime: number
  falls: boolean
  firstMiniblocks: Int32Array
  origins: Int32Array
  bases: Int32Array
  places: Int32Array
  shapes: Uint16Array
  words: Int32Array
  doubles: Float64Array | undefined
}

export class PackedBlock {
  readonly series: Int32Array
  readonly starts: Int32Array
  readonly divisor: number | undefined
  readonly sparse: true | undefined
  readonly minTime: number
  readonly maxTime: number
  /** The values of some series fall somewhere; NaN counts as a fall. */
  readonly falls: boolean
  /** Each series' first miniblock. */
  private readonly firstMiniblocks: Int32Array
  /** Of each miniblock: milliseconds from minTime to its first sample, its least value, its first word, its shape. */
  private readonly origins: Int32Array
  private readonly bases: Int32Array
  private readonly places: Int32Array
  private readonly shapes: Uint16Array
  private readonly words: Int32Array
  private readonly doubles: Float64Array | undefined

  constructor(parts: PackedParts) {
    const { series, starts, divisor, sparse, minTime, maxTime, falls, firstMiniblocks, origins, bases, places, shapes, words, doubles } = parts
    this.series = series
    this.starts = starts
    this.divisor = divisor
    this.sparse = sparse
    this.minTime = minTime
    this.maxTime = maxTime
    this.falls = falls
    this.firstMiniblocks = firstMiniblocks
    this.origins = origins
    this.bases = bases
    this.places = places
    this.shapes = shapes
    this.words = words
    this.doubles = doubles
  }

  /** What `image` gave, one after the other. @param buffer whose memory is the block's. */
  static of(buffer: ArrayBuffer): PackedBlock {
    const [minTime, maxTime] = new Float64Array(buffer, 0, 2)
    const [runs, miniblocks, used, samples, divisor, flags] = new Int32Array(buffer, IMAGE_TIMES_BYTES, IMAGE_NUMBERS)
    let at = IMAGE_TIMES_BYTES + IMAGE_NUMBERS * 4
    const doubles = samples === 0 ? undefined : new Float64Array(buffer, at, samples)
    at += samples * 8
    const ints = (length: number): Int32Array => {
      const array = new Int32Array(buffer, at, length)
      at += length * 4
      return array
    }
    return new PackedBlock({
      minTime,
      maxTime,
      divisor: divisor === 0 ? undefined : divisor,
      sparse: (flags & IMAGE_SPARSE) === 0 ? undefined : true,
      falls: (flags & IMAGE_FALLS) !== 0,
      doubles,
      series: ints(runs),
      starts: ints(runs + 1),
      firstMiniblocks: ints(runs),
      origins: ints(miniblocks),
      bases: ints(miniblocks),
      places: ints(miniblocks),
      words: ints(used),
      shapes: new Uint16Array(buffer, at, miniblocks),
    })
  }

  /** All of it as bytes, a multiple of four. */
  image(): Uint8Array[] {
    const { minTime, maxTime, series, starts, firstMiniblocks, origins, bases, places, words, shapes, doubles, divisor, sparse, falls } = this
    const numbers = Int32Array.of(
      series.length,
      origins.length,
      words.length,
      doubles === undefined ? 0 : doubles.length,
      divisor ?? 0,
      (sparse === true ? IMAGE_SPARSE : 0) | (falls ? IMAGE_FALLS : 0),
    )
    const parts = [Float64Array.of(minTime, maxTime), numbers, ...(doubles === undefined ? [] : [doubles])]
    const rest = [series, starts, firstMiniblocks, origins, bases, places, words, shapes, ...((shapes.length & 1) === 0 ? [] : [new Uint16Array(1)])]
    return [...parts, ...rest].map(({ buffer, byteOffset, byteLength }) => new Uint8Array(buffer, byteOffset, byteLength))
  }

  get bytes(): number {
    const { series, origins, words, doubles } = this
    return BLOCK_BYTES + series.length * SERIES_BYTES + origins.length * MINIBLOCK_BYTES + words.length * 4 + (doubles === undefined ? 0 : doubles.length * 8)
  }

  /** A sample's time; of the series at place `run`, as in the others. */
  time(run: number, position: number): number {
    const { firstMiniblocks, starts, origins, places, shapes } = this
    const at = position - starts[run]
    const miniblock = firstMiniblocks[run] + (at >> MINIBLOCK_SHIFT)
    return this.minTime + origins[miniblock] + this.bits(places[miniblock], shapes[miniblock] & WIDTH_MASK, at & MINIBLOCK_MASK)
  }

  value(run: number, position: number): number {
    const { firstMiniblocks, starts, places, shapes, bases, divisor, doubles } = this
    if (doubles !== undefined) return doubles[position]
    const start = starts[run]
    const at = position - start
    const miniblock = firstMiniblocks[run] + (at >> MINIBLOCK_SHIFT)
    const shape = shapes[miniblock]
    const samples = Math.min(MINIBLOCK, starts[run + 1] - start - (at & ~MINIBLOCK_MASK))
    const place = places[miniblock] + wordsOf(samples, shape & WIDTH_MASK)
    const whole = (bases[miniblock] + this.bits(place, (shape >> VALUE_WIDTH_SHIFT) & WIDTH_MASK, at & MINIBLOCK_MASK)) | 0
    return divisor === undefined ? whole : whole / divisor
  }

  /** The first position of [from, to) whose time is not below `ms`. */
  timeBound(run: number, ms: number, from: number, to: number): number {
    if (from >= to) return from
    const { firstMiniblocks, starts, origins, places, shapes } = this
    const start = starts[run]
    const first = firstMiniblocks[run]
    const sought = ms - this.minTime
    // The last miniblock that begins below it has the bound, or it is where the next one begins.
    let low = first + ((from - start) >> MINIBLOCK_SHIFT)
    let high = first + ((to - 1 - start) >> MINIBLOCK_SHIFT) + 1
    const least = low
    while (low < high) {
      const middle = (low + high) >>> 1
      if (origins[middle] < sought) low = middle + 1
      else high = middle
    }
    if (low === least) return from
    const miniblock = low - 1
    const begin = start + ((miniblock - first) << MINIBLOCK_SHIFT)
    const width = shapes[miniblock] & WIDTH_MASK
    const place = places[miniblock]
    const offset = sought - origins[miniblock]
    let a = Math.max(from, begin)
    let b = Math.min(to, begin + MINIBLOCK)
    while (a < b) {
      const middle = (a + b) >>> 1
      if (this.bits(place, width, middle - begin) < offset) a = middle + 1
      else b = middle
    }
    return a
  }

  /** The first position after `after` and up to `to` from which on values may fall in its miniblock, less one: where falling is looked at; `to` when there is none. */
  nextFall(run: number, after: number, to: number): number {
    const { firstMiniblocks, starts, shapes } = this
    const start = starts[run]
    const first = firstMiniblocks[run]
    const last = first + ((to - start) >> MINIBLOCK_SHIFT)
    for (let miniblock = first + ((after + 1 - start) >> MINIBLOCK_SHIFT); miniblock <= last; miniblock++)
      if ((shapes[miniblock] & FALLS) !== 0) return Math.min(to, Math.max(after + 1, start + ((miniblock - first) << MINIBLOCK_SHIFT) - 1))
    return to
  }

  /** The last position of the miniblock of `position`. */
  endOfMiniblock(run: number, position: number): number {
    return this.starts[run] + ((position - this.starts[run]) | MINIBLOCK_MASK)
  }

  /** Copies samples [from, to). */
  unpack(run: number, from: number, to: number, times: Float64Array, values: Float64Array, at: number): void {
    const { firstMiniblocks, starts, origins, places, shapes, words, minTime, doubles } = this
    const start = starts[run]
    const samples = starts[run + 1] - start
    let out = at
    for (let position = from; position < to; ) {
      const inRun = position - start
      const inMiniblock = inRun & MINIBLOCK_MASK
      const miniblock = firstMiniblocks[run] + (inRun >> MINIBLOCK_SHIFT)
      const count = Math.min(MINIBLOCK - inMiniblock, to - position)
      const width = shapes[miniblock] & WIDTH_MASK
      unpackTo(words, places[miniblock], width, inMiniblock, count, minTime + origins[miniblock], times, out)
      if (doubles === undefined) {
        const place = places[miniblock] + wordsOf(Math.min(MINIBLOCK, samples - (inRun & ~MINIBLOCK_MASK)), width)
        this.unpackValues(miniblock, place, inMiniblock, count, values, out)
      } else for (let i = 0; i < count; i++) values[out + i] = doubles[position + i]
      position += count
      out += count
    }
  }

  /** All times, as an array of the block's samples. */
  unpackTimes(times: Float64Array): void {
    const { starts, series, firstMiniblocks, origins, places, shapes, words, minTime } = this
    for (let run = 0; run < series.length; run++) {
      const end = starts[run + 1]
      for (let from = starts[run], miniblock = firstMiniblocks[run]; from < end; from += MINIBLOCK, miniblock++)
        unpackTo(words, places[miniblock], shapes[miniblock] & WIDTH_MASK, 0, Math.min(MINIBLOCK, end - from), minTime + origins[miniblock], times, from)
    }
  }

  /** Values where runs are (memtable/runs.ts), not divided. @param room for what are integers, where they are. @returns it, or all of the doubles. */
  unpackValuesTo(runs: Int32Array, room: (length: number) => Int32Array): Int32Array | Float64Array {
    const { starts, series, firstMiniblocks, bases, places, shapes, words, doubles } = this
    if (doubles !== undefined) return doubles
    const values = room(starts[series.length])
    for (let r = 0, run = 0; r < runs.length; r += RUN) {
      const [first, to] = [runs[r + 1], runs[r + 2]]
      // Mostly they come in the order of the block.
      if (starts[run] > first) run = lowerBound(starts, first + 1) - 1
      while (starts[run + 1] <= first) run++
      const start = starts[run]
      const end = starts[run + 1]
      let from = start + ((first - start) & ~MINIBLOCK_MASK)
      for (let miniblock = firstMiniblocks[run] + ((from - start) >> MINIBLOCK_SHIFT); from < to; from += MINIBLOCK, miniblock++) {
        const count = Math.min(MINIBLOCK, end - from)
        const shape = shapes[miniblock]
        const place = places[miniblock] + wordsOf(count, shape & WIDTH_MASK)
        unpackInts(words, place, (shape >> VALUE_WIDTH_SHIFT) & WIDTH_MASK, count, bases[miniblock], values, from)
      }
    }
    return values
  }

  private unpackValues(miniblock: number, place: number, first: number, count: number, values: Float64Array, at: number): void {
    const { words, bases, shapes, divisor } = this
    unpackTo(words, place, (shapes[miniblock] >> VALUE_WIDTH_SHIFT) & WIDTH_MASK, first, count, bases[miniblock], values, at)
    if (divisor !== undefined && divisor !== 1) for (let i = at; i < at + count; i++) values[i] /= divisor
  }

  private bits(place: number, width: number, index: number): number {
    if (width === 0) return 0
    const { words } = this
    const bit = index * width
    const word = place + (bit >>> 5)
    const shift = bit & 31
    // Shifted in two steps: by 32 there is no shift.
    const both = (words[word] >>> shift) | ((words[word + 1] << 1) << (31 - shift))
    return width === 32 ? both >>> 0 : both & ((1 << width) - 1)
  }
}

function wordsOf(samples: number, width: number): number {
  return (samples * width + 31) >>> 5
}

/** Numbers that lie `count` from the `first` on, each with `base` added. */
function unpackTo(words: Int32Array, place: number, width: number, first: number, count: number, base: number, out: Float64Array, at: number): void {
  const end = at + count
  if (width === 0) {
    for (let i = at; i < end; i++) out[i] = base
    return
  }
  const mask = width === 32 ? -1 : (1 << width) - 1
  const bit = first * width
  let word = place + (bit >>> 5)
  let shift = bit & 31
  for (let i = at; i < end; i++) {
    const both = (words[word] >>> shift) | ((words[word + 1] << 1) << (31 - shift))
    out[i] = base + ((both & mask) >>> 0)
    shift += width
    word += shift >>> 5
    shift &= 31
  }
}

/** The same of integers, from the first on. */
function unpackInts(words: Int32Array, place: number, width: number, count: number, base: number, out: Int32Array, at: number): void {
  if (width === 0) {
    out.fill(base, at, at + count)
    return
  }
  const mask = width === 32 ? -1 : (1 << width) - 1
  let word = place
  let shift = 0
  for (let i = at; i < at + count; i++) {
    const both = (words[word] >>> shift) | ((words[word + 1] << 1) << (31 - shift))
    out[i] = base + (both & mask)
    shift += width
    word += shift >>> 5
    shift &= 31
  }
}

/** Makes packed blocks; keeps its memory from one to the next. */
export class Packer {
  firstMiniblocks = new Int32Array(0)
  origins = new Int32Array(0)
  bases = new Int32Array(0)
  places = new Int32Array(0)
  shapes = new Uint16Array(0)
  words = new Int32Array(0)
  miniblocks = 0
  used = 0
  falls = false
  private readonly offsets = new Int32Array(MINIBLOCK)
  private readonly scale = new DecimalScale()

  /** Undefined for a block that has more than numbers at whole milliseconds, or that would not become much smaller. The block's times and values can be used again then, its series and starts not. */
  pack(block: SampleBlock): PackedBlock | undefined {
    const { series, starts, times, values, rests, kinds, blobs, duplicates, minTime, maxTime } = block
    if (rests !== undefined || kinds !== undefined || blobs !== undefined || duplicates === true || maxTime - minTime > MAX_SPAN) return undefined
    const rows = starts[series.length] - starts[0]
    if (series.length === 0 || starts[0] !== 0) return undefined
    const small = rows * (8 + values.BYTES_PER_ELEMENT) * WORTH
    const divisor = isIntegers(values) ? block.divisor : this.scale.divisorOf(values, rows)
    const doubles = !isIntegers(values) && divisor === undefined
    // Before any work: what the miniblocks alone take.
    if (rows * (doubles ? 8 : 0) + (rows / MINIBLOCK + series.length) * MINIBLOCK_BYTES > small) return undefined
    this.begin(series.length, rows)
    for (let run = 0; run < series.length; run++)
      this.run(run, starts[run], starts[run + 1], times, divisor === undefined || isIntegers(values) ? values : this.scale.numbers, minTime)
    const { miniblocks } = this
    const packed = new PackedBlock({
      series,
      starts,
      divisor,
      sparse: block.sparse,
      minTime,
      maxTime,
      falls: this.falls,
      firstMiniblocks: this.firstMiniblocks.slice(0, series.length),
      origins: this.origins.slice(0, miniblocks),
      bases: this.bases.slice(0, miniblocks),
      places: this.places.slice(0, miniblocks),
      shapes: this.shapes.slice(0, miniblocks),
      // Of the last miniblock a word more may be looked at.
      words: this.words.slice(0, this.used + 1),
      doubles: doubles ? (values as Float64Array).slice(0, rows) : undefined,
    })
    return packed.bytes > small ? undefined : packed
  }

  private begin(series: number, rows: number): void {
    const miniblocks = Math.ceil(rows / MINIBLOCK) + series
    if (this.firstMiniblocks.length < series) this.firstMiniblocks = new Int32Array(series)
    if (this.origins.length < miniblocks) {
      this.origins = new Int32Array(miniblocks)
      this.bases = new Int32Array(miniblocks)
      this.places = new Int32Array(miniblocks)
      this.shapes = new Uint16Array(miniblocks)
    }
    // At most 32 bits each, and a part of a word for each of both lists of a miniblock.
    if (this.words.length < (rows + miniblocks) * 2 + 1) this.words = new Int32Array((rows + miniblocks) * 2 + 1)
    this.miniblocks = 0
    this.used = 0
    this.falls = false
  }

  private run(run: number, start: number, end: number, times: Float64Array, values: Float64Array | Integers, minTime: number): void {
    const { offsets } = this
    this.firstMiniblocks[run] = this.miniblocks
    for (let from = start; from < end; from += MINIBLOCK) {
      const count = Math.min(MINIBLOCK, end - from)
      const miniblock = this.miniblocks++
      const origin = times[from]
      this.origins[miniblock] = origin - minTime
      this.places[miniblock] = this.used
      const timeWidth = 32 - Math.clz32(times[from + count - 1] - origin)
      for (let i = 0; i < count; i++) offsets[i] = times[from + i] - origin
      this.put(count, timeWidth)
      let falls = false
      let before = from === start ? values[from] : values[from - 1]
      let [least, most] = [values[from], values[from]]
      for (let i = from; i < from + count; i++) {
        const value = values[i]
        if (!(value >= before)) falls = true
        before = value
        if (value < least) least = value
        if (value > most) most = value
      }
      let valueWidth = 0
      if (isIntegers(values)) {
        valueWidth = 32 - Math.clz32(most - least)
        for (let i = 0; i < count; i++) offsets[i] = (values[from + i] - least) | 0
        this.put(count, valueWidth)
        this.bases[miniblock] = least
      }
      if (falls) this.falls = true
      this.shapes[miniblock] = timeWidth | (valueWidth << VALUE_WIDTH_SHIFT) | (falls ? FALLS : 0)
    }
  }

  /** The first offsets, in so many bits each. */
  private put(count: number, width: number): void {
    if (width === 0) return
    const { offsets, words } = this
    let word = this.used
    let bits = 0
    let shift = 0
    for (let i = 0; i < count; i++) {
      const offset = offsets[i]
      bits |= offset << shift
      shift += width
      if (shift > 31) {
        words[word++] = bits
        shift -= 32
        bits = shift === 0 ? 0 : offset >>> (width - shift)
      }
    }
    if (shift > 0) words[word++] = bits
    this.used = word
  }
}
