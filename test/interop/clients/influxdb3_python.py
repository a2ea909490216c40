"""The client of InfluxDB 3 for Python. Arguments: the address of Flight SQL and the URL."""
import sys
import time

from checks import contains, equal, fails, fault, run
from influxdb_client_3 import SYNCHRONOUS, InfluxDBClient3, Point, WriteOptions, WriteType, write_client_options
from influxdb_client_3.exceptions.exceptions import InfluxDB3ClientQueryError, InfluxDBPartialWriteError
from influxdb_client_3.write_client.write_exceptions import ApiException

flight, url = sys.argv[1:3]
base = time.time_ns() // 10**9 * 10**9


def client(options=SYNCHRONOUS, **callbacks):
    return InfluxDBClient3(
        host=url,
        database='any',
        token='any',
        query_port_overwrite=int(flight.split(':')[-1]),
        write_client_options=write_client_options(write_options=options, **callbacks),
    )


def check_types():
    """a point comes back to the bit"""
    fields = {'f': 0.1 + 0.2, 'i': 2**63 - 1, 'b': True, 's': 'a "b"\\ é'}
    point = Point('types').tag('h', 'a b,c=d').time(base + 123456789)
    for name, value in fields.items():
        point = point.field(name, value)
    with client() as c:
        c.write(point)
        [row] = c.query('SELECT * FROM types').to_pylist()
        equal(row.pop('_time').value, base + 123456789)
        equal(row, {'h': 'a b,c=d', **fields})


def check_parameters():
    """values by name"""
    with client() as c:
        c.write([f'named,h={h} v={v}i {base + v}' for v, h in enumerate('abc')])
        table = c.query('SELECT v FROM named WHERE h = $h OR v = $v ORDER BY v', query_parameters={'h': 'a', 'v': 2, 'unused': 1.5})
        equal(table.to_pydict(), {'v': [0, 2]})


def check_modes():
    """a reader of batches, a frame"""
    with client() as c:
        c.write([f'modes v={v} {base + v}' for v in range(1000)])
        equal(sum(chunk.data.num_rows for chunk in c.query('SELECT * FROM modes', mode='chunk')), 1000)
        equal(c.query('SELECT sum(v) AS v FROM modes', mode='pandas')['v'].tolist(), [499500.0])


def check_batches():
    """batches are sent again after 503 and not after 400"""
    retried, refused = [], []
    options = WriteOptions(batch_size=100, flush_interval=200, retry_interval=100, max_retry_delay=200, jitter_interval=0)
    c = client(options, retry_callback=lambda *_: retried.append(1), error_callback=lambda *a: refused.append(a[-1]))
    fault(url, 'BACKPRESSURE', 2)
    for v in range(1000):
        c.write(Point('batches').field('v', v / 3).time(base + v))
    c.write(f'batches v="text" {base + 1000}')
    c.close()
    with client() as again:
        rows = again.query('SELECT epoch_ns(_time) AS t, v FROM batches ORDER BY t').to_pydict()
    equal(rows['t'], [base + v for v in range(1000)])
    equal(rows['v'], [v / 3 for v in range(1000)])
    equal(len(retried) >= 2, True, f'{len(retried)} repetitions')
    equal([error.status for error in refused], [400])


def check_errors():
    """what is refused is told"""
    with client() as c:
        error = fails(ApiException, lambda: c.write(f'errors v=1 {base}\nerrors v=warm {base}'), 'partial write: 1 point written, 1 rejected')
        equal(error.status, 400)
        fails(InfluxDB3ClientQueryError, lambda: c.query('SELECT * FROM none_such'), 'SHOW TABLES lists them')
        fails(InfluxDB3ClientQueryError, lambda: c.query('SELECT time FROM errors'), 'the time of a point is the column _time')
        fails(InfluxDB3ClientQueryError, lambda: c.query('SELECT v FROM errors', language='influxql'), 'only "sql" is answered')
        contains(c.get_server_version(), 'svc')
    with client(WriteOptions(write_type=WriteType.synchronous, use_v2_api=False)) as c:
        lines = f'listed v=1 {base}\nlisted v=warm {base}\nlisted w= {base}'
        error = fails(InfluxDBPartialWriteError, lambda: c.write(lines), 'partial write: 1 point written, 2 rejected')
        equal([(line.line_number, line.error_message.split(': ')[-1]) for line in error.line_errors], [(2, 'invalid boolean'), (3, 'missing field value')])


run(sys.modules[__name__])
