"""A gRPC client generated from svc.proto. Arguments: the address, svc.proto, the URL of HTTP."""
import io
import sys
import threading
import time

import grpc
import pyarrow as pa
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase
from grpc_status import rpc_status
from google.protobuf.descriptor_pool import DescriptorPool
from google.rpc.error_details_pb2 import RetryInfo

import checks
from checks import contains, equal, fault
from generated import load

ADDRESS, PROTO, URL = sys.argv[1:4]
SECOND = 1_000_000_000
NOW = int(time.time()) // 60 * 60 * SECOND
Code = grpc.StatusCode

pb, services = load(PROTO)
channel = grpc.insecure_channel(ADDRESS, options=[('grpc.max_receive_message_length', -1), ('grpc.max_send_message_length', -1)])
stub = services.ServiceStub(channel)


def value_of(value):
    for kind, type in [('boolean', bool), ('int64', int), ('float64', float), ('string', str)]:
        if isinstance(value, type):
            return pb.FieldValue(**{kind: value})
    return value


def point(measurement, at, tags=None, **fields):
    return pb.Point(
        measurement=measurement, timestamp=at, tags=[pb.Tag(key=key, value=value) for key, value in (tags or {}).items()],
        fields=[pb.Field(key=key, value=value_of(value)) for key, value in fields.items()],
    )


def write(*points, **options):
    return stub.Write(pb.WriteRequest(points=points), **options)


def refused(code, call, *parts):
    try:
        call()
    except grpc.RpcError as error:
        equal(error.code(), code, error.details())
        contains(error.details(), *parts)
        return error
    raise AssertionError(f'{code} was not answered')


def arrow(request, **options):
    """The rows of Query as one table: the chunks together are an Arrow IPC stream."""
    stream = b''.join(message.arrow_ipc for message in stub.Query(request, **options))
    return pa.ipc.open_stream(io.BytesIO(stream)).read_all()


def scalar(value):
    if value.is_null:
        return None
    return getattr(value, value.WhichOneof('value'))


def check_write_and_query():
    """Write every kind of value, Query as Arrow and as rows"""
    values = {
        'f': pb.FieldValue(float64=-0.5), 'i': pb.FieldValue(int64=-(2**63)), 'u': pb.FieldValue(uint64=2**64 - 1), 'b': pb.FieldValue(boolean=False),
        's': pb.FieldValue(string='ünï'), 'd': pb.FieldValue(decimal='12.3400'),
    }
    equal(write(point('kinds', NOW, {'host': 'a', 'zone': 'ü'}, **values), point('kinds', NOW + 1, {'host': 'b'}, f=2.5)).written, 2)
    table = arrow(pb.QueryRequest(measurement='kinds'))
    first, second = sorted(table.drop_columns(['_time']).to_pylist(), key=lambda row: row['host'])
    equal(sorted(table.column('_time').cast(pa.int64()).to_pylist()), [NOW, NOW + 1])
    equal({name: str(value) for name, value in first.items() if name in values}, {'f': '-0.5', 'i': str(-(2**63)), 'u': str(2**64 - 1), 'b': 'False', 's': 'ünï', 'd': '12.3400'})
    equal((second['host'], second['zone'], second['f'], second['i']), ('b', None, 2.5, None))
    rows = [row for message in stub.Query(pb.QueryRequest(measurement='kinds', format=pb.ROWS)) for row in message.rows]
    by_host = {tag.value: row for row in rows for tag in row.tags if tag.key == 'host'}
    equal({tag.key: tag.value for tag in by_host['a'].tags}, {'host': 'a', 'zone': 'ü'})
    equal(by_host['a'].timestamp, NOW)
    equal({field.key: field.value for field in by_host['a'].fields}, values)
    equal({field.key: field.value.float64 for field in by_host['b'].fields}, {'f': 2.5})


def check_query_selection():
    """Query by range, tags, fields and limit"""
    write(*[point('chosen', NOW + index, {'host': f'h{index % 2}'}, a=float(index), b=index) for index in range(10)])
    request = pb.QueryRequest(
        measurement='chosen', range=pb.TimeRange(start=NOW + 2, end=NOW + 8), tag_filters=[pb.Tag(key='host', value='h0')], field_columns=['b'], limit=2,
    )
    table = arrow(request)
    equal(table.num_rows, 2)
    assert 'a' not in table.schema.names, table.schema.names
    equal(sorted(table.column('b').to_pylist()), [2, 4])
    refused(Code.NOT_FOUND, lambda: arrow(pb.QueryRequest(measurement='no_such_measurement')), 'no_such_measurement')
    refused(Code.INVALID_ARGUMENT, lambda: arrow(pb.QueryRequest(measurement='')))


def check_server_time():
    """A point without a timestamp has the server's"""
    before = time.time_ns()
    write(point('untimed', 0, v=1.0))
    (row,) = arrow(pb.QueryRequest(measurement='untimed')).cast(pa.schema([('_time', pa.int64()), ('v', pa.float64())])).to_pylist()
    assert before - 5 * SECOND < row['_time'] < time.time_ns() + 5 * SECOND, row


def check_large_query():
    """50,000 rows in several messages"""
    count = 50_000
    equal(write(*[point('large', NOW + index, {'host': f'h{index % 5}'}, v=index) for index in range(count)]).written, count)
    messages = list(stub.Query(pb.QueryRequest(measurement='large')))
    table = pa.ipc.open_stream(io.BytesIO(b''.join(message.arrow_ipc for message in messages))).read_all()
    equal(sorted(table.column('v').to_pylist()), list(range(count)))
    equal(sum(len(message.rows) for message in stub.Query(pb.QueryRequest(measurement='large', format=pb.ROWS))), count)


def check_stream_write():
    """StreamWrite counts all that was written, and takes a repeated key once"""
    def batches(keys):
        for key in keys:
            number = int(key.split('-')[1])
            yield pb.StreamWriteRequest(points=[point('streamed', NOW + number * 100 + index, v=number) for index in range(100)], dedup_key=key)

    answer = stub.StreamWrite(batches(['k-1', 'k-2', 'k-2', 'k-3', 'k-1']))
    equal(answer.total_written, 300)
    equal(arrow(pb.QueryRequest(measurement='streamed')).num_rows, 300)
    many = (pb.StreamWriteRequest(points=[point('stream_many', NOW + index, v=index)]) for index in range(5000))
    equal(stub.StreamWrite(many).total_written, 5000)
    equal(arrow(pb.QueryRequest(measurement='stream_many')).num_rows, 5000)


def check_stream_write_aborted():
    """A StreamWrite that the client gives up leaves the server well"""
    stop = threading.Event()

    def endless():
        index = 0
        while not stop.is_set():
            yield pb.StreamWriteRequest(points=[point('aborted', NOW + index, v=index)])
            index += 1
            time.sleep(0.001)

    call = stub.StreamWrite.future(endless())
    time.sleep(0.3)
    call.cancel()
    stop.set()
    assert stub.ServerInfo(pb.ServerInfoRequest()).version


def check_backfill():
    """Points before the live window need the flag"""
    old = NOW - 30 * 86_400 * SECOND
    write(point('window', NOW, v=1.0))
    refused(Code.INVALID_ARGUMENT, lambda: write(point('window', old, v=2.0)), str(old), 'backfill')
    equal(stub.Write(pb.WriteRequest(points=[point('window', old, v=2.0)], backfill=True)).written, 1)
    equal(arrow(pb.QueryRequest(measurement='window')).num_rows, 2)


def check_partial():
    """Of a partial write the good points stay; the status counts both"""
    error = refused(Code.INVALID_ARGUMENT, lambda: write(point('part', NOW, v=1.0), point('part', NOW + 1, v='text'), point('part', NOW + 2, v=3.0)), 'partial write')
    contains(error.details(), '2', '1', 'v')
    equal(dict(error.trailing_metadata()).get('svc-code'), 'PARTIAL_WRITE')
    equal(sorted(arrow(pb.QueryRequest(measurement='part')).column('v').to_pylist()), [1.0, 3.0])


def check_bad_points():
    """Points that are none: no name, no fields, reserved characters, a decimal that is no number"""
    refused(Code.INVALID_ARGUMENT, lambda: write(point('', NOW, v=1.0)))
    refused(Code.INVALID_ARGUMENT, lambda: write(point('bad', NOW)))
    refused(Code.INVALID_ARGUMENT, lambda: write(point('bad', NOW, {'a\x01': 'x'}, v=1.0)))
    refused(Code.INVALID_ARGUMENT, lambda: write(point('bad', NOW, d=pb.FieldValue(decimal='12x'))))
    equal(write().written, 0)


def check_schema():
    """GetSchema and ListMeasurements tell columns and roles"""
    write(point('shaped', NOW, {'host': 'a'}, f=1.0, i=1))
    columns = {column.name: (column.role, column.data_type) for column in stub.GetSchema(pb.SchemaRequest(measurement='shaped')).columns}
    equal({name: role for name, (role, _) in columns.items()}, {'_time': 'timestamp', 'host': 'tag', 'f': 'field', 'i': 'field'})
    listed = {measurement.name: len(measurement.columns) for measurement in stub.ListMeasurements(pb.ListMeasurementsRequest()).measurements}
    equal(listed['shaped'], 4)
    refused(Code.NOT_FOUND, lambda: stub.GetSchema(pb.SchemaRequest(measurement='no_such_measurement')), 'no_such_measurement')


def check_delete():
    """Delete by tags and range; DropMeasurement"""
    write(*[point('cleared', NOW + index, {'host': f'h{index % 2}'}, v=index) for index in range(10)])
    answer = stub.Delete(pb.DeleteRequest(measurement='cleared', tag_filters=[pb.Tag(key='host', value='h0')], range=pb.TimeRange(start=NOW, end=NOW + 5)))
    equal((answer.deleted, answer.segments_skipped), (1, 0), 'one series, no segment skipped')
    equal(sorted(arrow(pb.QueryRequest(measurement='cleared')).column('v').to_pylist()), [1, 3, 5, 6, 7, 8, 9])
    stub.DropMeasurement(pb.DropMeasurementRequest(measurement='cleared'))
    refused(Code.NOT_FOUND, lambda: arrow(pb.QueryRequest(measurement='cleared')), 'cleared')
    refused(Code.NOT_FOUND, lambda: stub.DropMeasurement(pb.DropMeasurementRequest(measurement='no_such_measurement')), 'no_such_measurement')


def check_server_info():
    """ServerInfo"""
    write(point('counted', NOW, v=1.0))
    info = stub.ServerInfo(pb.ServerInfoRequest())
    assert info.version and info.measurement_count > 0, info


def check_sql():
    """ExecuteSql: scalars of their own kind, NaN, json for the rest, nulls"""
    answer = stub.ExecuteSql(pb.SqlRequest(query=(
        "SELECT 1.5::DOUBLE AS f, 'nan'::DOUBLE AS n, -1::BIGINT AS i, 18446744073709551615::UBIGINT AS u, true AS b, 'x' AS s, 1.25::DECIMAL(38, 4) AS d, "
        "[1, 2] AS l, NULL::BIGINT AS nothing"
    )))
    equal([column.name for column in answer.columns], ['f', 'n', 'i', 'u', 'b', 's', 'd', 'l', 'nothing'])
    equal((answer.row_count, answer.truncated), (1, False))
    (row,) = answer.rows
    equal([value.WhichOneof('value') for value in row.values], ['float64', 'float64', 'int64', 'uint64', 'boolean', 'string', 'decimal', 'json', None])
    values = [scalar(value) for value in row.values]
    assert values[1] != values[1], values
    equal([values[0], *values[2:7], values[8]], [1.5, -1, 2**64 - 1, True, 'x', '1.2500', None])
    equal(values[7].replace(' ', ''), '[1,2]')
    refused(Code.INVALID_ARGUMENT, lambda: stub.ExecuteSql(pb.SqlRequest(query='SELEC 1')), 'SELEC')
    refused(Code.INVALID_ARGUMENT, lambda: stub.ExecuteSql(pb.SqlRequest(query='DROP TABLE kinds')))


def check_sql_truncated():
    """ExecuteSql cuts at the ceiling and says so"""
    answer = stub.ExecuteSql(pb.SqlRequest(query='SELECT * FROM range(100001)'))
    equal((answer.row_count, len(answer.rows), answer.truncated), (100_000, 100_000, True))


def check_deadline():
    """The deadline of the call ends a query at once"""
    begun = time.monotonic()
    query = pb.SqlRequest(query='SELECT count(*) FROM range(10000000) a, range(10000000) b')
    refused(Code.DEADLINE_EXCEEDED, lambda: stub.ExecuteSql(query, timeout=0.5))
    assert time.monotonic() - begun < 3
    equal(stub.ExecuteSql(pb.SqlRequest(query='SELECT 1')).row_count, 1)


def check_metadata():
    """Namespace, credentials, trace context and request id in the metadata"""
    metadata = [('x-namespace', 'default'), ('authorization', 'Bearer token'), ('traceparent', '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01')]
    answer, call = stub.ServerInfo.with_call(pb.ServerInfoRequest(), metadata=metadata)
    told = {key: value for key, value in [*call.initial_metadata(), *call.trailing_metadata()]}
    contains(told.get('traceparent', ''), '0af7651916cd43dd8448eb211c80319c')


def check_status_details():
    """A failure has its code in the trailers and a google.rpc.Status"""
    error = refused(Code.NOT_FOUND, lambda: stub.GetSchema(pb.SchemaRequest(measurement='no_such_measurement')))
    equal(dict(error.trailing_metadata())['svc-code'], 'NOT_FOUND')
    status = rpc_status.from_call(error)
    assert status is None or status.code == Code.NOT_FOUND.value[0], status


def check_failing_writes():
    """Writes that fail have the status of their failure, and say when to try again"""
    for code, status, retry in [
        ('BACKPRESSURE', Code.UNAVAILABLE, 1), ('OVERLOADED', Code.UNAVAILABLE, 60), ('STORAGE_FULL', Code.RESOURCE_EXHAUSTED, 5),
        ('WRITE_TIMEOUT', Code.DEADLINE_EXCEEDED, None), ('DATABASE_CLOSED', Code.UNAVAILABLE, None),
    ]:
        fault(URL, code)
        error = refused(status, lambda: write(point('failing', NOW, v=1.0)))
        equal(dict(error.trailing_metadata())['svc-code'], code)
        told = [RetryInfo.FromString(detail.value).retry_delay.seconds for detail in rpc_status.from_call(error).details if detail.Is(RetryInfo.DESCRIPTOR)]
        equal(told, [] if retry is None else [retry], code)
    equal(write(point('failing', NOW, v=1.0)).written, 1)


def check_stream_pushback():
    """StreamWrite is held back while the memtable is full, and nothing is lost"""
    fault(URL, 'BACKPRESSURE', 3)
    many = (pb.StreamWriteRequest(points=[point('pushed', NOW + index, v=index)]) for index in range(1000))
    equal(stub.StreamWrite(many).total_written, 1000)
    equal(arrow(pb.QueryRequest(measurement='pushed')).num_rows, 1000)


def check_unknown_method():
    """A method that there is not"""
    method = channel.unary_unary('/svc.Service/NoSuchMethod', request_serializer=bytes, response_deserializer=bytes)
    refused(Code.UNIMPLEMENTED, lambda: method(b''))
    garbage = channel.unary_unary('/svc.Service/Write', request_serializer=bytes, response_deserializer=bytes)
    refused(Code.INVALID_ARGUMENT, lambda: garbage(b'\xff\xff\xff\xff'))


def check_compression():
    """Requests compressed by gzip"""
    equal(stub.Write(pb.WriteRequest(points=[point('packed', NOW + index, v=1.0) for index in range(1000)]), compression=grpc.Compression.Gzip).written, 1000)


def check_health():
    """grpc.health.v1: Check and Watch"""
    health = health_pb2_grpc.HealthStub(channel)
    for service in ['', 'svc.Service']:
        equal(health.Check(health_pb2.HealthCheckRequest(service=service)).status, health_pb2.HealthCheckResponse.SERVING, service)
    refused(Code.NOT_FOUND, lambda: health.Check(health_pb2.HealthCheckRequest(service='none')))
    watch = health.Watch(health_pb2.HealthCheckRequest(service=''))
    equal(next(watch).status, health_pb2.HealthCheckResponse.SERVING)
    watch.cancel()


def check_reflection():
    """Reflection describes the service as the proto file does"""
    database = ProtoReflectionDescriptorDatabase(channel)
    assert 'svc.Service' in database.get_services(), database.get_services()
    service = DescriptorPool(database).FindServiceByName('svc.Service')
    equal(sorted(method.name for method in service.methods), sorted(method.name for method in pb.DESCRIPTOR.services_by_name['Service'].methods))
    equal(len(service.methods), 10)


checks.run(sys.modules[__name__])
