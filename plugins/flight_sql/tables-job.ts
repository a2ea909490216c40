/** CommandGetTables and ListFlights beside the data: there may be many measurements, and a schema for each. */
import { Binary, Utf8 } from 'apache-arrow'
import type { Job, MeasurementInfo, Reader } from 'svcdb'
import { frame, schemaMessage } from 'svcdb/lib/arrow'
import { RecentMap } from 'svcdb/lib/cache'
import { nextTurn } from 'svcdb/lib/event-loop'
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
/** Columns between two turns of the event loop, which other queries wait for: a measurement may have tens of thousands. */
const AT_ONCE = 256
/** Measurements whose names of columns SQL is asked for one by one; for more, it lists those of all. */
const ONE_BY_ONE = 20
const KEPT_BYTES = 4 << 20

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
  let columns = 0
  const pause = async ({ tags, fields }: MeasurementInfo): Promise<void> => {
    columns += 1 + tags.length + fields.length
    if (columns < AT_ONCE) return
    columns = 0
    await nextTurn()
  }
  const matches = namePattern === undefined ? () => true : likeMatcher(namePattern)
  const measurements = (await reader.measurements(namespace)).filter(({ name }) => matches(name)).sort((a, b) => (a.name < b.name ? -1 : 1))
  const schemas = includeSchema || flights ? await Schemas.of(reader, namespace, measurements, !flights) : undefined
  if (flights) {
    for (const measurement of measurements) {
      await pause(measurement)
      const ticket = writeTicket({ id: randomName(), query: selectAll(measurement.name), prepared: '', dictionaries: false })
      const descriptor = { type: PATH, cmd: new Uint8Array(0), path: [measurement.name] }
      await io.emit(writeInfo({ schema: schemas!.schema(measurement), descriptor, ticket }))
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
    await pause(measurement)
    const row: unknown[] = [catalog, SCHEMA, measurement.name, TABLE_TYPE]
    const schema = schemas?.schema(measurement)
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

/** Schemas of measurements: those that have the same columns share one. */
class Schemas {
  private readonly known = new RecentMap<string, Uint8Array>(KEPT_BYTES, (schema, key) => schema.length + 2 * key.length)
  private readonly names: ReadonlyMap<string, readonly string[]>
  private readonly described: boolean

  private constructor(names: ReadonlyMap<string, readonly string[]>, described: boolean) {
    this.names = names
    this.described = described
  }

  static async of(reader: Reader, namespace: string, measurements: readonly MeasurementInfo[], described: boolean): Promise<Schemas> {
    return new Schemas(await namesInSql(reader, namespace, measurements.filter(namesCollide)), described)
  }

  schema(measurement: MeasurementInfo): Uint8Array {
    const { tags, fields } = measurement
    const names = this.names.get(measurement.name)
    const key = JSON.stringify([tags, fields, names])
    let schema = this.known.get(key)
    if (schema === undefined) this.known.set(key, (schema = frame(schemaMessage(tableSchema(measurement, names, this.described)))))
    return schema
  }
}

/** Columns of measurements as SQL has them. */
async function namesInSql(reader: Reader, namespace: string, measurements: readonly MeasurementInfo[]): Promise<Map<string, string[]>> {
  const names = new Map<string, string[]>(measurements.map(({ name }) => [name, []]))
  if (measurements.length > ONE_BY_ONE) {
    const query = 'SELECT table_name, column_name, ordinal_position FROM information_schema.columns'
    for await (const { rows, columns } of await reader.sql({ namespace, query })) {
      const [tables, columnNames, positions] = columns.map(({ values }) => values)
      for (let i = 0; i < rows; i++) {
        const of = names.get(tables[i] as string)
        if (of !== undefined) of[(positions[i] as number) - 1] = columnNames[i] as string
      }
    }
  } else
    for (const { name } of measurements)
      names.set(
        name,
        (await reader.sql({ namespace, query: selectAll(name) })).columns.map((column) => column.name),
      )
  return names
}

export default listTables
