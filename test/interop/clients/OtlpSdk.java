// The OpenTelemetry SDK of Java sends what otlp-sdk.test.ts knows of. Arguments: the URL, or `host:port` with `grpc`; `proto` or `grpc`; `cumulative` or `delta`.
import io.opentelemetry.api.common.AttributeKey;
import io.opentelemetry.api.common.Attributes;
import io.opentelemetry.api.metrics.DoubleGauge;
import io.opentelemetry.api.metrics.DoubleHistogram;
import io.opentelemetry.api.metrics.LongCounter;
import io.opentelemetry.api.metrics.LongHistogram;
import io.opentelemetry.api.metrics.LongUpDownCounter;
import io.opentelemetry.api.metrics.Meter;
import io.opentelemetry.exporter.otlp.http.metrics.OtlpHttpMetricExporter;
import io.opentelemetry.exporter.otlp.metrics.OtlpGrpcMetricExporter;
import io.opentelemetry.sdk.metrics.Aggregation;
import io.opentelemetry.sdk.metrics.InstrumentSelector;
import io.opentelemetry.sdk.metrics.SdkMeterProvider;
import io.opentelemetry.sdk.metrics.View;
import io.opentelemetry.sdk.metrics.export.AggregationTemporalitySelector;
import io.opentelemetry.sdk.metrics.export.MetricExporter;
import io.opentelemetry.sdk.metrics.export.PeriodicMetricReader;
import io.opentelemetry.sdk.resources.Resource;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.TimeUnit;

public class OtlpSdk {
  static double seconds = 0;

  public static void main(String[] args) {
    AggregationTemporalitySelector preferred =
      args[2].equals("delta") ? AggregationTemporalitySelector.deltaPreferred() : AggregationTemporalitySelector.alwaysCumulative();
    MetricExporter exporter = args[1].equals("grpc")
      ? OtlpGrpcMetricExporter.builder().setEndpoint("http://" + args[0]).setCompression("gzip").setAggregationTemporalitySelector(preferred).build()
      : OtlpHttpMetricExporter.builder().setEndpoint(args[0] + "/v1/metrics").setCompression("gzip").setAggregationTemporalitySelector(preferred).build();
    SdkMeterProvider provider = SdkMeterProvider.builder()
      .setResource(Resource.create(Attributes.builder().put("service.name", "shop").put("service.instance.id", "i-1").build()))
      .registerMetricReader(PeriodicMetricReader.builder(exporter).setInterval(Duration.ofHours(1)).build())
      .registerView(
        InstrumentSelector.builder().setName("app.size").build(),
        View.builder().setAggregation(Aggregation.base2ExponentialBucketHistogram()).build())
      .build();
    Meter meter = provider.meterBuilder("interop").setInstrumentationVersion("1.0").build();
    LongCounter requests = meter.counterBuilder("app.requests").setDescription("Requests served").setUnit("{request}").build();
    LongUpDownCounter queue = meter.upDownCounterBuilder("app.queue").build();
    DoubleGauge temperature = meter.gaugeBuilder("app.temperature").setUnit("Cel").build();
    DoubleHistogram latency = meter.histogramBuilder("app.latency").setUnit("s").setExplicitBucketBoundariesAdvice(List.of(0.5, 1.0, 2.0)).build();
    LongHistogram size = meter.histogramBuilder("app.size").ofLongs().setUnit("By").build();
    Attributes core = Attributes.of(
      AttributeKey.longKey("core"), 7L, AttributeKey.booleanKey("busy"), true, AttributeKey.stringArrayKey("flags"), List.of("a", "b"));
    meter.counterBuilder("app.cpu").ofDoubles().setUnit("s").buildWithCallback(observed -> observed.record(seconds += 1.5, core));

    AttributeKey<String> route = AttributeKey.stringKey("route");
    requests.add(3, Attributes.of(route, "/ü"));
    requests.add(4, Attributes.of(route, "/b"));
    queue.add(5);
    temperature.set(21.5);
    for (double value : new double[] {0.1, 0.7, 3}) latency.record(value);
    for (long value : new long[] {0, 1, 2, 4}) size.record(value);
    provider.forceFlush().join(30, TimeUnit.SECONDS);
    requests.add(2, Attributes.of(route, "/ü"));
    queue.add(-2);
    temperature.set(19.25);
    latency.record(0.2);
    size.record(8);
    provider.shutdown().join(30, TimeUnit.SECONDS);
    // Its HTTP client has threads that would keep the process for a while.
    System.exit(0);
  }
}
