"""How fast pyarrow writes and reads over Flight SQL. Arguments: the address, the server's process id, and as name=value: rows, batch (rows), streams,
hosts, decimals, step_ms (less of it keeps several streams, of which one may get ahead, within the window for live points)."""
import os
import sys
import threading
import time

import numpy
import pyarrow as pa
import pyarrow.flight as flight

from flight_sql_commands import Session, describe, member

ADDRESS, PID = sys.argv[1:3]
settings = {'rows': 3_000_000, 'batch': 65_536, 'streams': 1, 'hosts': 1000, 'decimals': 0, 'step_ms': 10_000}
settings.update((name, int(value)) for name, value in (word.split('=') for word in sys.argv[3:]))
ROWS, BATCH, STREAMS, HOSTS = (settings[name] for name in ['rows', 'batch', 'streams', 'hosts'])
FIELDS = 10
STEP = settings['step_ms'] * 1_000_000

# All hosts report at the same times, the last time a little ago. As TSBS "cpu-only": values between 0 and 100.
end = time.time_ns() // STEP * STEP
random = numpy.random.default_rng(1)
names = pa.array([f'host_{index}' for index in range(HOSTS)])
POOL = 8
pool = [[pa.array(numpy.round(random.random(BATCH) * 100, settings['decimals'])) for _ in range(FIELDS)] for _ in range(POOL)]


def batch(number, count):
    rows = numpy.arange(number * BATCH, number * BATCH + count)
    at = pa.array(end - (ROWS // HOSTS) * STEP + rows // HOSTS * STEP).cast(pa.timestamp('ns'))
    host = pa.DictionaryArray.from_arrays(pa.array((rows % HOSTS).astype('int32')), names)
    fields = [values.slice(0, count) for values in pool[number % POOL]]
    return pa.record_batch([at, host, *fields], ['_time', 'host', *(f'v{index}' for index in range(FIELDS))])


def put(batches):
    session = Session(ADDRESS)
    writer, reader = session.client.do_put(describe('CommandStatementUpdate', member(1, 'speed')), batches[0].schema)
    for one in batches:
        writer.write_batch(one)
    writer.done_writing()
    reader.read()
    writer.close()


class Measure:
    """Prints rows and bytes a second, and the processor time of both sides."""

    def __init__(self, what):
        self.what = what
        self.rows = self.size = 0

    def __enter__(self):
        self.server, self.client, self.begun = processor(), time.process_time(), time.perf_counter()
        return self

    def __exit__(self, error, *_):
        seconds = time.perf_counter() - self.begun
        if error is not None:
            return
        server, client = ((after - before) / self.rows * 1e6 for before, after in [(self.server, processor()), (self.client, time.process_time())])
        speed = f'{self.rows / seconds:,.0f} rows/s, {self.size / seconds / 1e6:,.0f} MB/s'
        print(f'{self.what}: {speed}; processor a row: {server:.2f} µs in the server, {client:.2f} in the client', flush=True)


def processor():
    """Seconds that the server has used."""
    with open(f'/proc/{PID}/stat') as file:
        fields = file.read().rpartition(')')[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf('SC_CLK_TCK')


batches = [batch(number, min(BATCH, ROWS - number * BATCH)) for number in range(-(-ROWS // BATCH))]
# The server's just-in-time compiler has seen the code once.
put([one.slice(0, 1000) for one in batches[:3]])
# Rows adjacent in time go to different streams, so that all of them write at about the same time.
threads = [threading.Thread(target=put, args=(batches[index::STREAMS],)) for index in range(STREAMS)]
with Measure(f'DoPut, {FIELDS} float fields and a tag, {BATCH} rows a batch, {STREAMS} streams') as measure:
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    measure.rows, measure.size = ROWS, sum(one.nbytes for one in batches)

session = Session(ADDRESS)
QUERIES = {
    'time, tag, float': 'SELECT _time, host, v0 FROM speed',
    'three floats': 'SELECT v0, v1, v2 FROM speed',
    'time, two floats, ordered by time': 'SELECT _time, v0, v1 FROM speed ORDER BY _time',
}
# The first round reads what nothing has read yet.
for attempt in ['first', 'again']:
    for what, query in QUERIES.items():
        with Measure(f'DoGet, {what}, {attempt}') as measure:
            info = session.info('CommandStatementQuery', member(1, query))
            for chunk in session.client.do_get(info.endpoints[0].ticket):
                measure.rows += chunk.data.num_rows
                measure.size += chunk.data.nbytes
        assert measure.rows == ROWS, measure.rows
