/** A row as JSON text: 64-bit integers exactly, decimals in the shape they are written in, only the fields that are present. */
import type { ColumnChunk, SeriesChunk } from 'svcdb'
import { storedHistogramJson } from 'svcdb/lib/histogram'
import { decimalText } from 'svcdb/lib/numbers'

export class RowWriter {
  private chunk: SeriesChunk | undefined
  private readonly prefixes = new Map<number, string>()
  private columns: { key: string; column: ColumnChunk }[] = []

  row(chunk: SeriesChunk, index: number): string {
    if (chunk !== this.chunk) {
      this.chunk = chunk
      this.columns = chunk.columns.map((column) => ({ key: `${JSON.stringify(column.name)}:`, column }))
    }
    let tags = this.prefixes.get(chunk.series)
    if (tags === undefined) this.prefixes.set(chunk.series, (tags = `,"tags":${JSON.stringify(chunk.tags)},"fields":{`))
    let text = `{"timestamp":${chunk.times[index]}${tags}`
    let separator = ''
    for (const { key, column } of this.columns) {
      if (column.validity !== undefined && column.validity[index] !== 1) continue
      text += separator + key + cell(column, index)
      separator = ','
    }
    return `${text}}}`
  }
}

function cell(column: ColumnChunk, index: number): string {
  const value = column.values[index]
  switch (column.type) {
    case 'float64':
      return Object.is(value, -0) ? '-0' : String(value)
    case 'int64':
    case 'uint64':
      return String(value)
    case 'bool':
      return value === 1 ? 'true' : 'false'
    case 'string':
      return JSON.stringify(value)
    case 'decimal':
      return `{"decimal":"${decimalText(value as bigint, column.scale ?? 0)}"}`
    case 'histogram':
      return `{"histogram":${histogramText(value as unknown as Uint8Array)}}`
  }
}

/** Bytes of another version than this server knows are left to the reader. */
function histogramText(bytes: Uint8Array): string {
  try {
    return storedHistogramJson(bytes)
  } catch (error) {
    if (!(error instanceof RangeError)) throw error
    return `"${Buffer.from(bytes).toString('base64')}"`
  }
}
