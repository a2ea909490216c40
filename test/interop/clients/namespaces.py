"""Namespaces kept apart: pyarrow, ADBC and grpcio. Arguments: the addresses of Flight SQL and gRPC, svc.proto. The server has multi_tenancy."""
import io
import sys
import time

import adbc_driver_flightsql.dbapi as flightsql
import adbc_driver_manager
import grpc
import pyarrow as pa
import pyarrow.flight as flight

import checks
from checks import equal, fails
from flight_sql_commands import Session, member
from generated import load

FLIGHT, GRPC, PROTO = sys.argv[1:4]
NOW = int(time.time()) * 1_000_000_000
NAMES = ['north', 'south']
pb, services = load(PROTO)
stub = services.ServiceStub(grpc.insecure_channel(GRPC))


def session(name):
    return Session(FLIGHT, flight.FlightCallOptions(headers=[(b'x-namespace', name.encode())]))


def values(table):
    return sorted(table.column('v').to_pylist())


def check_pyarrow():
    """pyarrow: rows, tables and catalogs of one namespace are not those of another"""
    for number, name in enumerate(NAMES):
        batch = pa.record_batch({'_time': pa.array([NOW], pa.timestamp('ns')), 'v': pa.array([float(number)])})
        session(name).put('shared', [batch])
        session(name).put(f'only_{name}', [batch])
    for number, name in enumerate(NAMES):
        equal(values(session(name).sql('SELECT v FROM shared')), [float(number)])
        equal(session(name).get('CommandGetTables').column('table_name').to_pylist(), [f'only_{name}', 'shared'])
        equal(session(name).get('CommandGetTables', member(1, 'no_such_catalog')).num_rows, 0)
    fails(pa.ArrowException, lambda: session('north').sql('SELECT * FROM only_south'), 'only_south')
    # A ticket is good in its own namespace only for what that has.
    ticket = session('north').info('CommandStatementQuery', member(1, 'SELECT v FROM shared')).endpoints[0].ticket
    equal(values(session('south').client.do_get(ticket, session('south').options).read_all()), [1.0])


def check_prepared():
    """pyarrow and ADBC: a prepared statement runs in the namespace of its caller"""
    for number, name in enumerate(NAMES):
        options = {'adbc.flight.sql.rpc.call_header.x-namespace': name}
        with flightsql.connect(f'grpc://{FLIGHT}', db_kwargs=options, autocommit=True) as connection, connection.cursor() as cursor:
            cursor.adbc_ingest('adbc', pa.table({'_time': pa.array([NOW], pa.timestamp('ns')), 'v': [float(number)]}), mode='create')
            cursor.execute('SELECT v FROM adbc WHERE v >= ?', (0,))
            equal(cursor.fetchall(), [(float(number),)])
            other = NAMES[1 - number]
            fails(adbc_driver_manager.Error, lambda: cursor.execute(f'SELECT * FROM only_{other}'), f'only_{other}')


def check_grpc():
    """grpcio: writes, queries, lists and drops"""
    for number, name in enumerate(NAMES):
        metadata = [('x-namespace', name)]
        field = pb.Field(key='v', value=pb.FieldValue(float64=number))
        stub.Write(pb.WriteRequest(points=[pb.Point(measurement='grpc', timestamp=NOW, fields=[field])]), metadata=metadata)
    for number, name in enumerate(NAMES):
        metadata = [('x-namespace', name)]
        stream = b''.join(message.arrow_ipc for message in stub.Query(pb.QueryRequest(measurement='grpc'), metadata=metadata))
        equal(values(pa.ipc.open_stream(io.BytesIO(stream)).read_all()), [float(number)])
        names = [measurement.name for measurement in stub.ListMeasurements(pb.ListMeasurementsRequest(), metadata=metadata).measurements]
        assert f'only_{name}' in names and f'only_{NAMES[1 - number]}' not in names, names
    stub.DropMeasurement(pb.DropMeasurementRequest(measurement='grpc'), metadata=[('x-namespace', 'north')])
    equal(stub.ExecuteSql(pb.SqlRequest(query='SELECT v FROM grpc'), metadata=[('x-namespace', 'south')]).row_count, 1)


checks.run(sys.modules[__name__])
