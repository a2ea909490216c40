/**
 * Commands of `arrow.flight.protocol.sql` (FlightSql.proto): in descriptors, tickets and actions they come as google.protobuf.Any, whose
 * type URL says which one it is.
 */
import { SvcError } from 'svcdb/lib/errors'
import { type ProtobufReader, ProtobufWriter } from 'svcdb/lib/protobuf'
import { isJson } from './influxdb3.ts'
import { boundFields, eachField } from './messages.ts'
import { readBool, readBytes, readEntry, readNumbers, readString } from './protobuf-text.ts'

const PREFIX = 'type.googleapis.com/arrow.flight.protocol.sql.'
const NOTHING: Uint8Array = new Uint8Array(0)

/** What TicketStatementQuery's handle holds: nothing is kept on the server between GetFlightInfo and DoGet. */
interface StatementTicket {
  /** Random; what CancelFlightInfo finds the running statement by. */
  id: string
  /** The statement, or the handle of a prepared one. */
  query: string
  prepared: string
  dictionaries: boolean
}

export interface TableFilter {
  catalog?: string
  schemaPattern?: string
  namePattern?: string
  types: string[]
  includeSchema: boolean
}

/** Values of TableNotExistOption and TableExistsOption. */
export const CREATE_IF_ABSENT = 1
export const FAIL_IF_ABSENT = 2
export const FAIL_IF_EXISTS = 1
export const APPEND_IF_EXISTS = 2
export const REPLACE_IF_EXISTS = 3

export interface Ingest {
  ifAbsent: number
  ifExists: number
  table: string
  schema?: string
  catalog?: string
  temporary: boolean
  options: Map<string, string>
}

export type Command =
  | { kind: 'query'; query: string }
  | { kind: 'prepared_query'; handle: string }
  | { kind: 'ticket'; ticket: StatementTicket }
  | { kind: 'update'; query: string }
  | { kind: 'prepared_update'; handle: string }
  | { kind: 'ingest'; ingest: Ingest }
  | { kind: 'catalogs' }
  | { kind: 'schemas'; catalog?: string; pattern?: string }
  | { kind: 'tables'; filter: TableFilter }
  | { kind: 'table_types' }
  | { kind: 'sql_info'; info: number[] }
  | { kind: 'type_info'; type?: number }
  | { kind: 'primary_keys' }
  | { kind: 'exported_keys' }
  | { kind: 'imported_keys' }
  | { kind: 'cross_reference' }

interface Any {
  /** The message's name within the package, `CommandStatementQuery`; empty when it is of another package. */
  name: string
  url: string
  value: Uint8Array
}

/** @throws BAD_REQUEST when the bytes are no Any. */
export function readAny(bytes: Uint8Array): Any {
  let url = ''
  let value = NOTHING
  eachField(bytes, (reader) => {
    if (reader.field === 1) url = readString(reader)
    else if (reader.field === 2) value = readBytes(reader)
    else return false
    return true
  })
  return { name: url.startsWith(PREFIX) ? url.slice(PREFIX.length) : '', url, value }
}

export function writeAny(name: string, value: Uint8Array): Uint8Array {
  const out = new ProtobufWriter(value.length + 128)
  out.string(1, PREFIX + name)
  if (value.length > 0) out.blob(2, value)
  return out.take()
}

/** @throws BAD_REQUEST for what is no command of Flight SQL, and for transactions, which there are none of. */
export function readCommand(bytes: Uint8Array): Command {
  if (isJson(bytes)) throw new SvcError('BAD_REQUEST', 'cannot read the command: it is JSON, as clients of InfluxDB 3 send their queries, which are for DoGet')
  const { name, url, value } = commandOf(bytes)
  // The name is the client's: what every object has is no command.
  if (Object.hasOwn(READERS, name)) return READERS[name](value)
  if (name.includes('Substrait')) throw new SvcError('BAD_REQUEST', `cannot run "${name}": Substrait plans are not supported; send the statement as SQL`)
  throw new SvcError(
    'BAD_REQUEST',
    `cannot run the command "${url.slice(0, 200)}": it is none of Flight SQL; send a google.protobuf.Any with one of its commands`,
  )
}

/** Who has a client of Flight alone sends a statement or a name as it is. */
function commandOf(bytes: Uint8Array): Any {
  let cause: unknown
  try {
    const any = readAny(bytes)
    if (any.url !== '') return any
  } catch (error) {
    cause = error
  }
  throw new SvcError(
    'BAD_REQUEST',
    'cannot read the command: it is no message of Flight SQL; send SQL by a client of Flight SQL, such as ADBC; DoGet alone also takes the ticket {"sql_query": "SELECT 1"}',
    { cause },
  )
}

type Visit = (reader: ProtobufReader) => void

/** Reads the fields that have a visitor. */
function fields(bytes: Uint8Array, visitors: Record<number, Visit>): void {
  eachField(bytes, (reader) => {
    const visit = visitors[reader.field]
    if (visit === undefined) return false
    visit(reader)
    return true
  })
}

function noTransaction(reader: ProtobufReader): void {
  if (readBytes(reader).length > 0)
    throw new SvcError('BAD_REQUEST', 'cannot run the command in a transaction: there are no transactions; leave transaction_id out')
}

/** The SQL of a message that has it in field 1 and a transaction in field 2. */
export function readText(bytes: Uint8Array): string {
  let text = ''
  fields(bytes, { 1: (r) => (text = readString(r)), 2: noTransaction })
  return text
}

/** Handles are ASCII; others were not given out here. */
export function handleOf(bytes: Uint8Array): string {
  let handle = ''
  fields(bytes, { 1: (r) => (handle = Buffer.from(readBytes(r)).toString('latin1')) })
  return handle
}

const READERS: Record<string, (bytes: Uint8Array) => Command> = {
  CommandStatementQuery: (bytes) => ({ kind: 'query', query: readText(bytes) }),
  CommandPreparedStatementQuery: (bytes) => ({ kind: 'prepared_query', handle: handleOf(bytes) }),
  TicketStatementQuery: (bytes) => ({ kind: 'ticket', ticket: readTicket(bytes) }),
  CommandStatementUpdate: (bytes) => ({ kind: 'update', query: readText(bytes) }),
  CommandPreparedStatementUpdate: (bytes) => ({ kind: 'prepared_update', handle: handleOf(bytes) }),
  CommandStatementIngest: (bytes) => ({ kind: 'ingest', ingest: readIngest(bytes) }),
  CommandGetCatalogs: () => ({ kind: 'catalogs' }),
  CommandGetDbSchemas(bytes) {
    const command: Command & { kind: 'schemas' } = { kind: 'schemas' }
    fields(bytes, { 1: (r) => (command.catalog = readString(r)), 2: (r) => (command.pattern = readString(r)) })
    return command
  },
  CommandGetTables(bytes) {
    const filter: TableFilter = { types: [], includeSchema: false }
    fields(bytes, {
      1: (r) => (filter.catalog = readString(r)),
      2: (r) => (filter.schemaPattern = readString(r)),
      3: (r) => (filter.namePattern = readString(r)),
      4: (r) => filter.types.push(readString(r)),
      5: (r) => (filter.includeSchema = readBool(r)),
    })
    return { kind: 'tables', filter }
  },
  CommandGetTableTypes: () => ({ kind: 'table_types' }),
  CommandGetSqlInfo(bytes) {
    const info: number[] = []
    fields(bytes, {
      1(r) {
        readNumbers(r, info)
        boundFields(info.length, 'numbers')
      },
    })
    return { kind: 'sql_info', info }
  },
  CommandGetXdbcTypeInfo(bytes) {
    const command: Command & { kind: 'type_info' } = { kind: 'type_info' }
    fields(bytes, { 1: (r) => (command.type = r.int32()) })
    return command
  },
  CommandGetPrimaryKeys: () => ({ kind: 'primary_keys' }),
  CommandGetExportedKeys: () => ({ kind: 'exported_keys' }),
  CommandGetImportedKeys: () => ({ kind: 'imported_keys' }),
  CommandGetCrossReference: () => ({ kind: 'cross_reference' }),
}

function readIngest(bytes: Uint8Array): Ingest {
  const ingest: Ingest = { ifAbsent: 0, ifExists: 0, table: '', temporary: false, options: new Map() }
  fields(bytes, {
    1(r) {
      fields(readBytes(r), { 1: (o) => (ingest.ifAbsent = o.int32()), 2: (o) => (ingest.ifExists = o.int32()) })
    },
    2: (r) => (ingest.table = readString(r)),
    3: (r) => (ingest.schema = readString(r)),
    4: (r) => (ingest.catalog = readString(r)),
    5: (r) => (ingest.temporary = readBool(r)),
    6: noTransaction,
    1000(r) {
      const [key, value] = readEntry(r, '', readString)
      ingest.options.set(key, value)
    },
  })
  return ingest
}

/** The whole ticket of a statement. */
export function writeTicket({ id, query: text, prepared, dictionaries }: StatementTicket): Uint8Array {
  const handle = new ProtobufWriter()
  handle.string(1, id)
  if (text !== '') handle.string(2, text)
  if (prepared !== '') handle.string(3, prepared)
  if (dictionaries) handle.int(4, 1)
  const inner = handle.take()
  const out = new ProtobufWriter(inner.length + 16)
  out.blob(1, inner)
  return writeAny('TicketStatementQuery', out.take())
}

function readTicket(bytes: Uint8Array): StatementTicket {
  const ticket: StatementTicket = { id: '', query: '', prepared: '', dictionaries: false }
  fields(bytes, {
    1(r) {
      fields(readBytes(r), {
        1: (h) => (ticket.id = readString(h)),
        2: (h) => (ticket.query = readString(h)),
        3: (h) => (ticket.prepared = readString(h)),
        4: (h) => (ticket.dictionaries = readBool(h)),
      })
    },
  })
  return ticket
}
