/**
 * io.prometheus.write.v2.Request, remote write 2.0, from bytes to columns. A series is recognised by the numbers of its labels' symbols.
 */
import { SvcError } from 'svcdb/lib/errors'
import type { Work } from 'svcdb/lib/event-loop'
import { BYTES, type ProtobufReader } from 'svcdb/lib/protobuf'
import { labelsV2, readExemplars, seriesV2 } from './exemplars.ts'
import { type LabelSet, MAX_LABELS } from './label-set.ts'
import { labelsFirst } from './labels-first.ts'
import { familyOf, MAX_TEXT_BYTES, METRIC_TYPES, type NoteMetadata } from './metadata.ts'
import type { Metric } from './metric.ts'
import type { SampleWriter } from './sample-writer.ts'
import { type BodyFields, LABELS, type SeriesBody, SLICE_BYTES } from './series-body.ts'
import type { SeriesCache } from './series-cache.ts'
import { NO_NUMBER, type Symbols } from './symbols.ts'

export const FIELDS_V2: BodyFields = { histograms: 3, exemplars: 4, metadata: 5 }

const SYMBOLS = 4
const TIMESERIES = 5
/** One by one; a series with more of them refuses the request, and not itself. */
const MAX_SURPLUS = 65_536
/** Between two places where the work can be interrupted. */
const SLICE_FIELDS = 2048
const SLICE_SERIES = 64
/** As many as the largest request of samples that all begin a series would have for their values. */
const MAX_SYMBOLS = 2 ** 20
/** Of the labels of series that are not known yet, those that are refused among them: each reference says its symbol once more. */
const MAX_NEW_BYTES = 268_435_456
/** Bytes, and so at most as many references, that the labels of a series may take: no engine takes more labels than fit. */
const MAX_REFS = MAX_LABELS * 2 * 5

export class RequestV2 {
  private readonly reader: ProtobufReader
  private readonly cache: SeriesCache
  private readonly labels: LabelSet
  private readonly body: SeriesBody
  private readonly writer: SampleWriter
  private readonly symbols: Symbols
  /** The references of the series at hand, and the key made of them. */
  private refs = new Int32Array(64)
  private refCount = 0
  private key = new Int32Array(65)
  private keyBytes = new Uint8Array(this.key.buffer)
  private keyView = new DataView(this.key.buffer)
  /** Whether all symbols have numbers. */
  private keyed = true
  private tooMany = false
  /** Bytes of labels that were taken apart since the work could last be interrupted, and in this request. */
  private taken = 0
  private takenInAll = 0
  /** References beyond those. */
  private surplus = 0
  /** Where the packed references lie in the message that refs[0 ...] were last read of, their bytes (0 = unknown) and their number: all have numbers. */
  private packedEnd = 0
  private packedBytes = 0
  private packedRefs = 0
  private sameStart = 0
  private sameEnd = 0
  private sameTail = 0
  private note!: NoteMetadata
  private write = 0

  constructor(reader: ProtobufReader, cache: SeriesCache, labels: LabelSet, body: SeriesBody, writer: SampleWriter, symbols: Symbols) {
    this.reader = reader
    this.cache = cache
    this.labels = labels
    this.body = body
    this.writer = writer
    this.symbols = symbols
  }

  /** @param write its number. @throws BAD_REQUEST for what is no such message. */
  *read(message: Uint8Array, note: NoteMetadata, write: number): Work<void> {
    const { reader, writer, symbols } = this
    this.note = note
    this.write = write
    this.cache.begin()
    this.packedBytes = this.taken = this.takenInAll = 0
    reader.begin(message)
    yield* this.readSymbols()
    reader.begin(message)
    const { end } = reader
    let position = 0
    let left = SLICE_SERIES
    let far = SLICE_BYTES
    while (reader.next()) {
      if (--left === 0 || reader.at > far || this.taken > SLICE_BYTES) {
        yield
        this.taken = 0
        this.cache.begin()
        left = SLICE_SERIES
        far = reader.at + SLICE_BYTES
      }
      if (reader.field !== TIMESERIES) {
        reader.skip()
        continue
      }
      writer.position = position++
      const start = reader.span()
      const after = reader.at
      const more = this.series(start, after)
      if (more !== undefined) yield* more
      reader.at = after
      reader.end = end
    }
    symbols.release()
  }

  /** Wherever they stand in the message: the format has no order. */
  private *readSymbols(): Work<void> {
    const { reader, symbols } = this
    symbols.begin(reader.bytes, reader.view)
    for (let fields = 1; reader.next(); fields++) {
      if (fields % SLICE_FIELDS === 0) yield
      if (reader.field !== SYMBOLS) {
        reader.skip()
        continue
      }
      const start = reader.span()
      if (symbols.count === 0 && start < reader.at) throw reader.fault('the first symbol is not the empty string', start)
      if (symbols.count === MAX_SYMBOLS) throw reader.fault(`there are more than ${MAX_SYMBOLS} symbols`, start)
      symbols.push(start, reader.at)
    }
    if (symbols.makeRoom()) this.cache.clear()
  }

  /** @returns what is left to do: its samples when they are many. */
  private series(start: number, end: number): Work<void> | undefined {
    const { cache, body, writer } = this
    const labelsEnd = this.readRefs(start, end)
    body.scan(labelsEnd, end, writer.room)
    if (body.scattered) return this.reordered(start, end)
    writer.outcome.exemplars += body.exemplars
    if (body.exemplars > 0 && writer.wantsExemplars) this.exemplars(labelsEnd, end)
    const { samples, histograms, metadataStart, metadataEnd } = body
    if (samples + histograms === 0) return // nothing to store, so there is no series to begin
    writer.offer(samples + histograms)
    if (!this.find() && !this.intern(samples, histograms)) return
    if (metadataStart >= 0 && cache.metric.saidIn !== this.write) this.metadata(metadataStart, metadataEnd, cache.metric)
    const { metric, series } = cache
    const at = body.read(labelsEnd, end, metric, series)
    return at < end ? this.further(at, end, metric, series) : undefined
  }

  private exemplars(start: number, end: number): void {
    const { reader, symbols, writer, refs, refCount } = this
    if (this.tooMany) return
    readExemplars(
      reader,
      [start, end, FIELDS_V2.exemplars],
      () => seriesV2(refs.subarray(0, refCount), symbols),
      () => labelsV2(reader, symbols),
      writer.outcome,
    )
  }

  private *further(start: number, end: number, metric: Metric, series: number): Work<void> {
    let at = start
    while (at < end) {
      yield
      at = this.body.read(at, end, metric, series)
    }
    this.cache.begin()
  }

  /** Reads the references at `start`, makes the key of them, and returns where they end. */
  private readRefs(start: number, end: number): number {
    const { reader } = this
    this.refCount = this.surplus = 0
    this.keyed = true
    this.tooMany = false
    reader.at = start
    reader.end = end
    for (;;) {
      const at = reader.at
      if (!reader.next() || reader.field !== LABELS) return at
      if (reader.wire !== BYTES) {
        this.pushRef(reader.uint32())
        continue
      }
      const from = reader.span()
      this.readPacked(from, reader.at)
      reader.end = end
    }
  }

  private readPacked(start: number, end: number): void {
    const { reader } = this
    const { bytes } = reader
    const { numbers, count } = this.symbols
    if (this.refCount + end - start > MAX_REFS) {
      this.tooMany = true
      return
    }
    // A reference takes a byte at least: all that follow have room.
    if (this.refCount + end - start > this.refs.length) this.grow(this.refCount + end - start)
    const { refs, key } = this
    let at = start
    let n = this.refCount
    let stop = end
    let tail = 0
    if (n === 0 && this.packedBytes > 0) {
      n = this.sameRefs(start, end)
      at = this.sameStart
      stop = this.sameEnd
      tail = this.sameTail
    }
    for (;;) {
      while (at < stop) {
        let ref = bytes[at++]
        if (ref >= 0x80) {
          const second = at < end ? bytes[at] : 0x80
          if (second < 0x80) {
            ref = (ref & 0x7f) | (second << 7)
            at++
          } else {
            reader.at = at - 1
            reader.end = end
            reader.varint()
            at = reader.at
            ref = reader.low >>> 0
          }
        }
        refs[n] = ref
        const number = ref < count ? numbers[ref] : NO_NUMBER
        key[n++] = number >= 0 ? number : this.number(ref)
      }
      if (stop === end) break
      // What ends the list has its place already, but where the number of references before it is another.
      if (n === this.packedRefs - tail) {
        n += tail
        break
      }
      stop = end
    }
    if (this.refCount === 0) {
      this.packedEnd = end
      this.packedBytes = this.keyed ? end - start : 0
      this.packedRefs = n
    }
    this.refCount = n
    reader.at = end
  }

  /**
   * What the packed references in [start, end) have in common with those read before them: series that follow one another mostly differ in the name of their metric.
   * Sets `sameStart` and `sameEnd`, between which they differ, and `sameTail`, the references from there on. @returns how many there are before it.
   */
  private sameRefs(start: number, end: number): number {
    const { bytes, view } = this.reader
    const { packedEnd, packedBytes } = this
    const shift = packedEnd - packedBytes - start
    // A byte of each is left in the middle, so that one lies before the tail.
    const most = Math.min(end - start, packedBytes) - 1
    let same = 0
    let n = 0
    // A byte below 0x80 ends a reference.
    for (let word: number; same + 4 <= most && (word = view.getInt32(start + same, true)) === view.getInt32(start + same + shift, true); same += 4)
      n += endsIn(word)
    for (let byte: number; same < most && (byte = bytes[start + same]) === bytes[start + same + shift]; same++) n += byte < 0x80 ? 1 : 0
    while (same > 0 && bytes[start + same - 1] >= 0x80) same--
    const back = packedEnd - end
    let tail = 0
    let refs = 0
    for (let word: number; tail + 4 <= most - same && (word = view.getInt32(end - tail - 4, true)) === view.getInt32(end - tail - 4 + back, true); tail += 4)
      refs += endsIn(word)
    while (tail > 0 && (bytes[end - tail - 1] >= 0x80 || bytes[end - tail - 1 + back] >= 0x80)) if (bytes[end - tail--] < 0x80) refs--
    this.sameStart = start + same
    this.sameEnd = end - tail
    this.sameTail = refs
    return n
  }

  private pushRef(ref: number): void {
    if (this.refCount === MAX_REFS) {
      if (++this.surplus > MAX_SURPLUS) throw this.reader.fault('a series has too many label references', this.reader.at)
      this.tooMany = true
      return
    }
    this.packedBytes = 0
    if (this.refCount === this.refs.length) this.grow(this.refCount * 2)
    this.refs[this.refCount] = ref
    this.key[this.refCount++] = this.number(ref)
  }

  private number(ref: number): number {
    const number = ref < this.symbols.count ? this.symbols.number(ref) : NO_NUMBER
    if (number === NO_NUMBER) this.keyed = false
    return number
  }

  private grow(least: number): void {
    const capacity = Math.max(least, this.refs.length * 2)
    const refs = new Int32Array(capacity)
    refs.set(this.refs)
    this.refs = refs
    // One more than is used: a key is compared up to the byte behind it.
    const key = new Int32Array(capacity + 1)
    key.set(this.key)
    this.key = key
    this.keyBytes = new Uint8Array(key.buffer)
    this.keyView = new DataView(key.buffer)
  }

  /** Looks the key up; false when the series is new, or has no key. */
  private find(): boolean {
    const { cache, refCount, keyView } = this
    if (!this.keyed || this.tooMany) return false
    if (cache.expectedEnd(keyView, 0) === refCount * 4) {
      cache.takeExpected()
      return true
    }
    return cache.find(keyView, 0, refCount * 4)
  }

  /** Takes the labels of a new series apart; false when they are refused. */
  private intern(samples: number, histograms: number): boolean {
    const { labels, reader, refCount } = this
    labels.begin(this.symbols.bytes)
    const sent = this.labelBytes()
    const bytes = labels.fits(sent) ? sent : 0
    this.taken += bytes
    this.takenInAll += bytes
    if (this.takenInAll > MAX_NEW_BYTES) throw reader.fault(`series that are not known have more than ${MAX_NEW_BYTES} bytes of labels`, reader.at)
    if (bytes > 0) this.addLabels()
    try {
      this.cache.add(labels, this.keyBytes, this.keyView, this.keyed ? 0 : -1, refCount * 4)
      return true
    } catch (error) {
      if (!(error instanceof SvcError)) throw error
      this.writer.refuse(samples, histograms, error.code, error.message)
      return false
    }
  }

  /** Of the labels at hand, each as often as it is referred to; 0 when they cannot be read. */
  private labelBytes(): number {
    const { labels, symbols, refs, refCount } = this
    if (this.tooMany) labels.fail(`it has more than ${MAX_LABELS} labels`)
    if (refCount % 2 !== 0) labels.fail(`it has ${refCount} label references, which makes a name without a value`)
    let bytes = 0
    for (let i = 0; i < refCount; i++) {
      const ref = refs[i] >>> 0
      if (ref >= symbols.count) {
        labels.fail(`it refers to symbol ${ref} of ${symbols.count}`)
        return 0
      }
      bytes += symbols.ends[ref] - symbols.starts[ref]
    }
    return bytes
  }

  private addLabels(): void {
    const { labels, symbols, refs, refCount } = this
    const { starts, ends } = symbols
    for (let i = 0; i + 1 < refCount; i += 2) labels.add(starts[refs[i]], ends[refs[i]], starts[refs[i + 1]], ends[refs[i + 1]])
  }

  private *reordered(start: number, end: number): Work<void> {
    const { reader } = this
    const whole = reader.bytes
    reader.begin(labelsFirst(reader, start, end))
    this.packedBytes = 0
    const more = this.series(0, reader.end)
    if (more !== undefined) yield* more
    reader.begin(whole)
    this.packedBytes = 0
  }

  /** Every series carries the metadata of its metric: it is looked at once a request, and passed on when it says something new. */
  private metadata(start: number, end: number, metric: Metric): void {
    const { reader, symbols } = this
    metric.saidIn = this.write
    let type = 0
    let help = 0
    let unit = 0
    reader.at = start
    reader.end = end
    while (reader.next()) {
      if (reader.field === 1) type = reader.uint32()
      else if (reader.field === 3) help = reader.uint32()
      else if (reader.field === 4) unit = reader.uint32()
      else reader.skip()
    }
    if (help >= symbols.count || unit >= symbols.count) return
    // Nothing is said: senders that know no metadata have to send some all the same. Symbol 0 is the empty text.
    if (type === 0 && help === 0 && unit === 0) return
    const helpNumber = symbols.number(help)
    const unitNumber = symbols.number(unit)
    if (metric.saidType === type && metric.saidHelp === helpNumber && metric.saidUnit === unitNumber && helpNumber >= 0 && unitNumber >= 0) return
    metric.saidType = type
    metric.saidHelp = helpNumber
    metric.saidUnit = unitNumber
    const word = METRIC_TYPES[type] ?? METRIC_TYPES[0]
    const [helpText, unitText] = [help, unit].map((place) => symbols.text(place, MAX_TEXT_BYTES))
    this.note({ metric: familyOf(metric.ref.name, word), type: word, help: helpText, unit: unitText })
  }
}

/** How many of a word's bytes are below 0x80. */
function endsIn(word: number): number {
  return Math.imul((~word >>> 7) & 0x01010101, 0x01010101) >>> 24
}
