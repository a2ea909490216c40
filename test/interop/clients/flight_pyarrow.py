"""pyarrow.flight against Flight SQL. Arguments: the address of Flight SQL, the URL of HTTP."""
import decimal
import json
import sys
import time
import urllib.request

import pyarrow as pa
import pyarrow.flight as flight

import checks
from checks import contains, equal, fails, fault
from flight_sql_commands import Session, describe, member

ADDRESS, URL = sys.argv[1:3]
SECOND = 1_000_000_000
# The live window moves with what is written: everything but the test of backfill stays close to now.
NOW = int(time.time()) // 60 * 60 * SECOND
TIME = pa.timestamp('ns')
session = Session(ADDRESS)
Decimal = decimal.Decimal


def times(count, step=1_000_000, start=NOW):
    return pa.array([start + index * step for index in range(count)], TIME)


def as_field(name, type):
    return pa.field(name, type, metadata={'role': 'field'})


def table(count, **columns):
    return pa.record_batch({'_time': times(count), **columns})


def post(path, body, kind='application/json'):
    request = urllib.request.Request(URL + path, body.encode(), {'content-type': kind})
    return urllib.request.urlopen(request).read().decode()


def types_of(result):
    return {field.name: str(field.type) for field in result.schema}


def check_types():
    """DoPut of every type with nulls, dictionary tags, role=field and decimals; DoGet gives the same"""
    schema = pa.schema([
        pa.field('_time', TIME), pa.field('host', pa.dictionary(pa.int32(), pa.utf8())), pa.field('zone', pa.utf8()), pa.field('f', pa.float64()),
        pa.field('i', pa.int64()), pa.field('u', pa.uint64()), pa.field('b', pa.bool_()), as_field('s', pa.utf8()), pa.field('d', pa.decimal128(38, 4)),
    ])
    columns = {
        '_time': [NOW + index for index in range(5)],
        'host': ['a', 'b', None, 'a', 'ü'],
        'zone': [None, 'z', 'y', None, 'z'],
        'f': [1.5, -0.0, 1e308, None, 5e-324],
        'i': [-(2**63), 2**63 - 1, None, 0, 2**53 + 1],
        'u': [0, 2**64 - 1, 2**63, None, 1],
        'b': [True, None, False, True, None],
        's': ['text', '', None, 'ünï 🙂 "quoted"', 'a\nb'],
        'd': [Decimal('1.2500'), None, Decimal('-99999999999999.9999'), Decimal('0.0001'), Decimal('0')],
    }
    batch = pa.record_batch([pa.array(columns[field.name], field.type) for field in schema], schema)
    equal(session.put('types', [batch]), 5)
    result = session.sql('SELECT _time, host, zone, f, i, u, b, s, d FROM types ORDER BY _time')
    equal(types_of(result), {
        '_time': 'timestamp[ns]', 'host': 'string', 'zone': 'string', 'f': 'double', 'i': 'int64', 'u': 'uint64', 'b': 'bool', 's': 'string',
        'd': 'decimal128(38, 4)',
    })
    for name, expected in columns.items():
        column = result.column(name)
        equal(column.cast(pa.int64()).to_pylist() if name == '_time' else column.to_pylist(), expected, name)


def check_seen_by_http():
    """A write is at once visible through HTTP, and one through HTTP here"""
    session.put('shared', [table(2, host=pa.array(['a', 'b']), v=pa.array([1.5, 2.5]))])
    rows = json.loads(post('/api/v1/svc/query', '{"measurement": "shared"}'))
    equal(sorted((row['tags']['host'], row['fields']['v']) for row in rows), [('a', 1.5), ('b', 2.5)])
    post('/write', f'shared,host=c v=3.5 {NOW}', 'text/plain')
    equal(session.sql('SELECT host, v FROM shared ORDER BY host').to_pydict(), {'host': ['a', 'b', 'c'], 'v': [1.5, 2.5, 3.5]})


def check_roles():
    """Utf8 columns are tags, those of role=field are fields"""
    schema = pa.schema([pa.field('_time', TIME), pa.field('tag', pa.utf8()), as_field('text', pa.utf8()), as_field('code', pa.dictionary(pa.int32(), pa.utf8()))])
    batch = pa.record_batch([times(1), pa.array(['t']), pa.array(['x']), pa.array(['c']).dictionary_encode()], schema)
    session.put('roles', [batch])
    (row,) = json.loads(post('/api/v1/svc/query', '{"measurement": "roles"}'))
    equal((row['tags'], row['fields']), ({'tag': 't'}, {'text': 'x', 'code': 'c'}))


def check_batches():
    """Many batches, slices of batches, and dictionaries that grow and change"""
    hosts = [f'host-{index % 7}' for index in range(3000)]
    whole = table(3000, host=pa.array(hosts), v=pa.array([None if index % 5 == 0 else index for index in range(3000)], pa.int64()))
    equal(session.put('sliced', [whole.slice(start, 250) for start in range(0, 3000, 250)]), 2400)
    result = session.sql('SELECT host, v FROM sliced WHERE v IS NOT NULL ORDER BY v')
    equal(result.column('v').to_pylist(), [index for index in range(3000) if index % 5 != 0])
    equal(result.column('host').to_pylist(), [host for index, host in enumerate(hosts) if index % 5 != 0])
    changing = [
        pa.record_batch({'_time': times(2, start=NOW + part * SECOND), 'host': pa.array([f'h{part}', 'same']).dictionary_encode(), 'v': pa.array([part, part])})
        for part in range(4)
    ]
    equal(session.put('changing', changing), 8)
    result = session.sql("SELECT host, v FROM changing WHERE host <> 'same' ORDER BY v")
    equal(result.to_pydict(), {'host': ['h0', 'h1', 'h2', 'h3'], 'v': [0, 1, 2, 3]})


def check_null_entries():
    """A null among the entries of a dictionary is no value"""
    entries = pa.DictionaryArray.from_arrays(pa.array([0, 1, None], pa.int32()), pa.array(['x', None]))
    schema = pa.schema([pa.field('_time', TIME), pa.field('tag', entries.type), as_field('text', entries.type), pa.field('v', pa.int64())])
    equal(session.put('null_entries', [pa.record_batch([times(3), entries, entries, pa.array([0, 1, 2])], schema)]), 3)
    result = session.sql('SELECT tag, text FROM null_entries ORDER BY v').to_pydict()
    equal(result, {'tag': ['x', None, None], 'text': ['x', None, None]})


def check_deltas():
    """Delta dictionaries"""
    grown = [
        pa.record_batch({
            '_time': times(1, start=NOW + part * SECOND),
            'host': pa.DictionaryArray.from_arrays(pa.array([part], pa.int32()), pa.array([f'h{index}' for index in range(part + 1)])),
            'v': pa.array([part]),
        })
        for part in range(3)
    ]
    options = flight.FlightCallOptions(write_options=pa.ipc.IpcWriteOptions(emit_dictionary_deltas=True))
    equal(session.put('deltas', grown, options=options), 3)
    equal(session.sql('SELECT host, v FROM deltas ORDER BY v').to_pydict(), {'host': ['h0', 'h1', 'h2'], 'v': [0, 1, 2]})


def check_compression():
    """Record batches compressed with LZ4 and with Zstandard"""
    for codec in ['lz4', 'zstd']:
        options = flight.FlightCallOptions(write_options=pa.ipc.IpcWriteOptions(compression=codec))
        batch = table(5000, host=pa.array(['a'] * 5000), v=pa.array(range(5000)))
        equal(session.put(f'packed_{codec}', [batch], options=options), 5000)
        equal(session.sql(f'SELECT count(*) AS n, sum(v) AS s FROM packed_{codec}').column('n').to_pylist(), [5000])


def check_narrow_types():
    """Narrower numbers, large strings and times of other units are taken for the nearest type"""
    batch = pa.record_batch({
        '_time': pa.array([NOW // 1_000_000], pa.timestamp('ms', tz='UTC')), 'host': pa.array(['a'], pa.large_utf8()), 'f': pa.array([1.5], pa.float32()),
        'i': pa.array([-7], pa.int32()), 'j': pa.array([-8], pa.int8()), 'u': pa.array([9], pa.uint32()),
    })
    equal(session.put('narrow', [batch]), 1)
    result = session.sql('SELECT * FROM narrow')
    equal(result.column('_time').cast(pa.int64()).to_pylist(), [NOW])
    equal({name: result.column(name).to_pylist()[0] for name in ['host', 'f', 'i', 'j', 'u']}, {'host': 'a', 'f': 1.5, 'i': -7, 'j': -8, 'u': 9})


def check_backfill():
    """Points before the live window are refused, and taken with backfill in app_metadata"""
    day = 86_400 * SECOND
    session.put('windowed', [table(1, v=pa.array([1.0]))])
    old = pa.record_batch({'_time': times(2, start=NOW - 30 * day), 'v': pa.array([2.0, 3.0])})
    fails(pa.ArrowInvalid, lambda: session.put('windowed', [old]), str(NOW - 30 * day), 'backfill')
    equal(session.put('windowed', [old], metadata=b'{"backfill": true}'), 2)
    equal(session.sql('SELECT v FROM windowed ORDER BY v').column('v').to_pylist(), [1.0, 2.0, 3.0])
    fails(pa.ArrowInvalid, lambda: session.put('windowed', [old], metadata=b'{"backfil": true}'), 'backfil')
    fails(pa.ArrowInvalid, lambda: session.put('windowed', [old], metadata=b'not json'))


def check_partial():
    """Of a partial write the good points stay, and the error counts both and gives the first reason"""
    session.put('part', [table(1, v=pa.array([1.0]))])
    mixed = pa.record_batch({'_time': pa.array([NOW + 1, NOW - 40 * 86_400 * SECOND, NOW + 2], TIME), 'v': pa.array([2.0, 3.0, 4.0])})
    error = fails(pa.ArrowInvalid, lambda: session.put('part', [mixed]), 'partial write')
    contains(str(error), '2', '1')
    equal(session.sql('SELECT v FROM part ORDER BY v').column('v').to_pylist(), [1.0, 2.0, 4.0])


def check_conflict():
    """A field of another type than the measurement has is refused, and names the field"""
    session.put('conflict', [table(1, v=pa.array([1.0]))])
    fails(pa.ArrowInvalid, lambda: session.put('conflict', [table(1, v=pa.array([True]))]), 'v')
    fails(pa.ArrowInvalid, lambda: session.put('conflict', [table(1, v=pa.array([[1, 2]]))]), 'v')


def check_decimals():
    """A decimal outside of the stored range is an error"""
    small = pa.array([Decimal('1.5')], pa.decimal128(10, 2))
    equal(session.put('decimals', [table(1, d=small)]), 1)
    equal(session.sql('SELECT d FROM decimals').column('d').to_pylist(), [Decimal('1.50')])
    fails(pa.ArrowInvalid, lambda: session.put('decimals', [table(1, d=pa.array([Decimal('1.234')], pa.decimal128(10, 3)))]), 'd')
    fails(pa.ArrowInvalid, lambda: session.put('wide', [table(1, d=pa.array([Decimal('1' * 60)], pa.decimal256(70, 0)))]), 'd')


def check_bad_time():
    """A batch without a column of times, or with times that are none, is refused"""
    fails(pa.ArrowInvalid, lambda: session.put('untimed', [pa.record_batch({'_time': pa.array(['now']), 'v': pa.array([1.0])})]), '_time')
    fails(pa.ArrowException, lambda: session.sql('SELECT * FROM untimed'))


def check_ingest_command():
    """CommandStatementIngest writes as CommandStatementUpdate does"""
    append = member(1, member(1, 1) + member(2, 2))
    batch = table(3, host=pa.array(['a', 'b', 'c']), v=pa.array([1, 2, 3]))
    equal(session.put('', [batch], 'CommandStatementIngest', [append, member(2, 'ingested')]), 3)
    equal(session.sql('SELECT sum(v)::BIGINT AS s FROM ingested').to_pydict(), {'s': [6]})


def check_empty():
    """An empty batch writes nothing; an empty result has its schema"""
    session.put('known', [table(1, v=pa.array([1.0]))])
    equal(session.put('known', [table(0, v=pa.array([], pa.float64()))]), 0)
    result = session.sql('SELECT _time, v FROM known WHERE v > 5')
    equal((result.num_rows, types_of(result)), (0, {'_time': 'timestamp[ns]', 'v': 'double'}))


def check_large():
    """90,000 rows come back whole, in order and in several batches"""
    count = 90_000
    equal(session.put('large', [table(count, host=pa.array([f'h{i % 10}' for i in range(count)]), v=pa.array(range(count)))]), count)
    info = session.info('CommandStatementQuery', member(1, 'SELECT _time, host, v FROM large ORDER BY _time'))
    reader = session.client.do_get(info.endpoints[0].ticket)
    batches = [chunk.data for chunk in reader]
    result = pa.Table.from_batches(batches)
    equal(result.column('v').to_pylist(), list(range(count)))
    equal(result.column('host').to_pylist(), [f'h{i % 10}' for i in range(count)])
    assert len(batches) > 1, len(batches)


def check_nested():
    """Lists, structs, maps, intervals and times of SQL come as Arrow knows them, or as text"""
    result = session.sql("SELECT [1, 2] AS list, {'a': 1, 'b': 'x'} AS struct, DATE '2024-02-29' AS day, TIME '12:30:00' AS clock, 'x'::BLOB AS bytes, NULL AS nothing")
    equal(result.num_rows, 1)
    result.validate(full=True)
    equal(str(result.column('day').to_pylist()[0]), '2024-02-29')


def check_select_1():
    """SELECT without FROM"""
    result = session.sql('select 1')
    equal((result.num_rows, [column.to_pylist() for column in result.columns]), (1, [[1]]))


def check_schema_only():
    """GetSchema tells the schema without a query being run"""
    schema = session.client.get_schema(describe('CommandStatementQuery', member(1, 'SELECT 1::BIGINT AS n, 1.5::DOUBLE AS f, \'x\' AS s'))).schema
    equal([(field.name, str(field.type)) for field in schema], [('n', 'int64'), ('f', 'double'), ('s', 'string')])


def check_catalog():
    """The commands of the catalog"""
    session.put('cataloged', [table(1, host=pa.array(['a']), v=pa.array([1.0]))])
    catalogs = session.get('CommandGetCatalogs')
    equal((catalogs.schema.names, catalogs.num_rows), (['catalog_name'], 1))
    equal(session.get('CommandGetDbSchemas').schema.names, ['catalog_name', 'db_schema_name'])
    assert 'TABLE' in session.get('CommandGetTableTypes').column('table_type').to_pylist()
    all_tables = session.get('CommandGetTables')
    equal(all_tables.schema.names, ['catalog_name', 'db_schema_name', 'table_name', 'table_type'])
    assert {'cataloged', 'types'} <= set(all_tables.column('table_name').to_pylist())
    one = session.get('CommandGetTables', member(3, 'catalog_'), member(4, 'BASE TABLE'), member(4, 'table'), member(5, True))
    equal(one.column('table_name').to_pylist(), [])
    one = session.get('CommandGetTables', member(3, 'cataloge_'), member(4, 'BASE TABLE'), member(4, 'table'), member(5, True))
    equal(one.column('table_name').to_pylist(), ['cataloged'])
    schema = pa.ipc.read_schema(pa.py_buffer(one.column('table_schema').to_pylist()[0]))
    equal({field.name: str(field.type) for field in schema}, {'_time': 'timestamp[ns]', 'host': 'string', 'v': 'double'})
    equal(session.get('CommandGetTables', member(4, 'VIEW')).num_rows, 0)
    for name in ['CommandGetPrimaryKeys', 'CommandGetExportedKeys', 'CommandGetImportedKeys']:
        equal(session.get(name, member(3, 'cataloged')).num_rows, 0, name)
    info = session.get('CommandGetSqlInfo')
    names = dict(zip(info.column('info_name').to_pylist(), info.column('value').to_pylist()))
    assert len(names) > 50 and isinstance(names[0], str) and names[3] is False, names
    equal(session.get('CommandGetSqlInfo', member(1, 0)).num_rows, 1)
    types = session.get('CommandGetXdbcTypeInfo')
    assert types.num_rows > 0, types


def check_errors():
    """Errors carry the status that each kind of failure has"""
    fails(pa.ArrowInvalid, lambda: session.sql('SELEC 1'), 'SELEC')
    fails(pa.ArrowException, lambda: session.sql('SELECT * FROM no_such_measurement'), 'no_such_measurement')
    fails(pa.ArrowInvalid, lambda: session.sql('DROP TABLE types'))
    fails(pa.ArrowInvalid, lambda: session.sql("COPY types TO '/tmp/x'"))
    fails(pa.ArrowException, lambda: session.client.get_flight_info(flight.FlightDescriptor.for_command(b'\xff\xff\xff')))
    fails(pa.ArrowException, lambda: session.client.get_flight_info(flight.FlightDescriptor.for_path('a', 'b')))
    fails(pa.ArrowException, lambda: session.client.do_get(flight.Ticket(b'nonsense')).read_all())
    fails(pa.ArrowException, lambda: list(session.client.do_action(flight.Action('NoSuchAction', b''))), 'NoSuchAction')
    # The session is good for more afterwards.
    equal(session.sql('SELECT 2 AS n').num_rows, 1)


def check_ceiling():
    """More rows than the ceiling are refused, not cut"""
    # pyarrow has no exception of its own for RESOURCE_EXHAUSTED.
    error = fails(pa.ArrowException, lambda: session.sql('SELECT * FROM range(100001)'), 'sql_max_rows')
    contains(str(error).lower(), 'exhausted')


def check_deadline():
    """The client's deadline ends queries, and the server is free for others at once"""
    from concurrent.futures import ThreadPoolExecutor

    slow = 'SELECT count(*) AS n FROM range(10000000) a, range(10000000) b'
    begun = time.monotonic()
    with ThreadPoolExecutor(8) as pool:
        ended = [pool.submit(fails, flight.FlightTimedOutError, lambda: session.sql(slow, flight.FlightCallOptions(timeout=0.5))) for _ in range(8)]
        for one in ended:
            one.result()
    equal(session.sql('SELECT 3 AS n', flight.FlightCallOptions(timeout=10)).num_rows, 1)
    assert time.monotonic() - begun < 10, time.monotonic() - begun


def check_cancel():
    """A reader that goes away ends the query"""
    info = session.info('CommandStatementQuery', member(1, 'SELECT * FROM range(100000) ORDER BY 1'))
    reader = session.client.do_get(info.endpoints[0].ticket)
    reader.read_chunk()
    reader.cancel()
    equal(session.sql('SELECT 4 AS n').num_rows, 1)


def check_pushback():
    """A stream of batches is held back while the memtable is full, and nothing is lost"""
    batches = [pa.record_batch({'_time': times(1000, start=NOW + part * SECOND), 'v': pa.array(range(1000))}) for part in range(20)]
    fault(URL, 'BACKPRESSURE', 5)
    equal(session.put('pushed', batches), 20_000)
    equal(session.sql('SELECT count(*) AS n FROM pushed').column('n').to_pylist(), [20_000])


def check_failing_writes():
    """Writes that fail have the status of their failure"""
    batch = table(1, v=pa.array([1.0]))
    for code, error, text in [
        ('STORAGE_FULL', pa.ArrowException, 'exhausted'), ('OVERLOADED', flight.FlightUnavailableError, 'unavailable'),
        ('WRITE_TIMEOUT', flight.FlightTimedOutError, ''), ('RATE_LIMITED', pa.ArrowException, 'exhausted'),
    ]:
        fault(URL, code)
        fails(error, lambda: session.put('failing', [batch]), text)
    equal(session.put('failing', [batch]), 1)


def check_login():
    """A name and a password get a token, which later calls send"""
    pair = session.client.authenticate_basic_token('user', 'password')
    equal(pair[0], b'authorization')
    contains(pair[1].decode(), 'Bearer ')
    options = flight.FlightCallOptions(headers=[pair, (b'x-namespace', b'default')])
    equal(session.sql('SELECT 5 AS n', options).num_rows, 1)


def check_http_port():
    """A call to the HTTP port ends at once, and the error names the ports of gRPC"""
    mistaken = flight.connect(URL.replace('http://', 'grpc://'))
    within = flight.FlightCallOptions(timeout=60)
    fails(NotImplementedError, lambda: mistaken.do_get(flight.Ticket(b'cpu'), within), 'flight_sql.addr')


def check_actions():
    """ListActions names the actions of Flight SQL"""
    names = {action.type for action in session.client.list_actions()}
    for name in ['CreatePreparedStatement', 'ClosePreparedStatement']:
        assert name in names, names
    list(session.client.list_flights())


def check_concurrent():
    """Eight readers and writers at once"""
    from concurrent.futures import ThreadPoolExecutor

    def one(index):
        own = Session(ADDRESS)
        own.put(f'many_{index}', [table(2000, host=pa.array(['a'] * 2000), v=pa.array(range(2000)))])
        return own.sql(f'SELECT count(*) AS n FROM many_{index}').column('n').to_pylist()[0]

    with ThreadPoolExecutor(8) as pool:
        equal(list(pool.map(one, range(8))), [2000] * 8)


checks.run(sys.modules[__name__])
