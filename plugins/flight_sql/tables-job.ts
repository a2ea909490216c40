/** CommandGetTables and ListFlights beside the data: there may be many measurements, and a schema for each. */
import { Binary, Utf8 } from 'apache-arrow'
import { arrowSchema, frame, schemaMessage } from '../../kernel/arrow/index.ts'
import type { FieldInfo, Job, MeasurementInfo, Reader, SqlColumn } from '../../kernel/storage.ts'
import { TABLE_TYPE } from './catalogue.ts'
import { writeTicket } from './commands.ts'
import { optional, required, schemaBytes, tableOfRows } from './flight-table.ts'
import { likeMatcher } from './like.ts'
import { PATH, writeInfo } from './messages.ts'
import { SCHEMA } from './target.ts'

export interface TablesArgs {
  namespace: string
  catalog: string
  namePattern: string | undefined
  includeSchema: boolean
  /** A FlightInfo for each measurement, in place of one table of them. */
  flights: boolean
  dictionaries: boolean
}

/** Clients that bound what they receive do so at 4 MiB a message. */
const BATCH_BYTES = 1 << 20
const ROW_BYTES = 32

const TABLE_FIELDS = [
  optional('catalog_name', new Utf8()),
  optional('db_schema_name', new Utf8()),
  required('table_name', new Utf8()),
  required('table_type', new Utf8()),
]
const WITH_SCHEMA = [...TABLE_FIELDS, required('table_schema', new Binary())]

/** The schema of the answer, before there is one. */
export function tablesSchema(includeSchema: boolean): Uint8Array {
  return schemaBytes(includeSchema ? WITH_SCHEMA : TABLE_FIELDS)
}

/** The answer when the filters leave nothing over. */
export function noTables(includeSchema: boolean): Uint8Array[] {
  return tableOfRows(includeSchema ? WITH_SCHEMA : TABLE_FIELDS, []).messages
}

const listTables: Job<TablesArgs, void> = async (reader, args, io) => {
  const { namespace, catalog, namePattern, includeSchema, flights, dictionaries } = args
  const matches = namePattern === undefined ? () => true : likeMatcher(namePattern)
  const measurements = reader
    .measurements(namespace)
    .filter(({ name }) => matches(name))
    .sort((a, b) => (a.name < b.name ? -1 : 1))
  const schemaOf = async (measurement: MeasurementInfo): Promise<Uint8Array> =>
    frame(schemaMessage(arrowSchema(await columnsOf(reader, namespace, measurement), flights && dictionaries)))
  if (flights) {
    for (const measurement of measurements) {
      const ticket = writeTicket({ id: '', query: selectAll(measurement.name), prepared: '', dictionaries })
      const descriptor = { type: PATH, cmd: new Uint8Array(0), path: [measurement.name] }
      await io.emit(writeInfo({ schema: await schemaOf(measurement), descriptor, ticket }))
    }
    return
  }
  const fields = includeSchema ? WITH_SCHEMA : TABLE_FIELDS
  let rows: unknown[][] = []
  let bytes = 0
  let begun = false
  const flush = async (): Promise<void> => {
    const { messages } = tableOfRows(fields, rows)
    for (const message of begun ? messages.slice(1) : messages) await io.emit(message)
    begun = true
    rows = []
    bytes = 0
  }
  for (const measurement of measurements) {
    const row: unknown[] = [catalog, SCHEMA, measurement.name, TABLE_TYPE]
    const schema = includeSchema ? await schemaOf(measurement) : undefined
    if (schema !== undefined) row.push(schema)
    rows.push(row)
    bytes += measurement.name.length + (schema?.length ?? 0) + ROW_BYTES
    if (bytes > BATCH_BYTES) await flush()
  }
  if (rows.length > 0 || !begun) await flush()
}

export function selectAll(measurement: string): string {
  return `SELECT * FROM "${measurement.replaceAll('"', '""')}"`
}

/** What `SELECT *` answers. Columns whose names differ in case only have other names in SQL, which it is asked for. */
async function columnsOf(reader: Reader, namespace: string, { name, tags, fields }: MeasurementInfo): Promise<SqlColumn[]> {
  const columns = [
    { name: '_time', type: 'Timestamp(ns)' },
    ...tags.map((tag) => ({ name: tag, type: 'Utf8' })),
    ...fields.map((field) => ({ name: field.name, type: typeOf(field) })),
  ]
  const names = new Set(columns.map((column) => column.name.toLowerCase()))
  return names.size === columns.length ? columns : (await reader.sql({ namespace, query: selectAll(name) })).columns
}

function typeOf({ type, scale }: FieldInfo): string {
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
    // SQL answers histograms as JSON.
    case 'string':
    case 'histogram':
      return 'Utf8'
  }
}

export default listTables
