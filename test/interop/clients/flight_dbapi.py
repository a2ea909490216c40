"""flightsql-dbapi, with which Superset asks: DB-API, parameters, SQLAlchemy. Argument: the address of Flight SQL. The server has the measurement dbapi."""
import sys

import flightsql.sqlalchemy  # makes its dialect known
from checks import equal, fails, run
from flightsql import FlightSQLClient, connect
from sqlalchemy import MetaData, Table, create_engine, inspect, select

host, port = sys.argv[1].split(':')


def cursor():
    return connect(FlightSQLClient(host=host, port=int(port), insecure=True)).cursor()


def check_rows():
    """rows and their description"""
    found = cursor().execute('SELECT host, v FROM dbapi ORDER BY host')
    equal([column[0] for column in found.description], ['host', 'v'])
    equal([tuple(row) for row in found.fetchall()], [('a', 1.5), ('b', 2.5)])


def check_parameters():
    """parameters of every type that it sends"""
    found = cursor().execute('SELECT host, ?, ?, ? FROM dbapi WHERE v > ? AND host = ?', ['x', True, b'\x00\xff', 2, 'b'])
    equal([tuple(row) for row in found.fetchall()], [('b', 'x', True, b'\x00\xff')])


def check_refused():
    """what is wrong with a statement"""
    fails(Exception, lambda: cursor().execute('SELECT nope FROM dbapi'), 'nope')


def check_sqlalchemy():
    """SQLAlchemy: schemas, tables, columns, a query"""
    engine = create_engine(f'datafusion+flightsql://{host}:{port}?insecure=True')
    inspector = inspect(engine)
    equal(inspector.get_schema_names(), ['main'])
    equal(inspector.get_table_names(), ['dbapi'])
    equal([column['name'] for column in inspector.get_columns('dbapi')], ['_time', 'host', 'v'])
    table = Table('dbapi', MetaData(), autoload_with=engine)
    with engine.connect() as connection:
        found = connection.execute(select(table.c.v).where(table.c.host == 'a'))
        equal([tuple(row) for row in found.fetchall()], [(1.5,)])


run(sys.modules[__name__])
