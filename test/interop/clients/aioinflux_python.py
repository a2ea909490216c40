"""aioinflux, the asynchronous client of InfluxDB 1 for Python. Argument: the URL; names of databases are ignored."""
import asyncio
import json
import sys
import time
import urllib.request
from urllib.parse import urlsplit

from aioinflux import InfluxDBClient, InfluxDBError, InfluxDBWriteError
from checks import contains, equal, run

url = sys.argv[1]
address = urlsplit(url)
base = time.time_ns() // 10**9 * 10**9


def rows(query):
    body = json.dumps({'query': query}).encode()
    answer = urllib.request.urlopen(urllib.request.Request(f'{url}/api/v1/svc/sql', body, {'content-type': 'application/json'}))
    return json.loads(answer.read())['rows']


def with_client(use):
    async def main():
        async with InfluxDBClient(host=address.hostname, port=address.port, db='aio') as client:
            return await use(client)

    return asyncio.run(main())


def check_database():
    """pings, creates its database and finds it"""
    contains(with_client(lambda client: client.ping())['x-influxdb-version'], 'svc')
    equal(with_client(lambda client: client.create_database(db='aio'))['results'], [{'statement_id': 0}])
    contains(with_client(lambda client: client.show_databases())['results'][0]['series'][0]['values'], ['aio'])


def check_points():
    """writes a point and a generator of lines"""
    point = {'time': base, 'measurement': 'aio', 'tags': {'h': 'a b'}, 'fields': {'x': 1.5, 'n': 7, 's': 't "q"', 'b': True}}
    equal(with_client(lambda client: client.write(point)), True)
    equal(rows('SELECT h, x, n, s, b FROM aio'), [['a b', 1.5, 7, 't "q"', True]])
    lines = b'\n'.join(b'lines,h=c x=%d %d' % (i, base + i) for i in range(100))
    equal(with_client(lambda client: client.write(lines)), True)
    equal(rows('SELECT count(*) FROM lines'), [[100]])


def check_refusals():
    """shows the text of a refusal"""
    for error, call in ((InfluxDBWriteError, lambda client: client.write(b'aio,h=a x="text"')), (InfluxDBError, lambda client: client.query('SELECT x FROM aio'))):
        try:
            with_client(call)
        except error as raised:
            contains(str(raised), 'type conflict' if error is InfluxDBWriteError else 'knows CREATE DATABASE')
        else:
            raise AssertionError(f'{error} was not raised')


run(sys.modules[__name__])
