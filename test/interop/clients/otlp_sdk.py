"""The OpenTelemetry SDK of Python sends what otlp-sdk.test.ts knows of. Arguments: the URL, or `host:port` with `grpc`; `proto` or `grpc`; `cumulative` or `delta`."""
import sys

from opentelemetry.metrics import Observation
from opentelemetry.sdk.metrics import Counter, Histogram, MeterProvider, ObservableCounter
from opentelemetry.sdk.metrics.export import AggregationTemporality, PeriodicExportingMetricReader
from opentelemetry.sdk.metrics.view import ExponentialBucketHistogramAggregation, View
from opentelemetry.sdk.resources import Resource

url, encoding, temporality = sys.argv[1:4]
preferred = {kind: AggregationTemporality[temporality.upper()] for kind in (Counter, ObservableCounter, Histogram)}
if encoding == 'grpc':
    from grpc import Compression
    from opentelemetry.exporter.otlp.proto.grpc.metric_exporter import OTLPMetricExporter

    exporter = OTLPMetricExporter(endpoint=f'http://{url}', insecure=True, compression=Compression.Gzip, preferred_temporality=preferred)
else:
    assert encoding == 'proto', encoding
    from opentelemetry.exporter.otlp.proto.http import Compression
    from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter

    exporter = OTLPMetricExporter(endpoint=f'{url}/v1/metrics', compression=Compression.Gzip, preferred_temporality=preferred)
provider = MeterProvider(
    resource=Resource({'service.name': 'shop', 'service.instance.id': 'i-1'}),
    metric_readers=[PeriodicExportingMetricReader(exporter, export_interval_millis=3_600_000)],
    views=[View(instrument_name='app.size', aggregation=ExponentialBucketHistogramAggregation())],
)
meter = provider.get_meter('interop', '1.0')
requests = meter.create_counter('app.requests', description='Requests served', unit='{request}')
queue = meter.create_up_down_counter('app.queue')
temperature = meter.create_gauge('app.temperature', unit='Cel')
latency = meter.create_histogram('app.latency', unit='s', explicit_bucket_boundaries_advisory=[0.5, 1, 2])
size = meter.create_histogram('app.size', unit='By')
seconds = 0.0


def cpu(_options):
    global seconds
    seconds += 1.5
    return [Observation(seconds, {'core': 7, 'busy': True, 'flags': ['a', 'b']})]


meter.create_observable_counter('app.cpu', [cpu], unit='s')

requests.add(3, {'route': '/ü'})
requests.add(4, {'route': '/b'})
queue.add(5)
temperature.set(21.5)
for value in [0.1, 0.7, 3]:
    latency.record(value)
for value in [0, 1, 2, 4]:
    size.record(value)
provider.force_flush()
requests.add(2, {'route': '/ü'})
queue.add(-2)
temperature.set(19.25)
latency.record(0.2)
size.record(8)
provider.shutdown()
