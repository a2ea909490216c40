// The client of InfluxDB 3 for Java: writes at the URL, queries at the port of Flight SQL. Arguments: the address of Flight SQL and the URL.
import com.influxdb.v3.client.InfluxDBApiHttpException;
import com.influxdb.v3.client.InfluxDBClient;
import com.influxdb.v3.client.Point;
import com.influxdb.v3.client.PointValues;
import com.influxdb.v3.client.config.ClientConfig;
import com.influxdb.v3.client.write.WriteOptions;
import com.influxdb.v3.client.write.WritePrecision;
import java.math.BigInteger;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.stream.Stream;
import org.apache.arrow.vector.VectorSchemaRoot;
import org.apache.arrow.vector.util.Text;

public class InfluxDb3Java {
  interface Check {
    void run(InfluxDBClient writes, InfluxDBClient queries) throws Exception;
  }

  static final long BASE = Instant.now().getEpochSecond();
  static String flight;
  static String url;
  static int ran;

  static void check(String title, Check check) {
    ran++;
    try (InfluxDBClient writes = client(url); InfluxDBClient queries = client("http://" + flight)) {
      check.run(writes, queries);
      System.out.println("ok " + title);
    } catch (Throwable error) {
      StringBuilder text = new StringBuilder();
      for (Throwable cause = error; cause != null; cause = cause.getCause()) text.append(cause).append(" | ");
      System.out.println("not ok " + title + "\t\"" + text.toString().replace("\\", "\\\\").replace("\"", "'").replaceAll("\\s+", " ") + '"');
    }
  }

  static InfluxDBClient client(String host) {
    return InfluxDBClient.getInstance(new ClientConfig.Builder().host(host).token("any".toCharArray()).database("plant").build());
  }

  static void equal(Object actual, Object expected) {
    if (!Objects.deepEquals(actual, expected)) throw new AssertionError(show(actual) + " is not " + show(expected));
  }

  static String show(Object value) {
    return value instanceof Object[] array ? Arrays.deepToString(array) : String.valueOf(value);
  }

  static List<Object[]> rows(Stream<Object[]> stream) {
    try (stream) {
      return stream.toList();
    }
  }

  public static void main(String[] args) throws Exception {
    flight = args[0];
    url = args[1];
    check("the version of the server", (writes, queries) -> equal(writes.getServerVersion() == null, false));
    check("a point comes back", (writes, queries) -> {
      Point point = Point.measurement("java3").setTag("h", "a b,c=d").setField("f", 0.1 + 0.2).setField("i", Long.MIN_VALUE).setField("b", true)
        .setField("s", "a \"b\"\\ é").setTimestamp(BASE * 1_000_000_000 + 123456789, WritePrecision.NS);
      writes.writePoint(point);
      List<Object[]> found = rows(queries.query("SELECT h, f, i, b, s FROM java3"));
      equal(found.size(), 1);
      // Texts are Arrow's where a column does not say that it is of InfluxDB.
      Object[] row = Arrays.stream(found.get(0)).map(value -> value instanceof Text ? value.toString() : value).toArray();
      equal(row, new Object[] {"a b,c=d", 0.1 + 0.2, Long.MIN_VALUE, true, "a \"b\"\\ é"});
      try (Stream<Map<String, Object>> named = queries.queryRows("SELECT _time AS time, h FROM java3")) {
        Map<String, Object> first = named.findFirst().orElseThrow();
        equal(first.get("time"), BigInteger.valueOf(BASE).multiply(BigInteger.valueOf(1_000_000_000)).add(BigInteger.valueOf(123456789)));
      }
    });
    check("four precisions, with and without gzip", (writes, queries) -> {
      long n = 0;
      for (WritePrecision precision : WritePrecision.values())
        for (int threshold : new int[] {1, 1_000_000})
          writes.writeRecord("java3_precision n=" + n + "i " + precisely(BASE + n++, precision), new WriteOptions.Builder().precision(precision).gzipThreshold(threshold).build());
      List<Object[]> found = rows(queries.query("SELECT n, epoch_ns(_time) // 1000000000 AS at FROM java3_precision ORDER BY n"));
      equal(found.size(), 8);
      for (int at = 0; at < 8; at++) equal(found.get(at), new Object[] {(long) at, BASE + at});
    });
    check("the write of InfluxDB 3, without waiting", (writes, queries) -> {
      writes.writeRecord("java3_no_sync v=1 " + BASE * 1_000_000_000, new WriteOptions.Builder().noSync(true).build());
      equal(rows(queries.query("SELECT v FROM java3_no_sync")).size(), 1);
    });
    check("parameters", (writes, queries) -> {
      List<String> lines = new ArrayList<>();
      for (int v = 0; v < 3; v++) lines.add("java3_named,h=" + "abc".charAt(v) + " v=" + v + "i " + (BASE * 1_000_000_000 + v));
      writes.writeRecords(lines);
      List<Object[]> found = rows(queries.query("SELECT v FROM java3_named WHERE h = $h OR v = $v ORDER BY v", Map.of("h", "a", "v", 2)));
      equal(found.toArray(), new Object[] {new Object[] {0L}, new Object[] {2L}});
    });
    check("points and batches", (writes, queries) -> {
      List<Point> points = new ArrayList<>();
      for (int v = 0; v < 5000; v++) points.add(Point.measurement("java3_many").setField("v", v / 3.0).setTimestamp(BASE * 1_000_000_000 + v, WritePrecision.NS));
      writes.writePoints(points);
      try (Stream<PointValues> values = queries.queryPoints("SELECT v FROM java3_many")) {
        equal(values.mapToDouble(value -> ((Number) value.getField("v")).doubleValue()).sum() > 0, true);
      }
      try (Stream<VectorSchemaRoot> batches = queries.queryBatches("SELECT v FROM java3_many")) {
        equal(batches.mapToInt(VectorSchemaRoot::getRowCount).sum(), 5000);
      }
    });
    check("what is refused", (writes, queries) -> {
      try {
        writes.writeRecords(List.of("java3_bad v=1 " + BASE * 1_000_000_000, "java3_bad v=warm"));
        throw new AssertionError("was taken");
      } catch (InfluxDBApiHttpException error) {
        equal(error.statusCode(), 400);
        if (!error.getMessage().contains("partial write")) throw error;
      }
      equal(rows(queries.query("SELECT v FROM java3_bad")).size(), 1);
      try {
        rows(queries.query("SELECT nothing FROM java3"));
        throw new AssertionError("was answered");
      } catch (RuntimeException error) {
        if (!error.getMessage().contains("nothing")) throw error;
      }
    });
    System.out.println("end " + ran);
  }

  static long precisely(long seconds, WritePrecision precision) {
    return switch (precision) {
      case S -> seconds;
      case MS -> seconds * 1000;
      case US -> seconds * 1_000_000;
      case NS -> seconds * 1_000_000_000;
    };
  }
}
