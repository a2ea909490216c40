/** Rows of series, as `Reader.scan` brings them, to record batches: a column for the time, one for each tag, one for each field. */
import { storedHistogramJson } from '../histogram/json.ts'
import type { ColumnChunk, FieldInfo, SeriesChunk, SqlColumn, SqlVector } from '../storage.ts'
import { ArrowEncoder, type EncoderOptions } from './encoder.ts'
import type { ArrowMessage } from './framing.ts'

export const TIME_COLUMN = '_time'

/** A field's type as `SqlColumn.type`; histograms are shown as JSON. */
export function fieldTypeName({ type, scale }: Pick<FieldInfo, 'type' | 'scale'>): string {
  switch (type) {
    case 'float64':
      return 'Float64'
    case 'int64':
      return 'Int64'
    case 'uint64':
      return 'UInt64'
    case 'bool':
      return 'Boolean'
    case 'decimal':
      return `decimal(38, ${scale ?? 0})`
    default:
      return 'Utf8'
  }
}

export class SeriesEncoder {
  readonly columns: readonly SqlColumn[]
  private readonly encoder: ArrowEncoder
  private readonly tags: readonly string[]
  private readonly fields: readonly FieldInfo[]
  private absent: SqlVector = { values: new Uint8Array(0) }

  /** @param tags all that a series may have; @param fields those asked for: what a chunk has beside them is left out. */
  constructor(tags: readonly string[], fields: readonly FieldInfo[], options?: EncoderOptions) {
    this.tags = tags
    this.fields = fields
    this.columns = [
      { name: TIME_COLUMN, type: 'Timestamp(ns)' },
      ...tags.map((name) => ({ name, type: 'Utf8' })),
      ...fields.map((field) => ({ name: field.name, type: fieldTypeName(field) })),
    ]
    this.encoder = new ArrowEncoder(this.columns, options)
  }

  schemaMessage(): ArrowMessage {
    return this.encoder.schemaMessage()
  }

  /** Takes rows [from, to). @returns the messages that are complete. */
  push(chunk: SeriesChunk, from = 0, to: number = chunk.times.length): ArrowMessage[] {
    const rows = chunk.times.length
    if (this.absent.values.length < rows) this.absent = { values: new Array(rows).fill(null), validity: new Uint8Array(rows) }
    const numbers = new Uint8Array(rows)
    const columns: SqlVector[] = [{ values: chunk.times }]
    for (const tag of this.tags) {
      const value = chunk.tags[tag]
      columns.push(value === undefined ? this.absent : { values: numbers, dictionary: [value] })
    }
    for (const { name, type } of this.fields) {
      const column = chunk.columns.find((each) => each.name === name && each.type === type)
      columns.push(column === undefined ? this.absent : type === 'histogram' ? shown(column) : column)
    }
    return this.encoder.push({ rows, columns }, from, to)
  }

  flush(): ArrowMessage[] {
    return this.encoder.flush()
  }
}

function shown({ values, validity }: ColumnChunk): SqlVector {
  return { values: Array.from(values as Uint8Array[], (bytes, i) => (validity?.[i] === 0 ? null : storedHistogramJson(bytes))) }
}
