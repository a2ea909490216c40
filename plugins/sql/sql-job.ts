/** A SQL statement beside the data: runs it and emits the answer, JSON or CSV, as it comes. */
import type { Job, JobIo, Reader, SqlChunk, SqlColumn } from 'svcdb'
import { SvcError } from 'svcdb/lib/errors'
import { JsonRowBytes } from 'svcdb/lib/sql-result'
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

/** Gathered before it is handed over; a first failure before that still gets a status of its own. */
const EMIT_LENGTH = 65_536

/** Of rows that are written before a look at how much was gathered: the values of a tag are short in a chunk, and as long as they are in an answer. */
const CELLS = 4096

/** Gathers an answer, from its head on. */
interface Writer {
  /** Of what is gathered. */
  readonly length: number
  /** Rows [from, to). @param before rows that were written. */
  rows(chunk: SqlChunk, from: number, to: number, before: number): void
  tail(rows: number, truncated: boolean): void
  /** Hands out what is gathered. */
  take(): Uint8Array
  close(): void
}

class JsonWriter implements Writer {
  private readonly out: JsonRowBytes

  constructor(columns: readonly SqlColumn[]) {
    this.out = new JsonRowBytes(columns)
    this.text(`{"columns":${JSON.stringify(columns.map(({ name, type }) => ({ name, data_type: type })))},"rows":[`)
  }

  get length(): number {
    return this.out.length
  }

  rows(chunk: SqlChunk, from: number, to: number, before: number): void {
    if (before > 0) this.out.raw(',\n')
    this.out.rows(chunk, from, to)
  }

  tail(rows: number, truncated: boolean): void {
    this.out.raw(`],"row_count":${rows},"truncated":${truncated}}`)
  }

  take(): Uint8Array {
    return this.out.take()
  }

  close(): void {
    this.out.close()
  }

  private text(text: string): void {
    const bytes = Buffer.from(text)
    this.out.room(bytes.length)
    this.out.put(bytes)
  }
}

/** CSV has no word for an answer that was cut, which would pass for the whole: it is refused. */
class CsvWriter implements Writer {
  private readonly encoder: CsvEncoder
  private readonly maxRows: number
  private text: string

  constructor(columns: readonly SqlColumn[], maxRows: number) {
    this.encoder = new CsvEncoder(columns)
    this.maxRows = maxRows
    this.text = this.encoder.header
  }

  get length(): number {
    return this.text.length
  }

  rows(chunk: SqlChunk, from: number, to: number): void {
    this.text += this.encoder.rows(chunk, from, to)
  }

  tail(_: number, truncated: boolean): void {
    if (!truncated) return
    throw new SvcError(
      'SQL_ERROR',
      `cannot answer in CSV: the result has more than ${this.maxRows} rows (server.sql_max_rows); add a LIMIT or narrow the time range`,
    )
  }

  take(): Uint8Array {
    const bytes = Buffer.from(this.text)
    this.text = ''
    return bytes
  }

  close(): void {}
}

async function runSql(reader: Reader, { namespace, query, maxRows, format }: SqlArgs, io: JobIo): Promise<SqlOutcome> {
  const csv = format === 'csv'
  const cursor = await traced('plan', () => reader.sql({ namespace, query, limit: maxRows + 1, ...(csv ? {} : { textBytes: true }) }))
  const rest = startSpan('read and write the answer')
  const writer: Writer = csv ? new CsvWriter(cursor.columns, maxRows) : new JsonWriter(cursor.columns)
  let rows = 0
  let truncated = false
  const step = Math.max(1, Math.floor(CELLS / cursor.columns.length))
  for await (const chunk of cursor) {
    io.signal.throwIfAborted()
    const take = Math.min(chunk.rows, maxRows - rows)
    for (let from = 0; from < take; from += step) {
      if (writer.length >= EMIT_LENGTH) await io.emit(writer.take())
      writer.rows(chunk, from, Math.min(from + step, take), rows + from)
    }
    rows += take
    truncated = take < chunk.rows
    if (truncated) break
    if (writer.length >= EMIT_LENGTH) await io.emit(writer.take())
  }
  writer.tail(rows, truncated)
  await io.emit(writer.take())
  writer.close()
  rest?.set('svc.rows', rows)
  rest?.end()
  return { rows, truncated }
}

export default runSql satisfies Job<SqlArgs, SqlOutcome>
