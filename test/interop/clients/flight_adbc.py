"""ADBC's Flight SQL driver. Arguments: the address of Flight SQL, the URL of HTTP."""
import datetime
import decimal
import sys
import time

import adbc_driver_flightsql
import adbc_driver_flightsql.dbapi as flightsql
import adbc_driver_manager
import pyarrow as pa

import checks
from checks import equal, fails

ADDRESS, URL = sys.argv[1:3]
SECOND = 1_000_000_000
# Seconds within which a query that would take days ends when it is told to, on a busy machine too.
ENDS = 60
NOW = int(time.time()) // 60 * 60 * SECOND
Error = adbc_driver_manager.Error
# The driver has no transactions with a server that has none; every statement stands for itself.
connection = flightsql.connect(f'grpc://{ADDRESS}', autocommit=True)


def times(count):
    return pa.array([NOW + index for index in range(count)], pa.timestamp('ns'))


def ask(query, parameters=None, on=connection):
    with on.cursor() as cursor:
        cursor.execute(query, parameters)
        return cursor.fetch_arrow_table()


def ingest(name, table, mode='append', **options):
    with connection.cursor() as cursor:
        return cursor.adbc_ingest(name, table, mode=mode, **options)


def check_select():
    """execute and fetch: values as Python knows them"""
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1::BIGINT AS n, 'x' AS s, 1.5::DOUBLE AS f, true AS b, 1.25::DECIMAL(38, 4) AS d, NULL::BIGINT AS nothing")
        equal([column[0] for column in cursor.description], ['n', 's', 'f', 'b', 'd', 'nothing'])
        equal(cursor.fetchall(), [(1, 'x', 1.5, True, decimal.Decimal('1.2500'), None)])


def check_login():
    """A user name and a password, a token, headers of the caller's own"""
    name = adbc_driver_flightsql.DatabaseOptions.RPC_CALL_HEADER_PREFIX.value + 'x-namespace'
    header = adbc_driver_flightsql.DatabaseOptions.AUTHORIZATION_HEADER.value
    for options in [{'username': 'user', 'password': 'password'}, {header: 'Bearer token'}, {name: 'default'}]:
        with flightsql.connect(f'grpc://{ADDRESS}', db_kwargs=options, autocommit=True) as other:
            equal(ask('SELECT 7 AS n', on=other).num_rows, 1, str(options))


def check_ingest():
    """adbc_ingest: modes, tags and fields, nulls, and the number of rows"""
    schema = pa.schema([
        pa.field('_time', pa.timestamp('ns')), pa.field('host', pa.utf8()), pa.field('f', pa.float64()), pa.field('i', pa.int64()),
        pa.field('s', pa.utf8(), metadata={'role': 'field'}), pa.field('d', pa.decimal128(38, 2)),
    ])
    table = pa.table([times(3), ['a', 'b', None], [1.5, None, 2.5], [1, 2, None], ['x', None, 'y'], [decimal.Decimal('1.25'), None, decimal.Decimal('-3.00')]], schema=schema)
    equal(ingest('adbc', table, 'create'), 3)
    equal(ingest('adbc', table), 3)
    result = ask('SELECT * FROM adbc ORDER BY _time')
    equal(result.num_rows, 3)
    for name in ['host', 'f', 'i', 's', 'd']:
        equal(result.column(name).to_pylist(), table.column(name).to_pylist(), name)
    equal(ingest('adbc_new', table, 'create_append'), 3)


def check_ingest_modes():
    """mode=create fails where the measurement exists, mode=append where it does not, mode=replace always; nothing is lost"""
    table = pa.table({'_time': times(1), 'v': [1.0]})
    equal(ingest('created', table, 'create'), 1)
    fails(Error, lambda: ingest('created', table, 'create'), 'created')
    fails(Error, lambda: ingest('created', table, 'replace'))
    fails(Error, lambda: ingest('not_created', table, 'append'), 'not_created')
    fails(Error, lambda: ingest('temporary', table, 'append', temporary=True))
    equal(ask('SELECT v FROM created').to_pydict(), {'v': [1.0]})


def check_ingest_many():
    """adbc_ingest of 100,000 rows from a reader of many batches"""
    batches = [pa.record_batch({
        '_time': pa.array([NOW + part * 10_000 + index for index in range(10_000)], pa.timestamp('ns')), 'host': pa.array([f'h{part}'] * 10_000),
        'v': pa.array(range(10_000), pa.int64()),
    }) for part in range(10)]
    equal(ingest('many', pa.RecordBatchReader.from_batches(batches[0].schema, batches), 'create_append'), 100_000)
    equal(ask('SELECT count(*) AS n, count(DISTINCT host) AS h FROM many').to_pydict(), {'n': [100_000], 'h': [10]})
    equal(ask('SELECT v FROM many').num_rows, 100_000)


def check_ingest_table():
    """adbc_ingest of a table of 90 MB in chunks, and the driver's error for one in one piece"""
    count = 1_000_000
    values = pa.array(range(count), pa.float64())
    table = pa.table({'_time': pa.array([NOW - index * 1000 for index in range(count)], pa.timestamp('ns')), **{f'v{index}': values for index in range(10)}})
    fails(Error, lambda: ingest('whole', table, 'create_append'), 'message larger than max')
    equal(ingest('chunks', table.to_reader(max_chunksize=65_536), 'create_append'), count)
    equal(ask('SELECT count(*) AS n, sum(v9) AS s FROM chunks').to_pydict(), {'n': [count], 's': [count * (count - 1) / 2]})


def check_parameters():
    """Prepared with parameters: one row, several types, several runs"""
    ingest('bound', pa.table({'_time': times(4), 'host': ['a', 'b', 'a', 'b'], 'v': [1.0, 2.0, 3.0, 4.0], 'n': pa.array([1, 2, 3, 4], pa.int64())}), 'create_append')
    equal(ask('SELECT n FROM bound WHERE host = ? AND v > ? ORDER BY n', ('a', 1.5)).to_pydict(), {'n': [3]})
    equal(ask('SELECT n FROM bound WHERE host = ? ORDER BY n', ('b',)).to_pydict(), {'n': [2, 4]})
    equal(ask('SELECT n FROM bound WHERE n = ? AND ?', (2, True)).to_pydict(), {'n': [2]})
    with connection.cursor() as cursor:
        query = 'SELECT n FROM bound WHERE n >= $1 AND host = $2 ORDER BY n'
        for parameters, expected in [((2, 'a'), [(3,)]), ((1, 'b'), [(2,), (4,)]), ((9, 'a'), [])]:
            cursor.execute(query, parameters)
            equal(cursor.fetchall(), expected)


def check_parameters_of_time():
    """A time as a parameter, and a null"""
    ingest('bound_time', pa.table({'_time': times(3), 'v': [1.0, 2.0, 3.0]}), 'create_append')
    query = 'SELECT v FROM bound_time WHERE _time >= ? ORDER BY v'
    with connection.cursor() as cursor:
        cursor.execute(query, pa.record_batch([pa.array([NOW + 1], pa.timestamp('ns'))], names=['0']))
        equal(cursor.fetchall(), [(2.0,), (3.0,)])
        cursor.execute('SELECT coalesce(?, -1) AS n', (None,))
        equal([int(row[0]) for row in cursor.fetchall()], [-1])


def check_prepare():
    """adbc_prepare tells the parameters; executemany of a query"""
    with connection.cursor() as cursor:
        schema = cursor.adbc_prepare('SELECT 1 AS n WHERE 1 = ? AND 2 = ?')
        assert schema is None or len(schema) == 2, schema


def check_wrong_parameters():
    """Too few parameters are an error that says so"""
    fails(Error, lambda: ask('SELECT ? AS a, ? AS b', (1,)))
    fails(Error, lambda: ask('SELECT ? AS a'))


def check_schema_of_query():
    """adbc_execute_schema: the schema without a run"""
    with connection.cursor() as cursor:
        schema = cursor.adbc_execute_schema("SELECT 1::BIGINT AS n, 'x' AS s")
        equal([(field.name, str(field.type)) for field in schema], [('n', 'int64'), ('s', 'string')])


def check_partitions():
    """adbc_execute_partitions and adbc_read_partition"""
    with connection.cursor() as cursor:
        partitions, schema = cursor.adbc_execute_partitions('SELECT 5::BIGINT AS n')
        equal([field.name for field in schema], ['n'])
        equal(len(partitions), 1)
        cursor.adbc_read_partition(partitions[0])
        equal(cursor.fetchall(), [(5,)])


def check_objects():
    """get_objects at every depth, with filters"""
    ingest('listed', pa.table({'_time': times(1), 'host': ['a'], 'v': [1.0]}), 'create_append')
    catalogs = connection.adbc_get_objects(depth='catalogs').read_all().to_pylist()
    equal(len(catalogs), 1)
    schemas = connection.adbc_get_objects(depth='db_schemas').read_all().to_pylist()
    assert len(schemas[0]['catalog_db_schemas']) >= 1, schemas
    tables = connection.adbc_get_objects(depth='tables', table_name_filter='listed').read_all().to_pylist()
    found = [table for schema in tables[0]['catalog_db_schemas'] for table in schema['db_schema_tables']]
    equal([(table['table_name'], table['table_type']) for table in found], [('listed', 'TABLE')])
    everything = connection.adbc_get_objects(depth='all', table_name_filter='listed').read_all().to_pylist()
    columns = [column for schema in everything[0]['catalog_db_schemas'] for table in schema['db_schema_tables'] for column in table['table_columns']]
    equal([column['column_name'] for column in columns], ['_time', 'host', 'v'])
    some = connection.adbc_get_objects(depth='all', table_name_filter='listed', column_name_filter='h%').read_all().to_pylist()
    columns = [column for schema in some[0]['catalog_db_schemas'] for table in schema['db_schema_tables'] for column in table['table_columns']]
    equal([column['column_name'] for column in columns], ['host'])


def check_table_schema():
    """get_table_schema, of a measurement and of none; get_table_types"""
    ingest('shaped', pa.table({'_time': times(1), 'host': ['a'], 'v': [1.0]}), 'create_append')
    schema = connection.adbc_get_table_schema('shaped')
    equal({field.name: str(field.type) for field in schema}, {'_time': 'timestamp[ns]', 'host': 'string', 'v': 'double'})
    fails(Error, lambda: connection.adbc_get_table_schema('no_such_measurement'))
    assert 'TABLE' in connection.adbc_get_table_types()


def check_info():
    """get_info: name and version of the server"""
    info = connection.adbc_get_info()
    assert 'svc' in info['vendor_name'].lower(), info
    assert info['vendor_version'], info


def check_errors():
    """What is wrong is told as the DB API tells it, and the connection stays good"""
    fails(adbc_driver_manager.Error, lambda: ask('SELEC 1'), 'SELEC')
    fails(adbc_driver_manager.Error, lambda: ask('SELECT * FROM no_such_measurement'), 'no_such_measurement')
    fails(adbc_driver_manager.Error, lambda: ask('DROP TABLE listed'))
    fails(adbc_driver_manager.Error, lambda: ask('SELECT * FROM range(100001)'), 'sql_max_rows')
    error = fails(adbc_driver_manager.Error, lambda: ask("SELECT 'x'::BIGINT"))
    equal(error.status_code, adbc_driver_manager.AdbcStatusCode.INVALID_ARGUMENT)
    equal(ask('SELECT 1 AS n').num_rows, 1)


def check_no_transactions():
    """Transactions are refused: there are none"""
    fails(Error, lambda: connection.adbc_connection.set_autocommit(False))


def check_timeout():
    """The time limit of the caller ends a query"""
    with connection.cursor() as cursor:
        cursor.adbc_statement.set_options(**{adbc_driver_flightsql.StatementOptions.TIMEOUT_QUERY.value: 0.5, adbc_driver_flightsql.StatementOptions.TIMEOUT_FETCH.value: 0.5})
        begun = time.monotonic()
        fails(Error, lambda: (cursor.execute('SELECT count(*) FROM range(10000000) a, range(10000000) b'), cursor.fetchall()))
        assert time.monotonic() - begun < ENDS
    equal(ask('SELECT 1 AS n').num_rows, 1)


def check_cancel():
    """cancel from another thread ends a query"""
    import threading

    with connection.cursor() as cursor:
        threading.Timer(0.5, cursor.adbc_cancel).start()
        begun = time.monotonic()
        fails(Error, lambda: (cursor.execute('SELECT count(*) FROM range(10000000) a, range(10000000) b'), cursor.fetchall()))
        assert time.monotonic() - begun < ENDS
    equal(ask('SELECT 1 AS n').num_rows, 1)


def check_temporal():
    """Dates, times and instants"""
    result = ask("SELECT DATE '2024-02-29' AS day, TIMESTAMP_NS '2024-02-29 12:00:00.000000001' AS at")
    equal(result.column('day').to_pylist(), [datetime.date(2024, 2, 29)])
    equal([value.value for value in result.column('at')], [1709208000000000001])


checks.run(sys.modules[__name__])
