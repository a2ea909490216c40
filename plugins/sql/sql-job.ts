/** A SQL statement beside the data: runs it and emits the answer, JSON or CSV, as it comes. */
import type { Job, JobIo, Reader, SqlChunk, SqlColumn } from 'svcdb'
import { SvcError } from 'svcdb/lib/errors'
import { JsonRowEncoder } from 'svcdb/lib/sql-result'
import { startSpan, traced } from 'svcdb/lib/trace'
import { CsvEncoder } from './csv.ts'

export interface SqlArgs {
  namespace: string
  query: string
  /** server.sql_max_rows. */
  maxRows: number
  format: SqlFormat
}

export type SqlFormat = 'json' | 'csv'

export interface SqlOutcome {
  rows: number
  truncated: boolean
}

/** Text gathered before it is handed over; a first failure before that still gets a status of its own. */
const EMIT_LENGTH = 65_536

interface Writer {
  readonly head: string
  rows(chunk: SqlChunk, to: number, before: number): string
  tail(rows: number, truncated: boolean): string
}

function jsonWriter(columns: readonly SqlColumn[]): Writer {
  const encoder = new JsonRowEncoder(columns)
  return {
    head: `{"columns":${JSON.stringify(columns.map(({ name, type }) => ({ name, data_type: type })))},"rows":[`,
    rows: (chunk, to, before) => (before > 0 ? ',\n' : '') + encoder.rows(chunk, 0, to),
    tail: (rows, truncated) => `],"row_count":${rows},"truncated":${truncated}}`,
  }
}

/** CSV has no word for an answer that was cut, which would pass for the whole: it is refused. */
function csvWriter(columns: readonly SqlColumn[], maxRows: number): Writer {
  const encoder = new CsvEncoder(columns)
  return {
    head: encoder.header,
    rows: (chunk, to) => encoder.rows(chunk, 0, to),
    tail(_, truncated) {
      if (!truncated) return ''
      throw new SvcError(
        'SQL_ERROR',
        `cannot answer in CSV: the result has more than ${maxRows} rows (server.sql_max_rows); add a LIMIT or narrow the time range`,
      )
    },
  }
}

export async function runSql(reader: Reader, { namespace, query, maxRows, format }: SqlArgs, io: JobIo): Promise<SqlOutcome> {
  const cursor = await traced('plan', () => reader.sql({ namespace, query }))
  const rest = startSpan('read and write the answer')
  const writer = format === 'csv' ? csvWriter(cursor.columns, maxRows) : jsonWriter(cursor.columns)
  let text = writer.head
  let rows = 0
  let truncated = false
  for await (const chunk of cursor) {
    io.signal.throwIfAborted()
    const take = Math.min(chunk.rows, maxRows - rows)
    if (take > 0) text += writer.rows(chunk, take, rows)
    rows += take
    truncated = take < chunk.rows
    if (truncated) break
    if (text.length >= EMIT_LENGTH) {
      await io.emit(Buffer.from(text))
      text = ''
    }
  }
  await io.emit(Buffer.from(text + writer.tail(rows, truncated)))
  rest?.set('svc.rows', rows)
  rest?.end()
  return { rows, truncated }
}

export default runSql satisfies Job<SqlArgs, SqlOutcome>
