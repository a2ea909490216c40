// The clients of InfluxDB for Java, and Micrometer's registries. Argument: the URL. What has arrived is looked at by influxdb-java.test.ts.
import com.influxdb.client.InfluxDBClientFactory;
import com.influxdb.client.WriteOptions;
import com.influxdb.client.domain.WritePrecision;
import com.influxdb.exceptions.BadRequestException;
import io.micrometer.core.instrument.Clock;
import io.micrometer.core.instrument.Counter;
import io.micrometer.core.instrument.Gauge;
import io.micrometer.core.instrument.MeterRegistry;
import io.micrometer.core.instrument.Timer;
import io.micrometer.influx.InfluxApiVersion;
import io.micrometer.influx.InfluxConfig;
import io.micrometer.influx.InfluxMeterRegistry;
import io.micrometer.registry.otlp.OtlpConfig;
import io.micrometer.registry.otlp.OtlpMeterRegistry;
import java.time.Duration;
import java.time.OffsetDateTime;
import java.util.Objects;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicReference;
import org.influxdb.BatchOptions;
import org.influxdb.InfluxDB;
import org.influxdb.InfluxDBException;
import org.influxdb.InfluxDBFactory;
import org.influxdb.dto.Point;
import org.influxdb.dto.Query;

public class InfluxDbJava {
  interface Check {
    void run() throws Exception;
  }

  static String url;
  static int ran;

  static void check(String title, Check check) {
    ran++;
    try {
      check.run();
      System.out.println("ok " + title);
    } catch (Throwable error) {
      StringBuilder text = new StringBuilder();
      for (Throwable cause = error; cause != null; cause = cause.getCause()) text.append(cause).append(" | ");
      System.out.println("not ok " + title + "\t\"" + text.toString().replace("\\", "\\\\").replace("\"", "'").replaceAll("\\s+", " ") + '"');
    }
  }

  static void equal(Object actual, Object expected) {
    if (!Objects.equals(actual, expected)) throw new AssertionError(actual + " is not " + expected);
  }

  static InfluxDB connect() {
    InfluxDB client = InfluxDBFactory.connect(url, "root", "root");
    client.setDatabase("plant");
    return client;
  }

  static Point point(String measurement, String n, long value) {
    return Point.measurement(measurement).tag("n", n).addField("v", value).build();
  }

  // Batches as they come by default: what was refused for good must not be sent again, for all that is newer would wait behind it, and points without a time
  // would be stored once more each time.
  static void refused(String measurement, Point wrong, Class<?> expected) throws Exception {
    AtomicReference<Throwable> told = new AtomicReference<>();
    InfluxDB client = connect();
    client.write(point(measurement, "first", 1));
    client.enableBatch(BatchOptions.DEFAULTS.actions(3).flushDuration(60_000).exceptionHandler((points, error) -> told.set(error)));
    client.write(point(measurement, "beside", 1));
    client.write(wrong);
    client.write(point(measurement, "beside too", 1));
    for (int batch = 0; batch < 4; batch++) {
      for (int i = 0; i < 3; i++) client.write(point(measurement, "later " + batch + i, 1));
      client.flush();
    }
    client.close();
    equal(told.get() == null ? null : told.get().getClass(), expected);
  }

  static void use(MeterRegistry registry, String name) throws Exception {
    Counter counter = Counter.builder(name + ".count").tag("a", "b c,d=e").register(registry);
    Timer timer = Timer.builder(name + ".timer").publishPercentileHistogram().publishPercentiles(0.5).register(registry);
    Gauge.builder(name + ".gauge", () -> 4.5).register(registry);
    Gauge.builder(name + ".nan", () -> Double.NaN).register(registry);
    counter.increment(3);
    timer.record(Duration.ofMillis(30));
    registry.close();
  }

  static InfluxMeterRegistry influx(InfluxApiVersion version) {
    return new InfluxMeterRegistry(
        new InfluxConfig() {
          public String get(String key) {
            return null;
          }

          public String uri() {
            return url;
          }

          public InfluxApiVersion apiVersion() {
            return version;
          }

          public String org() {
            return version == InfluxApiVersion.V2 ? "any" : null;
          }

          public String bucket() {
            return "plant";
          }

          public String token() {
            return version == InfluxApiVersion.V2 ? "any" : null;
          }
        },
        Clock.SYSTEM);
  }

  public static void main(String[] arguments) {
    url = arguments[0];
    check("influxdb-java: ping, version, CREATE DATABASE and SHOW DATABASES", () -> {
      InfluxDB client = connect();
      equal(client.ping().isGood(), true);
      equal(client.version().contains("svc"), true);
      equal(client.query(new Query("CREATE DATABASE plant", "plant")).hasError(), false);
      equal(client.query(new Query("SHOW DATABASES", "plant")).getResults().get(0).getSeries().get(0).getValues().toString(), "[[default], [plant]]");
      client.close();
    });
    check("influxdb-java: batches with gzip, and a retention policy", () -> {
      InfluxDB client = connect();
      client.setRetentionPolicy("autogen").enableGzip().enableBatch();
      for (int n = 0; n < 2500; n++) client.write(point("java_batch", "" + n, n));
      client.close();
    });
    check("influxdb-java: a type that does not fit is refused once", () ->
      refused("java_type", Point.measurement("java_type").addField("v", "text").build(), InfluxDBException.FieldTypeConflictException.class));
    check("influxdb-java: a point that is too old is refused once", () ->
      refused(
          "java_old", Point.measurement("java_old").time(1, TimeUnit.SECONDS).addField("v", 1L).build(), InfluxDBException.PointsBeyondRetentionPolicyException.class));
    check("influxdb-client-java: ping, health, ready, buckets", () -> {
      try (var client = InfluxDBClientFactory.create(url, "any".toCharArray(), "any", "plant")) {
        equal(client.ping(), true);
        equal(client.health().getStatus().getValue(), "pass");
        equal(client.ready().getStatus().getValue(), "ready");
        equal(client.getBucketsApi().findBucketByName("plant").getName(), "plant");
      }
    });
    check("influxdb-client-java: writes, an error, a delete", () -> {
      try (var client = InfluxDBClientFactory.create(url, "any".toCharArray(), "any", "plant")) {
        client.enableGzip();
        var writer = client.makeWriteApi(WriteOptions.builder().batchSize(500).flushInterval(60_000).build());
        for (int n = 0; n < 1200; n++) {
          writer.writePoint(com.influxdb.client.write.Point.measurement("java_2").addTag("n", "" + n).addField("v", n).time(System.currentTimeMillis(), WritePrecision.MS));
        }
        writer.close();
        client.getDeleteApi().delete(OffsetDateTime.now().minusHours(1), OffsetDateTime.now().plusHours(1), "_measurement=\"java_2\" AND n=\"3\"", "plant", "any");
        try {
          client.getWriteApiBlocking().writeRecord(WritePrecision.NS, "java_2 v=\"text\"");
          throw new AssertionError("it was taken");
        } catch (BadRequestException error) {
          equal(error.getMessage().contains("cannot write field"), true);
        }
      }
    });
    for (InfluxApiVersion version : InfluxApiVersion.values()) {
      check("Micrometer: InfluxDB, " + version, () -> use(influx(version), "micrometer" + version.name().charAt(1)));
    }
    check("Micrometer: OTLP", () -> use(new OtlpMeterRegistry(key -> key.equals("otlp.url") ? url + "/v1/metrics" : null, Clock.SYSTEM), "otlp"));
    System.out.println("end " + ran);
    System.exit(0);
  }
}
