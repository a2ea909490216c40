/** Rows of many series in the order of time, gathered into columns: `_time`, the tags, the fields. */
import type { ColumnChunk, FieldInfo, SeriesChunk, SqlChunk, SqlColumn, SqlVector } from 'svcdb'
import { seriesColumns } from 'svcdb/lib/arrow'
import { histogramText } from './rows.ts'

const MAX_ROWS = 4096
/** Values of all columns at most, unless a single row has more. */
const MAX_VALUES = 1 << 20
/** Of a value, and of a column's buffers where it is encoded, however little is in them. */
const VALUE_BYTES = 8
const COLUMN_BYTES = 10_240

/** Where the values of a gathered column come from in a chunk. */
type Source = ColumnChunk | undefined

export class RowGatherer {
  readonly columns: readonly SqlColumn[]
  private readonly capacity: number
  private readonly tags: readonly string[]
  private readonly fields: readonly FieldInfo[]
  private readonly times: BigInt64Array
  private readonly tagValues: (string | null)[][]
  private readonly values: FieldValues[]
  private rows = 0
  private chunk: SeriesChunk | undefined
  private sources: readonly Source[] = []
  private readonly known = new Map<SeriesChunk, readonly Source[]>()

  /** @param tags all that a series may have; @param fields those asked for; @param others all fields of the measurement. */
  constructor(tags: readonly string[], fields: readonly FieldInfo[], others: readonly FieldInfo[]) {
    this.tags = tags
    this.fields = fields
    this.columns = seriesColumns(tags, fields, others)
    const capacity = capacityOf(this.columns.length)
    this.capacity = capacity
    this.times = new BigInt64Array(capacity)
    this.tagValues = tags.map(() => new Array<string | null>(capacity).fill(null))
    this.values = fields.map((field) => fieldValues(field, capacity))
  }

  /** Bytes that so many columns take here and in an encoder, about. */
  static bytesOf(columns: number): number {
    return columns * (COLUMN_BYTES + VALUE_BYTES * capacityOf(columns))
  }

  get full(): boolean {
    return this.rows === this.capacity
  }

  /** Not when it is full. */
  add(chunk: SeriesChunk, index: number): void {
    if (chunk !== this.chunk) this.open(chunk)
    const row = this.rows++
    const { tags, tagValues, sources, values } = this
    this.times[row] = chunk.times[index]
    for (let i = 0; i < tags.length; i++) tagValues[i][row] = Object.hasOwn(chunk.tags, tags[i]) ? chunk.tags[tags[i]] : null
    for (let i = 0; i < values.length; i++) {
      const source = sources[i]
      const present = source !== undefined && (source.validity === undefined || source.validity[index] === 1)
      values[i].validity[row] = present ? 1 : 0
      values[i].set(row, present ? source.values : undefined, index)
    }
  }

  /** What was gathered; it is overwritten by the next rows. */
  take(): SqlChunk {
    const { rows } = this
    this.rows = 0
    const columns: SqlVector[] = [{ values: this.times }]
    for (const values of this.tagValues) columns.push({ values })
    for (const { values, validity } of this.values) columns.push({ values, validity })
    return { rows, columns }
  }

  private open(chunk: SeriesChunk): void {
    this.chunk = chunk
    let sources = this.known.get(chunk)
    if (sources === undefined) {
      sources = this.fields.map(({ name, type }) => chunk.columns.find((column) => column.name === name && column.type === type))
      this.known.set(chunk, sources)
    }
    this.sources = sources
  }
}

interface FieldValues {
  values: ArrayLike<unknown>
  validity: Uint8Array
  /** @param from undefined where there is no value. */
  set(row: number, from: ColumnChunk['values'] | undefined, index: number): void
}

function capacityOf(columns: number): number {
  return Math.max(1, Math.min(MAX_ROWS, Math.floor(MAX_VALUES / columns)))
}

function fieldValues({ type }: FieldInfo, capacity: number): FieldValues {
  const validity = new Uint8Array(capacity)
  switch (type) {
    case 'float64':
      return copied(new Float64Array(capacity), validity)
    case 'int64':
      return copied(new BigInt64Array(capacity), validity)
    case 'uint64':
      return copied(new BigUint64Array(capacity), validity)
    case 'bool':
      return copied(new Uint8Array(capacity), validity)
    case 'histogram': {
      const values = new Array<unknown>(capacity).fill(null)
      return {
        values,
        validity,
        set: (row, from, index) => {
          values[row] = from === undefined ? null : histogramText((from as Uint8Array[])[index])
        },
      }
    }
    default: {
      const values = new Array<unknown>(capacity).fill(null)
      return {
        values,
        validity,
        set: (row, from, index) => {
          values[row] = from === undefined ? null : from[index]
        },
      }
    }
  }
}

function copied(values: { [row: number]: unknown; readonly length: number }, validity: Uint8Array): FieldValues {
  return {
    values,
    validity,
    set: (row, from, index) => {
      if (from !== undefined) values[row] = from[index]
    },
  }
}
