/** A SQL statement beside the data: says what it will answer, or runs it and emits its record batches as FlightData messages, ready to be sent. */
import type { Job, SqlRequest } from 'svcdb'
import { ArrowEncoder, arrowSchema, frame, schemaMessage } from 'svcdb/lib/arrow'
import { SvcError } from 'svcdb/lib/errors'
import { flightPrefix } from './messages.ts'
import { WideTypes } from './wide-types.ts'

export interface QueryArgs {
  namespace: string
  query: string
  parameters: SqlRequest['parameters']
  /** Text as numbers in a dictionary. */
  dictionaries: boolean
  /** Nothing runs: only the schemas are wanted. */
  describe: boolean
  /** server.sql_max_rows. */
  maxRows: number
  batchRows: number
  batchBytes: number
}

export interface QueryOutcome {
  rows: number
  /** With `describe`: the schemas' messages with their length in front. */
  schema?: Uint8Array
  parameterSchema?: Uint8Array
}

const runQuery: Job<QueryArgs, QueryOutcome> = async (reader, args, io) => {
  const { namespace, query, dictionaries, maxRows } = args
  const given = args.parameters === undefined ? {} : { parameters: args.parameters }
  const cursor = await reader.sql({ namespace, query, textBytes: true, limit: maxRows + 1, ...given })
  const wide = new WideTypes(cursor.columns)
  if (args.describe) {
    const parameters = cursor.parameters.map((type, i) => ({ name: `$${i + 1}`, type: declared(type) }))
    const schema = (columns: typeof parameters, asDictionaries: boolean): Uint8Array => frame(schemaMessage(arrowSchema(columns, asDictionaries)))
    return { rows: 0, schema: schema(wide.columns, dictionaries), parameterSchema: schema(parameters, false) }
  }
  const encoder = new ArrowEncoder(wide.columns, { dictionaries, maxRows: args.batchRows, maxBytes: args.batchBytes, prefix: flightPrefix })
  await io.emit(encoder.schemaMessage().framed as Uint8Array)
  let rows = 0
  for await (const chunk of cursor) {
    io.signal.throwIfAborted()
    rows += chunk.rows
    // Cut, it would pass for the whole answer.
    if (rows > maxRows) throw tooManyRows(maxRows)
    for (const { framed } of encoder.push(wide.chunk(chunk))) await io.emit(framed as Uint8Array)
  }
  for (const { framed } of encoder.flush()) await io.emit(framed as Uint8Array)
  return { rows }
}

/**
 * Types as the JDBC driver can bind them: it fills in milliseconds for a timestamp of whatever unit, and can bind nothing to a parameter of no type,
 * as the text leaves it open. Values of other types than declared are taken as well.
 */
function declared(type: string): string {
  return type === 'Null' ? 'Utf8' : type.replace(/^Timestamp\(\w+/, 'Timestamp(ms')
}

function tooManyRows(maxRows: number): SvcError {
  return new SvcError(
    'PAYLOAD_TOO_LARGE',
    `cannot answer the query: it has more rows than server.sql_max_rows = ${maxRows}; add a LIMIT, aggregate, or raise the setting`,
  )
}

export default runQuery
