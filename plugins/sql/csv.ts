/**
 * Rows as CSV (RFC 4180): a header, CRLF after every line, quotes around what needs them. Values are those of the JSON answer without its quotes: NULL is
 * nothing, the empty text is "", lists and structs are their JSON.
 */
import type { SqlChunk, SqlColumn } from 'svcdb'
import { jsonEncoderOf } from 'svcdb/lib/sql-result'

export class CsvEncoder {
  readonly header: string
  private readonly cells: ((value: unknown) => string)[]

  constructor(columns: readonly SqlColumn[]) {
    this.header = line(columns.map(({ name }) => quoted(name)))
    this.cells = columns.map(({ type }) => cellOf(type))
  }

  /** Rows [from, to). */
  rows({ columns }: SqlChunk, from: number, to: number): string {
    let text = ''
    for (let row = from; row < to; row++) {
      text += line(
        columns.map(({ values, validity }, i) => {
          const value = validity !== undefined && validity[row] === 0 ? null : values[row]
          return value === null || value === undefined ? '' : this.cells[i](value)
        }),
      )
    }
    return text
  }
}

const line = (cells: readonly string[]): string => `${cells.join(',')}\r\n`

const quoted = (text: string): string => (text === '' || /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text)

function cellOf(type: string): (value: unknown) => string {
  if (type === 'Utf8') return (value) => quoted(typeof value === 'string' ? value : String(value))
  const encode = jsonEncoderOf(type)
  if (type === 'Float64' || type === 'Float32') return (value) => (Number.isFinite(value) ? encode(value) : String(value))
  return (value) => {
    const json = encode(value)
    return json.startsWith('"') ? quoted(JSON.parse(json) as string) : quoted(json)
  }
}
