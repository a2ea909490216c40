import { type Table, tableFromIPC } from 'apache-arrow'
import { VERSION } from 'svcdb'
import t from 'tap'
import { command, descriptor, type FlightClient, infoOf, message, one, rowsOf, startFlight, tableOf } from './testing.ts'

const schemaOf = (table: Table) => table.schema.fields.map(({ name, type, nullable }) => `${name}: ${type}${nullable ? '' : ' not null'}`)

t.test('catalogue commands', async (t) => {
  const { flight, write } = await startFlight(t)
  await write(`cpu,host=a usage=1.5,n=3i,u=3u,ok=true,note="x",price=1.25d\ncpu_load,Host=a host=2\nmem,host=a used=2`)
  const names = async (fields: Parameters<typeof command>[1]) => (await flight.read(command('CommandGetTables', fields))).rows.map((row) => row.table_name)

  t.test('catalogs, schemas and table types', async (t) => {
    const catalogs = await flight.read(command('CommandGetCatalogs'))
    t.same(schemaOf(catalogs.table), ['catalog_name: Utf8 not null'])
    t.same(catalogs.rows, [{ catalog_name: 'svc' }])
    const schemas = await flight.read(command('CommandGetDbSchemas'))
    t.same(schemaOf(schemas.table), ['catalog_name: Utf8', 'db_schema_name: Utf8 not null'])
    t.same(schemas.rows, [{ catalog_name: 'svc', db_schema_name: 'main' }])
    for (const [fields, count] of [
      [{ 1: 'svc' }, 1],
      [{ 1: '' }, 0],
      [{ 1: 'other' }, 0],
      [{ 2: 'm_i%' }, 1],
      [{ 2: 'x%' }, 0],
    ] as const) {
      t.equal((await flight.read(command('CommandGetDbSchemas', fields))).rows.length, count, JSON.stringify(fields))
    }
    const [{ catalog_name: catalog, db_schema_name: schema }] = schemas.rows
    const asked = `SELECT count("${catalog}"."${schema}"."cpu"."n") AS n, current_database() AS catalog, current_schema() AS schema, version() AS version
      FROM "${catalog}"."${schema}"."cpu"`
    const { rows } = await flight.read(command('CommandStatementQuery', { 1: asked }))
    t.match(rows, [{ n: 1n, catalog, schema, version: `svc ${VERSION}` }], 'SQL takes the names, and says the same of itself')
    const types = await flight.read(command('CommandGetTableTypes'))
    t.same(schemaOf(types.table), ['table_type: Utf8 not null'])
    t.same(types.rows, [{ table_type: 'TABLE' }])
  })

  t.test('tables by every filter', async (t) => {
    const all = await flight.read(command('CommandGetTables'))
    t.same(schemaOf(all.table), ['catalog_name: Utf8', 'db_schema_name: Utf8', 'table_name: Utf8 not null', 'table_type: Utf8 not null'])
    t.same(all.rows[0], { catalog_name: 'svc', db_schema_name: 'main', table_name: 'cpu', table_type: 'TABLE' })
    t.same(await names({}), ['cpu', 'cpu_load', 'mem'])
    t.same(await names({ 1: 'svc', 2: 'main', 3: 'cpu%' }), ['cpu', 'cpu_load'])
    t.same(await names({ 3: 'cpu_' }), [])
    t.same(await names({ 3: 'cpu\\_load' }), ['cpu_load'])
    t.same(await names({ 3: '' }), [])
    t.same(await names({ 1: 'other' }), [])
    t.same(await names({ 2: 'other' }), [])
    for (const types of [['TABLE'], ['table'], ['BASE TABLE'], ['base table', 'VIEW']])
      t.same(await names({ 4: types }), ['cpu', 'cpu_load', 'mem'], types.join())
    t.same(await names({ 4: ['VIEW', 'SYSTEM TABLE'] }), [])
    t.match((await flight.call('DoGet', message({ 1: command('CommandGetTables', { 3: 'x'.repeat(2000) }) }))).error, { code: 3, details: /2000 characters/ })
  })

  t.test('the schemas of tables are those of SELECT *', async (t) => {
    const { rows, table } = await flight.read(command('CommandGetTables', { 5: true }))
    t.equal(schemaOf(table).at(-1), 'table_schema: Binary not null')
    t.equal(rows.length, 3)
    for (const row of rows) {
      const described = infoOf(one(await flight.call('GetFlightInfo', descriptor(row.table_name as string))))
      t.same(schemaOf(tableFromIPC(row.table_schema as Uint8Array)), schemaOf(tableFromIPC(described.schema)), row.table_name as string)
    }
    t.same((await flight.read(command('CommandGetTables', { 1: 'other', 5: true }))).rows, [])
    const [time, tag, ...fields] = tableFromIPC(rows[0].table_schema as Uint8Array).schema.fields
    t.match(Object.fromEntries(time.metadata), { role: 'timestamp', 'ARROW:FLIGHT:SQL:TYPE_NAME': 'TIMESTAMP_NS', 'ARROW:FLIGHT:SQL:REMARKS': 'timestamp' })
    t.match(Object.fromEntries(tag.metadata), { role: 'tag', 'ARROW:FLIGHT:SQL:TYPE_NAME': 'VARCHAR', 'ARROW:FLIGHT:SQL:IS_CASE_SENSITIVE': '1' })
    t.same(
      fields.map(({ metadata }) => metadata.get('ARROW:FLIGHT:SQL:TYPE_NAME')),
      ['DOUBLE', 'BIGINT', 'UBIGINT', 'BOOLEAN', 'VARCHAR', 'DECIMAL'],
    )
    t.match(Object.fromEntries(fields[5].metadata), { role: 'field', 'ARROW:FLIGHT:SQL:PRECISION': '38', 'ARROW:FLIGHT:SQL:SCALE': '2' })
  })

  t.test('there are no keys', async (t) => {
    const primary = await flight.read(command('CommandGetPrimaryKeys', { 3: 'cpu' }))
    t.same(schemaOf(primary.table), [
      'catalog_name: Utf8',
      'db_schema_name: Utf8',
      'table_name: Utf8 not null',
      'column_name: Utf8 not null',
      'key_name: Utf8',
      'key_sequence: Int32 not null',
    ])
    t.same(primary.rows, [])
    for (const [name, fields] of [
      ['CommandGetExportedKeys', { 3: 'cpu' }],
      ['CommandGetImportedKeys', { 3: 'cpu' }],
      ['CommandGetCrossReference', { 3: 'cpu', 6: 'mem' }],
    ] as const) {
      const keys = await flight.read(command(name, fields))
      t.same(keys.rows, [])
      t.same(schemaOf(keys.table), [
        'pk_catalog_name: Utf8',
        'pk_db_schema_name: Utf8',
        'pk_table_name: Utf8 not null',
        'pk_column_name: Utf8 not null',
        'fk_catalog_name: Utf8',
        'fk_db_schema_name: Utf8',
        'fk_table_name: Utf8 not null',
        'fk_column_name: Utf8 not null',
        'key_sequence: Int32 not null',
        'fk_key_name: Utf8',
        'pk_key_name: Utf8',
        'update_rule: Uint8 not null',
        'delete_rule: Uint8 not null',
      ])
    }
  })

  t.test('SQL info, all of it and by number', async (t) => {
    const all = await flight.read(command('CommandGetSqlInfo'))
    t.equal(all.schema[0], 'info_name: Uint32')
    t.match(all.schema[1], /^value: Union<Utf8 \| Bool \| Int64 \| Int32 \| List<Utf8> \| Map<\{key:Int32, value:List<Int32>\}>>/)
    const byNumber = new Map(all.rows.map((row) => [row.info_name, row.value]))
    t.equal(byNumber.size, all.rows.length)
    t.equal(byNumber.get(0), 'svc')
    t.equal(byNumber.get(1), VERSION)
    t.equal(byNumber.get(3), false)
    t.equal(byNumber.get(4), true)
    t.equal(byNumber.get(8), 0)
    t.equal(byNumber.get(504), '"')
    t.equal(byNumber.get(557), 1_048_576n)
    t.equal(byNumber.get(562), 0n, 'the JDBC driver casts it to Long')
    t.ok([...(byNumber.get(508) as Iterable<string>)].includes('select'))
    for (const number of [...Array(12).keys(), 100, 101, ...Array.from({ length: 77 }, (_, i) => 500 + i)]) {
      if (number !== 6 && number !== 7) t.ok(byNumber.has(number), `number ${number}`)
    }
    const some = await flight.read(command('CommandGetSqlInfo', { 1: Uint8Array.of(0, 10, 0x8f, 0x4e) }))
    t.same(some.rows, [
      { info_name: 0, value: 'svc' },
      { info_name: 10, value: true },
    ])
  })

  t.test('types', async (t) => {
    const all = await flight.read(command('CommandGetXdbcTypeInfo'))
    t.equal(all.schema.length, 19)
    t.ok(all.rows.length > 15)
    const decimal = await flight.read(command('CommandGetXdbcTypeInfo', { 1: 3 }))
    t.match(decimal.rows, [{ type_name: 'DECIMAL', data_type: 3, column_size: 38, create_params: ['precision', 'scale'], maximum_scale: 38 }])
    const order = all.rows.map((row) => [row.data_type as number, row.type_name as string] as const)
    t.same(
      order,
      order.toSorted((a, b) => a[0] - b[0] || (a[1] < b[1] ? -1 : 1)),
    )
  })
})

t.test('many measurements come in messages that every client takes', async (t) => {
  const { flight, write } = await startFlight(t)
  const fields = Array.from({ length: 40 }, (_, i) => `${'f'.repeat(200)}${i}=1`).join()
  await write(Array.from({ length: 150 }, (_, i) => `m${String(i).padStart(3, '0')},host=a ${fields}`).join('\n'))
  const answer = await flight.call('DoGet', message({ 1: command('CommandGetTables', { 5: true }) }))
  t.ok(answer.messages.length > 2)
  t.ok(answer.messages.every(({ length }) => length < 2 << 20))
  const names = rowsOf(tableOf(answer.messages)).map((row) => row.table_name)
  t.same(
    names,
    Array.from({ length: 150 }, (_, i) => `m${String(i).padStart(3, '0')}`),
  )
})

t.test('a tenant sees its own catalogue', async (t) => {
  const { flight, node } = await startFlight(t, { config: { server: { multi_tenancy: true } } })
  const written = await node.inject({ method: 'POST', url: '/write', payload: 'm v=1', headers: { 'content-type': 'text/plain', 'x-namespace': 'red' } })
  t.equal(written.statusCode, 204)
  const tables = (client: FlightClient, namespace: string) => client.read(command('CommandGetTables'), { 'x-namespace': namespace })
  t.match((await tables(flight, 'red')).rows, [{ catalog_name: 'red', table_name: 'm' }])
  t.same((await tables(flight, 'blue')).rows, [])
  t.same((await flight.sql('SELECT v FROM m', { 'x-namespace': 'red' })).rows, [{ v: 1 }])
  await t.rejects(flight.sql('SELECT v FROM m', { 'x-namespace': 'blue' }), { code: 3 })
})

t.end()
