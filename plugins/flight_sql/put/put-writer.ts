/** Record batches into writes of one measurement, in turns of the event loop: a batch may have a million rows. */
import type { Data, RecordBatch, Schema } from 'apache-arrow'
import type { MeasurementRef, SeriesResolver } from 'svcdb'
import type { WriteBatch } from 'svcdb/lib/columns'
import { OneByOne, type Work } from 'svcdb/lib/event-loop'
import { fitsDecimal } from './decimals.ts'
import { decimalAt, type FieldValues, type Rows, storeField } from './fields.ts'
import { type FieldColumn, layoutOf, type PutLayout } from './layout.ts'
import { RowRefusals } from './refusals.ts'
import { SeriesFinder, type TagValues } from './series.ts'
import { type TextColumn, TextRoom, textsOf } from './texts.ts'
import { timesOf } from './times.ts'

/** Rows between two places where the work can be interrupted. */
const SLICE = 4096

interface PutOptions {
  resolver: SeriesResolver
  namespace: string
  measurement: string
  schema: Schema
  maxFields: number
  /** Of the fields of a record batch, and of its tags. */
  maxTextBytes: number
  /** Any number, best a random one: seeds the hashes of tag values. */
  seed: number
}

interface Appended {
  refusals: RowRefusals
  /** Values left out because they are NaN or infinite. */
  nonFinite: number
}

export class PutWriter {
  readonly turns = new OneByOne()
  private readonly options: PutOptions
  private readonly layout: PutLayout
  private readonly series: SeriesFinder
  /** Dictionaries that are known to be UTF-8. */
  private readonly checked = new WeakSet<Data>()

  /** @throws BAD_REQUEST for a schema that is no measurement's. */
  constructor(options: PutOptions) {
    this.options = options
    this.layout = layoutOf(options.schema, options.maxFields)
    this.series = new SeriesFinder(options.resolver, options.seed, options.maxTextBytes)
  }

  /**
   * Appends the rows of a record batch, in turns; until it is done the writer does nothing else (`turns`). Rows without any value are left out.
   * @param firstRow place of its first row in all that the client sends; @param now the time of rows when there is no column with it, nanoseconds.
   * @throws SCHEMA_ERROR when a field is known under another type, INVALID_POINT, PAYLOAD_TOO_LARGE: the write is then to be thrown away.
   */
  *append(batch: RecordBatch, write: WriteBatch, firstRow: number, now: bigint): Work<Appended> {
    const { resolver, namespace, measurement } = this.options
    const { time, tags, fields } = this.layout
    const rows = batch.numRows
    const refusals = new RowRefusals(rows, firstRow)
    const columns = batch.data.children
    const times = time === undefined ? repeated(now, rows) : timesOf(columns[time.index], time.perSecond, refusals)
    yield
    const values: CheckedField[] = []
    for (const field of fields) {
      const data = columns[field.index]
      const texts = field.type === 'string' ? yield* textsOf(data, field.name, this.checked) : undefined
      values.push(yield* fieldValues(field, data, texts, refusals))
      yield
    }
    const present = yield* rowsWithValue(
      values.map(({ values: { valid } }) => valid),
      rows,
    )
    const texts: TagValues[] = []
    for (const { index, name } of tags) {
      texts.push(tagValues(columns[index], name, yield* textsOf(columns[index], name, this.checked)))
      yield
    }
    let epoch: number
    let ref: MeasurementRef
    let series: Int32Array
    do {
      ;({ epoch } = resolver)
      ref = resolver.measurement(namespace, measurement)
      series = yield* this.series.find(ref, texts, rows, refusals)
      // Numbers may have been given back meanwhile. Those that the write has are not.
    } while (resolver.epoch !== epoch)
    const table = write.table(ref)
    const place = rowsOf(rows, present, refusals, table.rows)
    const targets = fields.map(({ name, type }) => table.column(name, type))
    for (let i = 0; i < place.count; i++) {
      const row = place.chosen === undefined ? i : place.chosen[i]
      table.addRow(series[row], times[row * 2], times[row * 2 + 1], firstRow + row)
    }
    const room = new TextRoom(this.options.maxTextBytes, 'texts')
    for (const [i, target] of targets.entries()) {
      yield* storeField(values[i].values, target, place, write, room)
      yield
    }
    return { refusals, nonFinite: values.reduce((sum, { nonFinite }) => sum + nonFinite, 0) }
  }
}

function repeated(now: bigint, rows: number): Int32Array {
  const pairs = new Int32Array(rows * 2)
  const low = Number(BigInt.asIntN(32, now))
  const high = Number(BigInt.asIntN(32, now >> 32n))
  for (let row = 0; row < rows; row++) {
    pairs[row * 2] = low
    pairs[row * 2 + 1] = high
  }
  return pairs
}

function tagValues(data: Data, name: string, column: TextColumn): TagValues {
  return { name, column, valid: data.nullCount > 0 ? (row) => data.getValid(row) : undefined }
}

interface CheckedField {
  values: FieldValues
  nonFinite: number
}

function* fieldValues({ name, type }: FieldColumn, data: Data, texts: TextColumn | undefined, refusals: RowRefusals): Work<CheckedField> {
  let valid = data.nullCount > 0 ? yield* validityOf(data) : undefined
  let nonFinite = 0
  if (type === 'float64') {
    const numbers = data.values as Float64Array
    for (let row = 0; row < data.length; row++) {
      if (Number.isFinite(numbers[row]) || (valid !== undefined && valid[row] === 0)) continue
      valid ??= new Uint8Array(data.length).fill(1)
      valid[row] = 0
      nonFinite++
    }
  } else if (type === 'decimal') yield* refuseDecimals(name, data, valid, refusals)
  return { values: { data, texts, valid }, nonFinite }
}

function* validityOf(data: Data): Work<Uint8Array> {
  const valid = new Uint8Array(data.length)
  for (let row = 0; row < data.length; row++) {
    valid[row] = data.getValid(row) ? 1 : 0
    if (row % SLICE === SLICE - 1) yield
  }
  return valid
}

function* refuseDecimals(name: string, data: Data, valid: Uint8Array | undefined, refusals: RowRefusals): Work<void> {
  const parts = data.values as unknown as Uint32Array
  const { scale } = data.type as unknown as { scale: number }
  for (let row = 0; row < data.length; row++) {
    if (row % SLICE === SLICE - 1) yield
    if (valid !== undefined && valid[row] === 0) continue
    if (!fitsDecimal(decimalAt(parts, row), scale))
      refusals.refuse(row, 'INVALID_POINT', `cannot write field "${name}": the decimal has more than 38 digits, or more than 38 behind the point`)
  }
}

/** One byte a row, 1 = it has a value in a column at least; undefined = all have. In turns: a batch may have a million rows of many columns. */
function* rowsWithValue(valid: readonly (Uint8Array | undefined)[], rows: number): Work<Uint8Array | undefined> {
  if (valid.length === 1 || valid.includes(undefined)) return valid.length === 1 ? valid[0] : undefined
  const present = new Uint8Array(rows)
  for (const column of valid as readonly Uint8Array[]) {
    for (let row = 0; row < rows; row++) {
      present[row] |= column[row]
      if (row % SLICE === SLICE - 1) yield
    }
  }
  return present
}

/** Rows that are not refused and have a value. */
function rowsOf(rows: number, present: Uint8Array | undefined, refusals: RowRefusals, first: number): Rows {
  if (present === undefined && refusals.count === 0) return { chosen: undefined, count: rows, first }
  const chosen = new Int32Array(rows)
  let count = 0
  for (let row = 0; row < rows; row++) if (!refusals.has(row) && (present === undefined || present[row] === 1)) chosen[count++] = row
  return count === rows ? { chosen: undefined, count, first } : { chosen, count, first }
}
