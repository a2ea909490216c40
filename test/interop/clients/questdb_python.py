"""The client of QuestDB for Python, and prometheus-api-client, which asks for what that wrote. Argument: the URL."""
import datetime
import sys
import time

from checks import contains, equal, fails, fault, run
from prometheus_api_client import PrometheusConnect
from questdb import QuestDBError, Sender, ServerTimestamp, TimestampMicros, TimestampNanos

url = sys.argv[1]
conf = f'http::addr={url.split("//")[1]};'
now = time.time_ns() // 10**9 * 10**9
prometheus = PrometheusConnect(url=url)


def check_rows():
    """rows of each type, with the server's time and their own"""
    with Sender.from_conf(conf) as sender:
        columns = {'price': 2615.54, 'amount': 7, 'note': 'a "b"', 'buy': True}
        sender.row('trades', symbols={'pair': 'ETH USD'}, columns=columns, at=TimestampNanos(now))
        sender.row('trades', symbols={'pair': 'x'}, columns={'price': 1.0}, at=ServerTimestamp)


def check_missing_numbers():
    """a number that is missing, NaN, costs neither its row nor others"""
    with Sender.from_conf(conf) as sender:
        for i, columns in enumerate(({'v': float('nan'), 'n': 1}, {'v': float('nan')}, {'v': 2.5})):
            sender.row('frames', symbols={'row': str(i)}, columns=columns, at=TimestampNanos(now))
    found = prometheus.custom_query('{__name__=~"frames_.*"}')
    names = sorted((series['metric']['__name__'], series['metric']['row'], series['value'][1]) for series in found)
    equal(names, [('frames_n', '0', '1'), ('frames_v', '2', '2.5')])


def check_retries():
    """503 is tried again"""
    fault(url, 'BACKPRESSURE', 2)
    with Sender.from_conf(conf + 'retry_timeout=20000;token=any;') as sender:
        sender.row('retried', columns={'v': 1.5}, at=TimestampNanos(now))


def check_refused():
    """what is refused is told: another type, a column of times"""
    def write(columns):
        with Sender.from_conf(conf) as sender:
            sender.row('trades', columns=columns, at=TimestampNanos(now))

    fails(QuestDBError, lambda: write({'price': 'text'}), 'SCHEMA_ERROR')
    fails(QuestDBError, lambda: write({'when': TimestampMicros(5)}), 'unable to parse')


def check_names():
    """metrics, label names and values"""
    equal(prometheus.check_prometheus_connection(), True)
    contains(prometheus.all_metrics(), 'trades_price', 'retried_v')
    contains(prometheus.get_label_names(), 'pair')
    equal(prometheus.get_label_values('pair'), ['ETH USD', 'x'])


def check_values():
    """values at a time and over a range"""
    [found] = prometheus.get_current_metric_value('trades_price', label_config={'pair': 'ETH USD'})
    equal(found['metric'], {'__name__': 'trades_price', 'pair': 'ETH USD'})
    equal(found['value'][1], '2615.54')
    start, end = [datetime.datetime.fromtimestamp(now / 10**9 + seconds) for seconds in (-600, 60)]
    whole = prometheus.get_metric_range_data('trades_price', start_time=start, end_time=end, chunk_size=end - start)
    [series] = [series for series in whole if series['metric']['pair'] == 'ETH USD']
    equal(series['values'], [[now / 10**9, '2615.54']])
    [sums] = prometheus.custom_query_range('sum(trades_price{pair="ETH USD"})', start, end, '15s')
    equal(set(value for _, value in sums['values']), {'2615.54'})


run(sys.modules[__name__])
