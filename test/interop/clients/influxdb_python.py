"""The client of InfluxDB 2 for Python: what it asks besides writing. Argument: the URL; line_protocol.database is "tag"."""
import sys
import time
import warnings

from checks import contains, equal, fails, run
from influxdb_client import InfluxDBClient
from influxdb_client.client.write_api import SYNCHRONOUS
from influxdb_client.rest import ApiException

url = sys.argv[1]
client = InfluxDBClient(url, token='any', org='any')
base = time.time_ns() // 10**9 * 10**9
warnings.simplefilter('ignore', DeprecationWarning)


def rows(query):
    import json
    import urllib.request

    body = json.dumps({'query': query}).encode()
    answer = urllib.request.urlopen(urllib.request.Request(f'{url}/api/v1/svc/sql', body, {'content-type': 'application/json'}))
    return json.loads(answer.read())['rows']


def check_health():
    """health, ready, ping and version"""
    health = client.health()
    equal((health.name, health.status, health.message), ('svc', 'pass', 'ready for queries and writes'))
    ready = client.ready()
    equal(ready.status, 'ready')
    equal(abs(ready.started.timestamp() - time.time()) < 600, True, 'started')
    contains(ready.up, 's')
    equal(client.ping(), True)
    contains(client.version(), 'svc')


def check_delete():
    """deletes by time and predicate in one bucket"""
    with client.write_api(write_options=SYNCHRONOUS) as api:
        for bucket in ['one', 'two']:
            lines = [f'cpu,host={host} v=1 {base + at}' for host in ['a', 'b c'] for at in range(3)]
            api.write(bucket, record=[line.replace('b c', 'b\\ c') for line in lines])
    start, stop = '1970-01-01T00:00:00Z', '2100-01-01T00:00:00Z'
    client.delete_api().delete(start, stop, '_measurement="cpu" AND host="b c"', bucket='one')
    equal(rows('SELECT db, host, count(*) FROM cpu GROUP BY 1, 2 ORDER BY 1, 2'), [['one', 'a', 3], ['two', 'a', 3], ['two', 'b c', 3]])
    error = fails(ApiException, lambda: client.delete_api().delete(start, stop, 'a="b" OR c="d"', bucket='one'), 'there is no OR')
    equal(error.status, 400)


def check_buckets():
    """finds buckets by name"""
    equal(client.buckets_api().find_bucket_by_name('one').name, 'one')
    equal([bucket.name for bucket in client.buckets_api().find_buckets().buckets], ['default'])


run(sys.modules[__name__])
