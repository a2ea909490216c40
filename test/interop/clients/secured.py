"""Keys and TLS: pyarrow, ADBC and grpcio. Arguments: the addresses of Flight SQL and gRPC, the file of the server's certificate, svc.proto."""
import sys
import time

import adbc_driver_flightsql.dbapi as flightsql
import adbc_driver_manager
import grpc
import pyarrow as pa
import pyarrow.flight as flight

import checks
from checks import contains, equal, fails
from flight_sql_commands import Session, member
from generated import load

FLIGHT, GRPC, CERTIFICATE, PROTO = sys.argv[1:5]
NOW = int(time.time()) * 1_000_000_000
pem = open(CERTIFICATE).read()
pb, services = load(PROTO)
ROOTS = 'adbc.flight.sql.client_option.tls_root_certs'
HEADER = 'adbc.flight.sql.authorization_header'


def batch():
    return pa.record_batch({'_time': pa.array([NOW], pa.timestamp('ns')), 'v': pa.array([1.0])})


def bearer(key, *more):
    return flight.FlightCallOptions(headers=[(b'authorization', f'Bearer {key}'.encode()), *more])


def session(options=None):
    return Session(FLIGHT, options, tls=pem)


def adbc(**options):
    return flightsql.connect(f'grpc+tls://{FLIGHT}', db_kwargs={ROOTS: pem, **options}, autocommit=True)


def check_pyarrow():
    """pyarrow: a login, a key, none, a wrong one"""
    client = session().client
    for key in ['writer', 'reader']:
        pair = client.authenticate_basic_token('anybody', key)
        equal(session(flight.FlightCallOptions(headers=[pair])).sql('SELECT 1 AS n').num_rows, 1)
        equal(session(bearer(key)).sql('SELECT 1 AS n').num_rows, 1)
    fails(flight.FlightUnauthenticatedError, lambda: client.authenticate_basic_token('anybody', 'wrong'))
    fails(flight.FlightUnauthenticatedError, lambda: session().sql('SELECT 1'))
    fails(flight.FlightUnauthenticatedError, lambda: session(bearer('wrong')).sql('SELECT 1'))
    fails(flight.FlightUnauthenticatedError, lambda: session().put('m', [batch()]))
    fails(flight.FlightUnauthenticatedError, lambda: list(session().client.list_actions()))


def check_permissions():
    """pyarrow: who may read only may not write, and nobody gets into another namespace"""
    equal(session(bearer('writer')).put('m', [batch()]), 1)
    fails(flight.FlightUnauthorizedError, lambda: session(bearer('reader')).put('m', [batch()]), 'reader')
    equal(session(bearer('reader')).sql('SELECT v FROM m').num_rows, 1)
    fails(flight.FlightUnauthorizedError, lambda: session(bearer('writer', (b'x-namespace', b'other'))).sql('SELECT 1'), 'other')


def check_adbc():
    """ADBC: a user name and a password, a header, none, a wrong one"""
    for options in [{'username': 'anybody', 'password': 'writer'}, {HEADER: 'Bearer writer'}]:
        with adbc(**options) as connection, connection.cursor() as cursor:
            cursor.adbc_ingest('adbc', pa.Table.from_batches([batch()]), mode='create_append')
            cursor.execute('SELECT v FROM adbc')
            equal(cursor.fetchall(), [(1.0,)])
    for options in [{'username': 'anybody', 'password': 'wrong'}, {HEADER: 'Bearer wrong'}, {}]:
        def attempt():
            with adbc(**options) as connection, connection.cursor() as cursor:
                cursor.execute('SELECT 1')

        error = fails(adbc_driver_manager.Error, attempt)
        equal(error.status_code, adbc_driver_manager.AdbcStatusCode.UNAUTHENTICATED, str(options))


def check_adbc_reader():
    """ADBC: who may read only is told so when writing"""
    with adbc(username='anybody', password='reader') as connection, connection.cursor() as cursor:
        error = fails(adbc_driver_manager.Error, lambda: cursor.adbc_ingest('adbc', pa.Table.from_batches([batch()]), mode='create_append'), 'reader')
        equal(error.status_code, adbc_driver_manager.AdbcStatusCode.UNAUTHORIZED)


def check_grpc():
    """grpcio: a key, none, a wrong one, one that may read only"""
    channel = grpc.secure_channel(GRPC, grpc.ssl_channel_credentials(pem.encode()))
    stub = services.ServiceStub(channel)
    write = pb.WriteRequest(points=[pb.Point(measurement='grpc', timestamp=NOW, fields=[pb.Field(key='v', value=pb.FieldValue(float64=1))])])

    def code(key, call, request):
        try:
            call(request, metadata=[] if key is None else [('authorization', f'Bearer {key}')])
        except grpc.RpcError as error:
            return error.code()
        return grpc.StatusCode.OK

    equal([code(key, stub.Write, write) for key in ['writer', 'reader', 'wrong', None]], [
        grpc.StatusCode.OK, grpc.StatusCode.PERMISSION_DENIED, grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.UNAUTHENTICATED,
    ])
    equal(code('reader', stub.ServerInfo, pb.ServerInfoRequest()), grpc.StatusCode.OK)


def check_plain():
    """A client without TLS gets an error, not a hang"""
    fails(pa.ArrowException, lambda: Session(FLIGHT).sql('SELECT 1', flight.FlightCallOptions(timeout=10)))


checks.run(sys.modules[__name__])
