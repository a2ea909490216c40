/** CommandGetTables and ListFlights beside the data: there may be many measurements, and a schema for each. */
import { Binary, Utf8 } from 'apache-arrow'
import type { Job, MeasurementInfo, Reader } from 'svcdb'
import { frame, schemaMessage } from 'svcdb/lib/arrow'
import { randomName } from './bounded-map.ts'
import { TABLE_TYPE } from './catalogue.ts'
import { writeTicket } from './commands.ts'
import { optional, required, schemaBytes, tableOfRows } from './flight-table.ts'
import { likeMatcher } from './like.ts'
import { PATH, writeInfo } from './messages.ts'
import { namesCollide, tableSchema } from './table-columns.ts'
import { SCHEMA } from './target.ts'

export interface TablesArgs {
  namespace: string
  catalog: string
  namePattern: string | undefined
  includeSchema: boolean
  /** A FlightInfo for each measurement, in place of one table of them. */
  flights: boolean
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
  const { namespace, catalog, namePattern, includeSchema, flights } = args
  const matches = namePattern === undefined ? () => true : likeMatcher(namePattern)
  const measurements = (await reader.measurements(namespace)).filter(({ name }) => matches(name)).sort((a, b) => (a.name < b.name ? -1 : 1))
  if (flights) {
    for (const measurement of measurements) {
      const ticket = writeTicket({ id: randomName(), query: selectAll(measurement.name), prepared: '', dictionaries: false })
      const descriptor = { type: PATH, cmd: new Uint8Array(0), path: [measurement.name] }
      await io.emit(writeInfo({ schema: await schemaOf(reader, namespace, measurement, false), descriptor, ticket }))
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
    const schema = includeSchema ? await schemaOf(reader, namespace, measurement, true) : undefined
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

async function schemaOf(reader: Reader, namespace: string, measurement: MeasurementInfo, described: boolean): Promise<Uint8Array> {
  const names = namesCollide(measurement) ? (await reader.sql({ namespace, query: selectAll(measurement.name) })).columns.map(({ name }) => name) : undefined
  return frame(schemaMessage(tableSchema(measurement, names, described)))
}

export default listTables
