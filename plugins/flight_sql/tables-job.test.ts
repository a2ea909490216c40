import { MessageReader, Schema } from 'apache-arrow'
import type { MeasurementInfo, Reader, SqlRequest } from 'svcdb'
import t from 'tap'
import listTables, { selectAll } from './tables-job.ts'
import { command, startFlight } from './testing.ts'

const COUNT = 1000
const measurements: MeasurementInfo[] = Array.from({ length: COUNT }, (_, i) => ({
  name: `m${i}`,
  tags: ['Host'],
  fields: [{ name: 'host', type: 'float64' }],
}))

t.test('many measurements are described with one statement, in many turns of the event loop', async (t) => {
  const statements: string[] = []
  const reader = {
    measurements: () => Promise.resolve(measurements),
    sql({ query }: SqlRequest) {
      statements.push(query)
      const rows = measurements.flatMap(({ name }) => ['_time', 'Host', 'host_1'].map((column, i) => [name, column, i + 1]))
      const columns = [0, 1, 2].map((place) => ({ values: rows.map((row) => row[place]) }))
      return Promise.resolve({
        columns: [],
        async *[Symbol.asyncIterator]() {
          yield { rows: rows.length, columns }
        },
      })
    },
  }
  let [turns, bytes, ended] = [0, 0, false]
  const count = (): void => {
    turns++
    if (!ended) setImmediate(count)
  }
  setImmediate(count)
  const args = { namespace: '', catalog: 'svc', namePattern: undefined, includeSchema: true, flights: false }
  const emit = async (part: Uint8Array): Promise<void> => {
    bytes += part.length
  }
  await listTables(reader as unknown as Reader, args, { emit, signal: new AbortController().signal } as never)
  ended = true
  t.equal(statements.length, 1)
  t.ok(turns >= COUNT / 100, `${turns} turns`)
  t.ok(bytes > COUNT * 100)
})

t.test('names that differ in case only are those of SQL, of few measurements and of many', async (t) => {
  const { flight, write } = await startFlight(t)
  await write(Array.from({ length: 30 }, (_, i) => `m${i},Host=a${i % 2 ? ',HOST=b' : ''} host=2,v=1i`).join('\n'))
  const named = async (pattern: string): Promise<Record<string, string[]>> => {
    const { rows } = await flight.read(command('CommandGetTables', { 3: pattern, 5: true }))
    return Object.fromEntries(rows.map((row) => [row.table_name, namesOf(row.table_schema as Uint8Array)]))
  }
  const many = await named('m%')
  t.equal(Object.keys(many).length, 30)
  for (const name of ['m1', 'm2', 'm29']) {
    t.same((await named(name))[name], many[name])
    const { table } = await flight.read(command('CommandStatementQuery', { 1: selectAll(name) }))
    t.same(
      table.schema.fields.map((field) => field.name),
      many[name],
    )
  }
})

function namesOf(bytes: Uint8Array): string[] {
  const schema = new MessageReader(bytes).readSchema()
  return schema instanceof Schema ? schema.fields.map(({ name }) => name) : []
}
