/**
 * A JSON array of points, from bytes to columns, never an object a point.
 *
 * What is malformed refuses all: the first fault throws and names its place (`points[1].fields.usage: ...`). A series that there is no room
 * for costs its points only, as with every other protocol. Members may come in any
 * order: a row is begun as soon as the measurement is known, and series and time are filled in when they are. Series are recognised by the
 * bytes of their tags. Numbers: a field that exists as an integer takes integers exactly, and one that is a float none that it would round;
 * a new field becomes a float, unless its first value is an integer beyond 2^53.
 */
import type { FieldType, MeasurementRef, Rejection, SeriesResolver } from 'svcdb'
import { type Column, KeyTable, type TableBatch, typeConflict, type WriteBatch } from 'svcdb/lib/columns'
import { SvcError } from 'svcdb/lib/errors'
import { OneByOne, type Work } from 'svcdb/lib/event-loop'
import { asciiText, DECIMAL, floatOf, Int64, storeDecimal } from 'svcdb/lib/numbers'
import { JsonError, JsonReader } from './json-reader.ts'

interface PointsOptions {
  /** The time of points that carry none, nanoseconds since the epoch. */
  now: bigint
  maxPoints: number
  maxFields: number
  /** Of points that name none. */
  measurement?: string | undefined
  /** One point that is not in an array is read as well. */
  single?: boolean
}

/** What came of a body. */
export interface ParsedPoints {
  points: number
  /** Points left out because their series was refused, and the first reasons. */
  rejected: number
  rejections: Rejection[]
}

/** As many reasons as the storage gives for its own refusals. */
const MAX_REASONS = 16

const OPEN_OBJECT = 123
const CLOSE_OBJECT = 125
const OPEN_ARRAY = 91
const CLOSE_ARRAY = 93
const QUOTE = 34
const COLON = 58
const MINUS = 45
const SHOWN = 64
/** Between two places where the work can be interrupted. */
const SLICE_POINTS = 64
/** What an engine can be set to take at most (`database.max_tags_per_series`). */
const MAX_TAGS = 1024
/** Of a point's tags as they are written: hashed and taken apart in one go. */
const MAX_TAGS_BYTES = 1_048_576
/** Doubles hold each integer up to here. */
const EXACT = 2 ** 53
/** In place of a measurement's number: there is no room for another one. */
const REFUSED = -2
/** What keeps a new series or measurement out, and not the points beside it. */
const OF_POINTS: ReadonlySet<string> = new Set(['CARDINALITY_EXCEEDED', 'RATE_LIMITED'])

export class PointsParser {
  readonly turns = new OneByOne()
  private readonly resolver: SeriesResolver
  private readonly namespace: string
  /** That each point gets: key, value, key, value. The same for the parser's life: what `keys` knows stays right. */
  private readonly given: readonly string[]
  private readonly keys: KeyTable
  private readonly measurements: MeasurementRef[] = []
  private readonly byName = new Map<string, number>()
  private epoch: number
  /** Entry of the point before, -1 = none. */
  private last = -1
  private readonly int = new Int64()
  private readonly now = new Int64()
  private readonly time = new Int64()
  /** Where the parse is, for messages. */
  private index = -1
  private outcome: ParsedPoints = { points: 0, rejected: 0, rejections: [] }
  private path = ''
  private field: string | undefined

  /** @param maxInternedBytes bytes of tag sets kept; @param seed any number, best a random one; @param tags that each point gets. */
  constructor(resolver: SeriesResolver, namespace: string, maxInternedBytes: number, seed: number, tags: readonly string[] = []) {
    this.given = tags
    this.resolver = resolver
    this.namespace = namespace
    this.keys = new KeyTable(maxInternedBytes, seed)
    this.epoch = resolver.epoch
  }

  /**
   * Appends the points to `batch`, in turns; until it is done the parser does nothing else (`turns`).
   * @throws SvcError with the place; the batch is then to be thrown away.
   */
  *parse(body: Uint8Array, batch: WriteBatch, options: PointsOptions): Work<ParsedPoints> {
    if (this.epoch !== this.resolver.epoch) this.forget()
    this.now.setBigInt(options.now)
    this.outcome = { points: 0, rejected: 0, rejections: [] }
    this.index = -1
    this.path = ''
    this.field = undefined
    try {
      // Always the same class of array: a Buffer is another.
      const reader = new JsonReader(new Uint8Array(body.buffer, body.byteOffset, body.length))
      const view = new DataView(body.buffer, body.byteOffset, body.length)
      if (options.single === true && reader.peek() === OPEN_OBJECT) {
        this.index = 0
        this.point(reader, view, batch, options)
        reader.end()
        this.outcome.points = 1
        return this.outcome
      }
      if (reader.peek() !== OPEN_ARRAY) throw new JsonError(`${reader.unexpected('"["').message}; points are written as an array, [{...}]`, reader.at)
      reader.expect(OPEN_ARRAY)
      let count = 0
      for (; reader.more(CLOSE_ARRAY, count === 0); count++) {
        if (count === options.maxPoints) {
          this.index = -1
          throw new SvcError(
            'BAD_REQUEST',
            `cannot write more than ${options.maxPoints} points at once: max_write_batch_size is ${options.maxPoints}; send smaller batches`,
          )
        }
        this.index = count
        this.path = ''
        this.field = undefined
        this.point(reader, view, batch, options)
        this.index = -1
        if (count % SLICE_POINTS !== 0) continue
        yield
        if (this.epoch !== this.resolver.epoch) this.forget()
      }
      reader.end()
      this.outcome.points = count
      return this.outcome
    } catch (error) {
      throw this.placed(error)
    }
  }

  /** Numbers of series and measurements were given back. */
  private forget(): void {
    this.keys.clear()
    this.last = -1
    this.measurements.length = 0
    this.byName.clear()
    this.epoch = this.resolver.epoch
  }

  private point(reader: JsonReader, view: DataView, batch: WriteBatch, { maxFields, measurement }: PointsOptions): void {
    if (!reader.take(OPEN_OBJECT)) throw reader.unexpected('an object')
    let group = -1
    let series = -1
    let tagsAt = -1
    let tagsEnd = -1
    let fieldsAt = -1
    let table: TableBatch | undefined
    let row = -1
    let predicted = -1
    let seen = 0
    let timed = false
    for (let first = true; reader.more(CLOSE_OBJECT, first); first = false) {
      this.path = ''
      this.field = undefined
      const member = reader.key()
      const bit = MEMBERS[member]
      if (bit === undefined) throw new JsonError(`unknown member "${member.slice(0, SHOWN)}"; a point has measurement, tags, fields and timestamp`, reader.at)
      this.path = `.${member}`
      if ((seen & bit) !== 0) throw new JsonError('the member occurs twice', reader.at)
      seen |= bit
      reader.peek()
      if (bit === 1) group = this.group(reader.string())
      else if (bit === 2) {
        tagsAt = reader.at
        // The same bytes are the same object, closing brace included.
        tagsEnd = this.last < 0 ? -1 : this.keys.matchEnd(this.keys.following[this.last], view, tagsAt)
        if (tagsEnd > tagsAt) {
          predicted = this.keys.following[this.last]
          reader.at = tagsEnd
        } else {
          reader.skip()
          tagsEnd = reader.at
          if (tagsEnd - tagsAt > MAX_TAGS_BYTES) throw new JsonError(`the tags have more than ${MAX_TAGS_BYTES} bytes`, tagsAt)
        }
      } else if (bit === 8) {
        timed = true
        this.timestamp(reader)
      } else if (group < 0) {
        fieldsAt = reader.at
        reader.skip()
      } else {
        table = batch.tableForRow(this.measurements[group])
        row = table.addRow(0, 0, 0, this.index)
        this.fields(reader, batch, table, row, maxFields)
      }
    }
    const end = reader.at
    if (group === -1) group = measurement === undefined ? this.missing('measurement') : this.group(measurement)
    if ((seen & 4) === 0) this.missing('fields')
    if (group === REFUSED) return
    this.field = undefined
    this.path = '.tags'
    series = this.series(reader, view, group, tagsAt, tagsEnd, predicted)
    const low = timed ? this.time.low : this.now.low
    const high = timed ? this.time.high : this.now.high
    if (table === undefined) {
      table = batch.tableForRow(this.measurements[group])
      row = table.addRow(series, low, high, this.index)
      reader.at = fieldsAt
      this.path = '.fields'
      this.fields(reader, batch, table, row, maxFields)
      reader.at = end
    }
    if (series < 0) return table.dropRow()
    table.series[row] = series
    table.time[row * 2] = low
    table.time[row * 2 + 1] = high
  }

  /** The number of a measurement, or REFUSED. */
  private group(name: string): number {
    let group = this.byName.get(name)
    if (group === undefined) {
      group = this.measurements.length
      try {
        this.measurements.push(this.resolver.measurement(this.namespace, name))
      } catch (error) {
        this.refuse(error)
        return REFUSED
      }
      this.byName.set(name, group)
    }
    return group
  }

  /**
   * The series of the measurement and the tags in [start, end), recognised by their bytes; start -1 = no tags.
   * @param predicted an entry with just these bytes, or -1
   * @returns its number; -1 = there is no room for it.
   */
  private series(reader: JsonReader, view: DataView, group: number, start: number, end: number, predicted: number): number {
    const { keys } = this
    if (predicted >= 0 && keys.group[predicted] === group) {
      this.last = predicted
      return keys.series[predicted]
    }
    const from = Math.max(start, 0)
    const to = start < 0 ? 0 : end
    const hash = Math.imul(keys.hashOf(view, from, to) ^ group, 0x9e3779b1)
    const entry = keys.find(view, from, to, hash)
    if (entry >= 0 && keys.group[entry] === group) {
      this.follow(entry)
      return keys.series[entry]
    }
    const tags = start < 0 ? [...this.given] : this.withGiven(this.tags(reader, start))
    this.path = '.tags'
    const series = this.resolve(this.measurements[group], tags)
    if (series < 0) return series
    if (entry < 0) this.follow(keys.add(reader.bytes, from, to, hash, series, group))
    return series
  }

  private resolve(measurement: MeasurementRef, tags: readonly string[]): number {
    try {
      return this.resolver.series(measurement, tags)
    } catch (error) {
      this.refuse(error)
      return -1
    }
  }

  /** Counts the point as rejected. @throws the error when the whole write is to be. */
  private refuse(error: unknown): void {
    if (!(error instanceof SvcError) || !OF_POINTS.has(error.code)) throw error
    const { outcome } = this
    if (outcome.rejected++ < MAX_REASONS) outcome.rejections.push({ code: error.code, message: error.message, position: this.index })
  }

  /** Remembers that the series of `entry` came after the last one. */
  private follow(entry: number): void {
    if (entry >= 0 && this.last >= 0) this.keys.following[this.last] = entry
    this.last = entry
  }

  private tags(reader: JsonReader, start: number): string[] {
    const back = reader.at
    reader.at = start
    if (!reader.take(OPEN_OBJECT)) throw reader.unexpected('an object of strings')
    const tags: string[] = []
    const seen = new Set<string>()
    for (let first = true; reader.more(CLOSE_OBJECT, first); first = false) {
      this.path = '.tags'
      const key = reader.key()
      this.path = `.tags.${key.slice(0, SHOWN)}`
      if (seen.size === MAX_TAGS) throw new JsonError(`more than ${MAX_TAGS} tags`, reader.at)
      if (seen.has(key)) throw new JsonError('the tag occurs twice', reader.at)
      seen.add(key)
      if (reader.peek() !== QUOTE) throw reader.unexpected('a string')
      tags.push(key, reader.string())
    }
    reader.at = back
    return tags
  }

  /** One that is there with another value has the message refused: whichever won, points of two origins could become one series. */
  private withGiven(tags: string[]): string[] {
    const { given } = this
    for (let i = 0; i < given.length; i += 2) {
      const at = tags.findIndex((name, j) => j % 2 === 0 && name === given[i])
      if (at < 0) tags.push(given[i], given[i + 1])
      else if (tags[at + 1] !== given[i + 1]) {
        this.path = `.tags.${given[i].slice(0, SHOWN)}`
        throw new SvcError('INVALID_POINT', `"${tags[at + 1].slice(0, SHOWN)}" is there, and what the points came by says "${given[i + 1].slice(0, SHOWN)}"`)
      }
    }
    return tags
  }

  private timestamp(reader: JsonReader): void {
    const c = reader.peek()
    if (c !== MINUS && !(c > 47 && c < 58)) throw reader.unexpected('an integer of nanoseconds')
    const start = reader.at
    const end = reader.numberEnd()
    if (!isInteger(reader.bytes, start, end))
      throw new JsonError(`${asciiText(reader.bytes, start, Math.min(end, start + SHOWN))} is not an integer of nanoseconds`, start)
    const negative = reader.bytes[start] === MINUS
    if (!this.time.setSigned(reader.bytes, negative ? start + 1 : start, end, negative))
      throw new JsonError('the time is outside the range of 64-bit nanoseconds', start)
  }

  private fields(reader: JsonReader, batch: WriteBatch, table: TableBatch, row: number, maxFields: number): void {
    if (!reader.take(OPEN_OBJECT)) throw reader.unexpected('an object of values')
    let place = 0
    let count = 0
    for (; reader.more(CLOSE_OBJECT, count === 0); count++) {
      this.field = undefined
      if (count === maxFields) throw new JsonError(`more than ${maxFields} fields, native.max_fields_per_point`, reader.at)
      let column = this.predicted(reader, table.columns[place])
      let name: string
      if (column !== undefined) name = column.name
      else {
        name = reader.key()
        column = table.find(name)
        if (name === '_time') throw new JsonError('field "_time" is the name of the time column', reader.at)
      }
      place = column === undefined ? place : table.columns.indexOf(column, place) + 1
      this.field = name
      this.value(reader, batch, table, name, column, row)
    }
    this.field = undefined
    if (count === 0) throw new JsonError('there is no field', reader.at)
  }

  /** Takes the next member's name if it is just that of `column`, written plainly. */
  private predicted(reader: JsonReader, column: Column | undefined): Column | undefined {
    if (column === undefined || reader.peek() !== QUOTE) return undefined
    const { bytes } = reader
    const name = column.nameBytes
    const from = reader.at + 1
    for (let i = 0; i < name.length; i++) {
      // A name with a quote or a backslash is written with escapes.
      if (bytes[from + i] !== name[i] || name[i] === 92 || name[i] === QUOTE) return undefined
    }
    if (bytes[from + name.length] !== QUOTE) return undefined
    reader.at = from + name.length + 1
    reader.expect(COLON)
    return column
  }

  private value(reader: JsonReader, batch: WriteBatch, table: TableBatch, name: string, column: Column | undefined, row: number): void {
    const c = reader.peek()
    if (column?.has(row)) throw new JsonError('the field occurs twice', reader.at)
    if (c === MINUS || (c > 47 && c < 58)) {
      if (column === undefined || column.type !== 'float64' || column.next === 0) return this.number(reader, table, name, row)
      const start = reader.at
      const value = reader.float()
      if (!(Math.abs(value) < EXACT)) checkHeld(reader, start, reader.at, value)
      column.setF64(row, value)
    } else if (c === QUOTE) {
      const text = reader.string()
      if (!text.isWellFormed()) throw new JsonError('the text holds half a surrogate pair, which has no UTF-8 form', reader.at)
      const target = table.column(name, 'string')
      const at = batch.text(text)
      target.setPair(row, at, batch.heap.length - at)
    } else if (reader.word('true')) table.column(name, 'bool').setBool(row, true)
    else if (reader.word('false')) table.column(name, 'bool').setBool(row, false)
    else if (c === OPEN_OBJECT) this.decimal(reader, table, name, row)
    else throw reader.unexpected('a number, a boolean, a string or {"decimal": "..."}')
  }

  private number(reader: JsonReader, table: TableBatch, name: string, row: number): void {
    const { bytes } = reader
    const start = reader.at
    const end = reader.numberEnd()
    const known = typeOf(table, name)
    if (known === 'float64') {
      const value = floatOf(bytes, start, end)
      checkHeld(reader, start, end, value)
      table.column(name, 'float64').setF64(row, value)
      return
    }
    const integer = isInteger(bytes, start, end)
    const negative = bytes[start] === MINUS
    const digits = negative ? start + 1 : start
    if (known === 'int64' || known === 'uint64') {
      if (!integer) throw typeConflict(table.measurement?.name ?? '', name, known, 'float64')
      const fits = known === 'int64' ? this.int.setSigned(bytes, digits, end, negative) : !negative && this.int.setDigits(bytes, digits, end)
      if (!fits) throw new JsonError(`the integer is out of the range of ${known}`, start)
      table.column(name, known).setPair(row, this.int.low, this.int.high)
      return
    }
    const value = floatOf(bytes, start, end)
    if (!Number.isFinite(value)) throw new JsonError('the number is out of the range of a 64-bit float', start)
    if (known === undefined && integer && Math.abs(value) >= EXACT && BigInt(asciiText(bytes, start, end)) !== BigInt(Math.sign(value) * EXACT)) {
      // A new field whose first value is where doubles no longer hold each integer.
      const signed = this.int.setSigned(bytes, digits, end, negative)
      if (signed || (!negative && this.int.setDigits(bytes, digits, end))) {
        table.column(name, signed ? 'int64' : 'uint64').setPair(row, this.int.low, this.int.high)
        return
      }
    }
    table.column(name, 'float64').setF64(row, value)
  }

  /** {"decimal": "12.34"}: digits as text, so that no reader on the way can round them. */
  private decimal(reader: JsonReader, table: TableBatch, name: string, row: number): void {
    reader.expect(OPEN_OBJECT)
    if (reader.peek() === CLOSE_OBJECT || reader.key() !== 'decimal') throw new JsonError('an object here is {"decimal": "..."}', reader.at)
    if (reader.peek() !== QUOTE)
      throw new JsonError('the decimal is to be a string of digits, not a number, which readers may round; write {"decimal": "12.34"}', reader.at)
    const start = reader.at + 1
    const text = reader.string()
    if (!DECIMAL.test(text)) throw new JsonError(`"${text.slice(0, SHOWN)}" is not a decimal; write digits with an optional sign and point`, start)
    const bytes = Buffer.from(text)
    if (!storeDecimal(bytes, 0, bytes.length, table.column(name, 'decimal'), row)) throw new JsonError('a decimal has at most 38 digits', start)
    reader.expect(CLOSE_OBJECT)
  }

  private missing(member: string): never {
    this.path = ''
    throw new JsonError(`member "${member}" is missing`, 0)
  }

  /** The error as the caller is told, with the point and member in front. */
  private placed(error: unknown): unknown {
    if (!(error instanceof JsonError) && !(error instanceof SvcError)) return error
    const member = this.field === undefined ? this.path : `.fields.${this.field.slice(0, SHOWN)}`
    const place = this.index < 0 ? '' : `points[${this.index}]${member}: `
    if (error instanceof SvcError) return this.index < 0 ? error : new SvcError(error.code, place + error.message, { cause: error })
    return new SvcError(this.index < 0 ? 'BAD_REQUEST' : 'INVALID_POINT', `cannot read body: ${place}${error.message}`, { cause: error })
  }
}

const MEMBERS: Record<string, number> = Object.assign(Object.create(null), { measurement: 1, tags: 2, fields: 4, timestamp: 8 })

/** The type a number of this field must have, undefined for a new field. A column without values may be left over from another write. */
function typeOf(table: TableBatch, name: string): FieldType | undefined {
  const column = table.find(name)
  if (column !== undefined && column.next > 0) return column.type
  return table.measurement?.fields.get(name)?.type
}

/** Refuses what a float64 cannot stand for: infinities, and integers that are neither exact nor the shortest text of a double. @throws JsonError */
function checkHeld({ bytes }: JsonReader, start: number, end: number, value: number): void {
  if (Math.abs(value) < EXACT) return
  if (!Number.isFinite(value)) throw new JsonError('the number is out of the range of a 64-bit float', start)
  if (!isInteger(bytes, start, end)) return
  const text = asciiText(bytes, start, end)
  if (BigInt(text) === BigInt(value) || digitsOf(text) === digitsOf(value.toExponential().replace(/e.*$/, '').replace('.', ''))) return
  throw new JsonError(
    `cannot store the integer ${text.slice(0, SHOWN)} as a float64: the nearest is ${BigInt(value)}; write it with a point to have it rounded, or into an int64 field`,
    start,
  )
}

/** Without the zeros at the end: writers that print doubles in full fill up with zeros. */
function digitsOf(text: string): string {
  let end = text.length
  while (text[end - 1] === '0') end--
  return text.slice(0, end)
}

function isInteger(bytes: Uint8Array, start: number, end: number): boolean {
  for (let i = start; i < end; i++) if (bytes[i] === 46 || bytes[i] === 101 || bytes[i] === 69) return false
  return true
}
