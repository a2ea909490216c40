/**
 * Line protocol, from bytes to columns.
 * All state is in the parser, one per namespace (and tags of a request): known series keys and field names are recognised by their bytes, so that a
 * line of a known series costs a compare of its key, a compare of each name and the digits of its values (parser.bench.ts).
 * Invariants: every scan stops at the newline that ends the region; a line that fails leaves no value behind.
 */
import { isUtf8 } from 'node:buffer'
import type { SeriesResolver } from 'svcdb'
import { KeyTable, type TableBatch, type WriteBatch } from 'svcdb/lib/columns'
import { SvcError } from 'svcdb/lib/errors'
import { OneByOne, type Work } from 'svcdb/lib/event-loop'
import { decimalEnd, floatOf, Int64, POW10, storeDecimal } from 'svcdb/lib/numbers'
import { BOOL, DECIMAL, type FieldSlot, FLOAT, INT, KEPT_SLOTS, MeasurementState, STRING, TYPES, UINT } from './field-slot.ts'
import { type LineLimits, LOOK_AHEAD, SLICE_BYTES, SLICE_LINES } from './limits.ts'
import { LineTime } from './line-time.ts'
import { endOfLine, keyEnd, nameEnd, newlines, quotedLine, terminated } from './lines.ts'
import type { ParseOptions, ParseOutcome, ParserOptions } from './outcome.ts'
import { nameFault, readPlainKey, readSeriesKey, unescapeName } from './series-key.ts'
import { truthOf } from './truth.ts'

const NEWLINE = 10
const RETURN = 13
const SPACE = 32
const QUOTE = 34
const HASH = 35
const COMMA = 44
const MINUS = 45
const POINT = 46
const BACKSLASH = 92
const MAX_SAFE = 9007199254740992
const EMPTY = new Uint8Array(0)
const EMPTY_VIEW = new DataView(EMPTY.buffer)
/** Up to here bytes are copied one by one: a call costs more. */
const SHORT_STRING = 64

export class LineParser {
  readonly turns = new OneByOne()
  private readonly resolver: SeriesResolver
  private readonly namespace: string
  private readonly limits: LineLimits
  private readonly maxFailures: number
  /** That every series gets beside its own. The same for the parser's life: what `keys` knows stays right. */
  private readonly tags: readonly string[]
  private readonly keys: KeyTable
  private readonly measurements: MeasurementState[] = []
  private readonly byName = new Map<string, number>()
  /** Fields that are known of all measurements. */
  private slots = 0
  private epoch: number
  /** Entry of the line before, -1 = none. */
  private last = -1
  /** What the key of the line at hand stands for. */
  private series = 0
  private group = 0
  /** Number of the parse under way; what was bound under another is bound again. */
  private serial = 0
  private bytes: Uint8Array = EMPTY
  private view: DataView = EMPTY_VIEW
  private end = 0
  private line = 1
  /** While it parses. */
  private batch!: WriteBatch
  private nanIsNull = false
  /** Fields of the line at hand that are left out, and whether the line has others. */
  private nulls = 0
  private valued = true
  private code = ''
  private reason = ''
  /** Start and end of keys and values of a plain series key. */
  private readonly ranges = new Int32Array(64 * 4)
  private readonly int = new Int64()
  private readonly now = new Int64()
  private readonly time = new LineTime()

  constructor(resolver: SeriesResolver, namespace: string, options: ParserOptions) {
    this.resolver = resolver
    this.namespace = namespace
    this.limits = options.limits
    this.maxFailures = options.maxFailures
    this.tags = options.tags ?? []
    this.keys = new KeyTable(options.maxInternedBytes, options.seed)
    this.epoch = resolver.epoch
  }

  /** Appends the points of `body` to `batch`, in turns; until it is done the parser does nothing else (`turns`). */
  *parse(body: Uint8Array, batch: WriteBatch, options: ParseOptions): Work<ParseOutcome> {
    this.begin(body, batch, options)
    const outcome: ParseOutcome = { rows: 0, rejected: 0, failures: [], tooMany: false }
    try {
      for (let at = this.some(0, options.maxPoints, outcome); at < this.end; at = this.some(at, options.maxPoints, outcome)) {
        yield
        if (this.epoch !== this.resolver.epoch) this.forget()
      }
      return outcome
    } finally {
      // The body may be large, and is not ours; nor is the batch.
      this.bytes = EMPTY
      this.view = EMPTY_VIEW
      this.batch = undefined as never
    }
  }

  /** Some lines from `at` on. @returns where to go on, the end when all is done. */
  private some(start: number, maxPoints: number, outcome: ParseOutcome): number {
    const { bytes, end } = this
    let at = start
    const enough = outcome.rows + outcome.rejected + SLICE_LINES
    const far = start + SLICE_BYTES
    while (at < end && at < far && outcome.rows + outcome.rejected < enough) {
      const c = bytes[at]
      if (c === NEWLINE) this.line++
      if (c === NEWLINE || c === SPACE || c === 9 || c === RETURN) {
        at++
        continue
      }
      if (c === HASH) {
        at = bytes.indexOf(NEWLINE, at)
        continue
      }
      if (outcome.rows + outcome.rejected >= maxPoints) {
        outcome.tooMany = true
        return end
      }
      const next = this.point(at)
      if (next >= 0) outcome.rows += Number(this.valued)
      else this.note(outcome, at)
      at = next >= 0 ? next : this.lineEnd(at)
    }
    return at
  }

  private begin(body: Uint8Array, batch: WriteBatch, options: ParseOptions): void {
    if (this.epoch !== this.resolver.epoch) this.forget()
    if (this.slots > KEPT_SLOTS) {
      for (const state of this.measurements) state.clear()
      this.slots = 0
    }
    this.bytes = terminated(body)
    this.view = new DataView(this.bytes.buffer, this.bytes.byteOffset, this.bytes.length)
    this.end = this.bytes.length
    this.line = 1
    this.batch = batch
    this.serial++
    this.time.precision = options.precision
    this.nanIsNull = options.nanIsNull === true
    this.now.setBigInt(options.now)
  }

  /** Numbers of series and measurements were given back. */
  private forget(): void {
    this.keys.clear()
    this.last = -1
    this.measurements.length = 0
    this.byName.clear()
    this.slots = 0
    this.epoch = this.resolver.epoch
  }

  /** Parses the point at `start`; returns where the next line begins, or -1 with the reason noted. */
  private point(start: number): number {
    const line = this.line
    const at = this.key(start)
    if (at < 0) return -1
    const state = this.measurements[this.group]
    if (state.serial !== this.serial || state.table?.isCrowded) this.serial = state.open(this.batch, this.serial)
    const table = state.table as TableBatch
    const heapLength = this.batch.heap.length
    const row = table.addRow(this.series, this.now.low, this.now.high, line)
    const next = this.fields(at + 1, state, table, row)
    if (next < 0 || !this.valued) {
      table.dropRow()
      this.batch.heap.length = heapLength
      if (next < 0) this.line = line
    }
    return next
  }

  /** Finds series and group of the key at `start`; returns the index of the space that ends it, or -1. */
  private key(start: number): number {
    const { keys, view } = this
    let entry = this.last < 0 ? 0 : keys.following[this.last]
    let at = keys.matchEnd(entry, view, start)
    // The same bytes and then a space are the same key, since the entry was ended by a space too.
    if (at < 0 || this.bytes[at] !== SPACE) {
      const end = keyEnd(this.bytes, start)
      if (typeof end === 'string') return this.fail(end)
      at = end
      const hash = keys.hashOf(view, start, at)
      entry = keys.find(view, start, at, hash)
      if (entry < 0) return this.intern(start, at, hash) ? at : -1
      if (this.last >= 0) keys.following[this.last] = entry
    }
    this.last = entry
    this.series = keys.series[entry]
    this.group = keys.group[entry]
    return at
  }

  /** Takes a new key apart and asks for its numbers; false when it is refused. */
  private intern(start: number, end: number, hash: number): boolean {
    if (!this.resolvePlain(start, end) && !this.resolve(start, end)) return false
    const entry = this.keys.add(this.bytes, start, end, hash, this.series, this.group)
    if (entry >= 0 && this.last >= 0) this.keys.following[this.last] = entry
    this.last = entry
    return true
  }

  /** The common new key: of the measurement of the line before, with nothing to unescape. */
  private resolvePlain(start: number, end: number): boolean {
    const state = this.measurements[this.group]
    if (this.resolver.seriesAscii === undefined || this.tags.length > 0 || state === undefined || !state.isNamed(this.bytes, start, end)) return false
    const pairs = readPlainKey(this.bytes, start, end, this.ranges)
    if (pairs < 0) return false
    try {
      const series = this.resolver.seriesAscii(state.ref, this.bytes, this.ranges, pairs)
      if (series < 0) return false
      this.series = series
      return true
    } catch {
      return false // `resolve` meets the same refusal and reports it
    }
  }

  private resolve(start: number, end: number): boolean {
    const key = readSeriesKey(this.bytes, start, end, this.limits, this.tags)
    if (typeof key === 'string') {
      this.fail(key)
      return false
    }
    try {
      let group = this.byName.get(key.measurement)
      if (group === undefined) {
        group = this.measurements.length
        this.measurements.push(new MeasurementState(this.resolver.measurement(this.namespace, key.measurement)))
        this.byName.set(key.measurement, group)
      }
      this.group = group
      this.series = this.resolver.series(this.measurements[group].ref, key.tags)
    } catch (error) {
      this.refuse(error)
      return false
    }
    return true
  }

  private fields(start: number, state: MeasurementState, table: TableBatch, row: number): number {
    const { bytes, view } = this
    const order = state.order
    let at = start
    while (bytes[at] === SPACE || bytes[at] === 9) at++
    if (bytes[at] === NEWLINE || (bytes[at] === RETURN && bytes[at + 1] === NEWLINE)) return this.fail('missing fields')
    this.nulls = 0
    for (let place = 0, count = 1; ; count++) {
      let slot: FieldSlot | undefined
      let matched = 0
      const last = Math.min(place + LOOK_AHEAD, order.length)
      for (; place + matched < last; matched++) {
        const candidate = order[place + matched]
        const { words, raw } = candidate
        if (at + raw.length >= this.end) continue
        let i = 0
        while (i < words.length && words[i] === view.getInt32(at + i * 4, true)) i++
        if (i < words.length) continue
        for (i *= 4; i < raw.length && raw[i] === bytes[at + i]; ) i++
        if (i === raw.length) {
          slot = candidate
          break
        }
      }
      if (slot !== undefined) {
        place += matched + 1
        at += slot.raw.length
      } else {
        const end = nameEnd(bytes, at)
        if (typeof end === 'string') return this.fail(end)
        slot = state.find(bytes, at, end + 1) ?? this.newSlot(state, at, end)
        if (slot === undefined) return -1
        order[place++] = slot
        at = end + 1
      }
      if (count > this.limits.maxFields) return this.fail(`more than ${this.limits.maxFields} fields, line_protocol.max_fields_per_point`)
      const c = bytes[at]
      if ((c < 58 && c > 47) || c === MINUS || c === POINT) at = this.number(at, slot, table, row)
      else if (c === QUOTE) at = this.string(at + 1, slot, table, row)
      else at = c === 43 ? this.decimal(at, decimalEnd(bytes, at + 1), slot, table, row) : this.boolean(at, slot, table, row)
      if (at < 0) return -1
      if (bytes[at] !== COMMA) return this.rest(at, table, row, count)
      at++
    }
  }

  private newSlot(state: MeasurementState, start: number, end: number): FieldSlot | undefined {
    const name = unescapeName(this.bytes, start, end, true)
    const fault = name === '_time' ? 'field key "_time" is the name of the time column' : nameFault('field key', name, this.limits.maxNameBytes)
    if (fault !== undefined) {
      this.fail(fault)
      return undefined
    }
    this.slots++
    return state.add(name as string, this.bytes, start, end + 1)
  }

  /** Makes `slot` point at the column of this batch for values of `kind`; false when the field is of another type. */
  private bind(slot: FieldSlot, kind: number, table: TableBatch): boolean {
    try {
      const before = table.find(slot.name)
      const column = table.column(slot.name, TYPES[kind])
      // A column that replaces an empty one: other slots may still point at that. The table stays, and is known to be of the new number (`open`).
      if (before !== undefined && before !== column) this.measurements[this.group].serial = ++this.serial
      slot.column = column
      slot.kind = kind
      slot.serial = this.serial
      return true
    } catch (error) {
      this.refuse(error)
      return false
    }
  }

  private number(start: number, slot: FieldSlot, table: TableBatch, row: number): number {
    const bytes = this.bytes
    const negative = bytes[start] === MINUS
    const from = negative ? start + 1 : start
    let at = from
    let value = 0
    let c = bytes[at]
    while (c < 58 && c > 47) {
      value = value * 10 + (c - 48)
      c = bytes[++at]
    }
    let digits = at - from
    let scale = 0
    if (c === POINT) {
      const point = ++at
      c = bytes[at]
      while (c < 58 && c > 47) {
        value = value * 10 + (c - 48)
        c = bytes[++at]
      }
      scale = at - point
      digits += scale
    } else if (c === 105 || c === 117) return digits === 0 ? this.fail('invalid number') : this.integer(start, at, value, slot, table, row)
    if (digits === 0) return this.fail('invalid number')
    if (c === 100) return this.decimal(start, at, slot, table, row)
    if (c === 101 || c === 69) {
      c = bytes[++at]
      if (c === MINUS || c === 43) c = bytes[++at]
      const exponent = at
      while (c < 58 && c > 47) c = bytes[++at]
      if (at === exponent) return this.fail('invalid number')
      value = floatOf(bytes, start, at)
      if (!Number.isFinite(value)) return this.fail('invalid number: out of the range of a 64-bit float')
    } else if (value < MAX_SAFE && scale <= 22) {
      // Digits and power of ten are exact doubles, so their quotient is the correctly rounded number.
      if (scale !== 0) value /= POW10[scale]
      if (negative) value = -value
    } else {
      value = floatOf(bytes, start, at)
      if (!Number.isFinite(value)) return this.fail('invalid number: out of the range of a 64-bit float')
    }
    if (c !== COMMA && c !== SPACE && c !== NEWLINE && c !== RETURN) return this.fail('invalid number')
    if ((slot.serial !== this.serial || slot.kind !== FLOAT) && !this.bind(slot, FLOAT, table)) return -1
    slot.column!.setF64(row, value)
    return at
  }

  /** An integer whose digits end at `end`, where the suffix is; `value` is their sum, exact below 2^53. */
  private integer(start: number, end: number, value: number, slot: FieldSlot, table: TableBatch, row: number): number {
    const bytes = this.bytes
    const negative = bytes[start] === MINUS
    const kind = bytes[end] === 105 ? INT : UINT
    if (!this.endsValue(end + 1)) return this.fail('invalid number')
    if (kind === UINT && negative) return this.fail('invalid number: an unsigned integer has no sign')
    if (value < MAX_SAFE) this.int.setSafe(value, negative)
    else {
      const from = negative ? start + 1 : start
      const fits = kind === INT ? this.int.setSigned(bytes, from, end, negative) : this.int.setDigits(bytes, from, end)
      if (!fits) return this.fail(`invalid number: out of the range of ${TYPES[kind]}`)
    }
    if ((slot.serial !== this.serial || slot.kind !== kind) && !this.bind(slot, kind, table)) return -1
    slot.column!.setPair(row, this.int.low, this.int.high)
    return end + 1
  }

  private decimal(start: number, end: number, slot: FieldSlot, table: TableBatch, row: number): number {
    if (end < 0 || !this.endsValue(end + 1)) return this.fail('invalid number')
    if ((slot.serial !== this.serial || slot.kind !== DECIMAL) && !this.bind(slot, DECIMAL, table)) return -1
    if (!storeDecimal(this.bytes, start, end, slot.column!, row)) return this.fail('invalid number: a decimal has at most 38 digits')
    return end + 1
  }

  private endsValue(at: number): boolean {
    const c = this.bytes[at]
    return c === COMMA || c === SPACE || c === NEWLINE || c === RETURN
  }

  /** A string whose opening quote is before `start`. */
  private string(start: number, slot: FieldSlot, table: TableBatch, row: number): number {
    const { bytes, end } = this
    const heap = this.batch.heap
    let close = start
    let newlines = 0
    let escapes = 0
    let bits = 0
    while (close < end && bytes[close] !== QUOTE) {
      const c = bytes[close]
      if (c === NEWLINE) newlines++
      bits |= c
      if (c === BACKSLASH && (bytes[close + 1] === QUOTE || bytes[close + 1] === BACKSLASH)) {
        escapes++
        close++
      }
      close++
    }
    if (close >= end) return this.fail('unbalanced quotes')
    const at = heap.reserve(close - start)
    const target = heap.bytes
    let length = at
    if (escapes === 0 && close - start > SHORT_STRING) {
      target.set(bytes.subarray(start, close), at)
      length += close - start
    } else
      for (let i = start; i < close; i++) {
        if (bytes[i] === BACKSLASH && (bytes[i + 1] === QUOTE || bytes[i + 1] === BACKSLASH)) i++
        target[length++] = bytes[i]
      }
    heap.length = length
    if (length - at > this.limits.maxStringBytes) return this.fail(`string is longer than ${this.limits.maxStringBytes} bytes`)
    if (bits > 127 && !isUtf8(target.subarray(at, length))) return this.fail('invalid UTF-8 in string')
    if (!this.endsValue(close + 1)) return this.fail('invalid field format')
    if ((slot.serial !== this.serial || slot.kind !== STRING) && !this.bind(slot, STRING, table)) return -1
    slot.column!.setPair(row, at, length - at)
    this.line += newlines
    return close + 1
  }

  private boolean(start: number, slot: FieldSlot, table: TableBatch, row: number): number {
    let at = start
    while (!this.endsValue(at)) at++
    if (at === start) return this.fail('missing field value')
    const truth = truthOf(this.bytes, start, at, this.nanIsNull)
    if (typeof truth === 'string') return this.fail(truth)
    if (truth === undefined) this.nulls++
    else if ((slot.serial !== this.serial || slot.kind !== BOOL) && !this.bind(slot, BOOL, table)) return -1
    else slot.column!.setBool(row, truth)
    return at
  }

  /** What follows the fields: spaces, a time if there is one, the end of the line. */
  private rest(start: number, table: TableBatch, row: number, fields: number): number {
    const bytes = this.bytes
    this.valued = this.nulls < fields
    let at = start
    while (bytes[at] === SPACE || bytes[at] === 9) at++
    if (bytes[at] !== NEWLINE && bytes[at] !== RETURN) {
      const negative = bytes[at] === MINUS
      const from = negative ? at + 1 : at
      at = from
      while (bytes[at] > 47 && bytes[at] < 58) at++
      if (at === from) return this.fail('bad timestamp')
      if (!this.time.read(bytes, from, at, negative)) return this.fail('bad timestamp: outside the range of 64-bit nanoseconds')
      table.time[row * 2] = this.time.low
      table.time[row * 2 + 1] = this.time.high
      while (bytes[at] === SPACE || bytes[at] === 9) at++
    }
    if (bytes[at] === RETURN) at++
    if (bytes[at] !== NEWLINE) return this.fail('bad timestamp')
    this.line++
    return at + 1
  }

  private fail(reason: string): -1 {
    this.code = 'INVALID_POINT'
    this.reason = reason
    return -1
  }

  /** Takes over the refusal of the storage's resolver or schema. */
  private refuse(error: unknown): -1 {
    if (!(error instanceof SvcError)) throw error
    this.code = error.code
    this.reason = error.message
    return -1
  }

  private note(outcome: ParseOutcome, start: number): void {
    outcome.rejected++
    if (outcome.failures.length >= this.maxFailures) return
    const text = this.code === 'INVALID_POINT' ? `unable to parse '${quotedLine(this.bytes, start, this.end)}': ${this.reason}` : this.reason
    outcome.failures.push({ line: this.line, code: this.code, message: text })
  }

  /** Where the line after the failed one at `start` begins; counts the lines passed. */
  private lineEnd(start: number): number {
    const end = endOfLine(this.bytes, start, this.end)
    this.line += newlines(this.bytes, start, end + 1)
    return end + 1
  }
}
