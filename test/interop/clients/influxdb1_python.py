"""The client of InfluxDB 1 for Python, as Home Assistant and Glances use it. Argument: the URL; names of databases are ignored."""
import json
import sys
import time
import urllib.request
from urllib.parse import urlsplit

from checks import contains, equal, fails, run
from influxdb import InfluxDBClient
from influxdb.exceptions import InfluxDBClientError

url = sys.argv[1]
address = urlsplit(url)
base = time.time_ns() // 10**9 * 10**9


def client(database, **options):
    return InfluxDBClient(address.hostname, address.port, 'root', 'root', database, **options)


def rows(query):
    body = json.dumps({'query': query}).encode()
    answer = urllib.request.urlopen(urllib.request.Request(f'{url}/api/v1/svc/sql', body, {'content-type': 'application/json'}))
    return json.loads(answer.read())['rows']


def check_database():
    """finds the database that it writes to, as Glances does, which stops without"""
    glances = client('glances')
    contains(glances.ping(), 'svc')
    glances.create_database('glances')
    equal(sorted(database['name'] for database in glances.get_list_database()), ['default', 'glances'])


def check_setup():
    """writes nothing and lists databases, as Home Assistant does when it is set up"""
    home = client('home_assistant', timeout=5, path='', gzip=False)
    equal(home.write_points([]), True)
    equal('series' in home.query('SHOW DATABASES;').raw, True)


def check_points():
    """writes points, in batches, lines and gzip"""
    fields = {'f': 0.1, 'i': 3, 's': 'a "b"\\', 'b': True}
    equal(client('a').write_points([{'measurement': 'm', 'tags': {'t': 'a b,c=d'}, 'time': base, 'fields': fields}]), True)
    equal(rows('SELECT t, f, i, s, b FROM m'), [['a b,c=d', 0.1, 3, 'a "b"\\', True]])
    points = [{'measurement': 'batch', 'tags': {'n': str(n)}, 'time': base // 10**6 + n, 'fields': {'v': float(n)}} for n in range(1000)]
    equal(client('a', gzip=True).write_points(points, time_precision='ms', batch_size=300), True)
    equal(rows('SELECT count(*), sum(v) FROM batch'), [[1000, 499500]])
    equal(client('a').write_points([f'line,a=b v=1 {base}'], protocol='line'), True)
    equal(rows('SELECT a, v FROM line'), [['b', 1]])


def check_errors():
    """errors say what is wrong"""
    wrong = ['m f="text"', 'm f=2']
    error = fails(InfluxDBClientError, lambda: client('a').write_points(wrong, protocol='line'), 'partial write: 1 point written, 1 rejected', 'line 1')
    equal(error.code, 400)
    fails(InfluxDBClientError, lambda: client('a').query('SELECT * FROM m'), 'knows CREATE DATABASE and SHOW DATABASES')


run(sys.modules[__name__])
