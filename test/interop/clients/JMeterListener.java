// Apache JMeter's backend listener for InfluxDB, as a test plan runs it. Arguments: the URL to write to, the name of the application, a file of properties.
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.util.ArrayList;
import java.util.List;
import org.apache.jmeter.config.Arguments;
import org.apache.jmeter.samplers.SampleResult;
import org.apache.jmeter.util.JMeterUtils;
import org.apache.jmeter.visualizers.backend.BackendListenerContext;
import org.apache.jmeter.visualizers.backend.influxdb.InfluxdbBackendListenerClient;

public class JMeterListener {
  public static void main(String[] given) throws Exception {
    JMeterUtils.setJMeterHome(".");
    JMeterUtils.loadJMeterProperties(given[2]);
    InfluxdbBackendListenerClient listener = new InfluxdbBackendListenerClient();
    Arguments arguments = listener.getDefaultParameters();
    set(arguments, "influxdbUrl", given[0]);
    set(arguments, "influxdbToken", "any");
    set(arguments, "application", given[1]);
    set(arguments, "summaryOnly", "false");
    set(arguments, "TAG_stage", "a b");
    BackendListenerContext context = new BackendListenerContext(arguments);
    listener.setupTest(context);
    // It closes its connection in the end, also under a request whose answer is still to come.
    arrived(given[0], "events", given[1]);
    List<SampleResult> samples = new ArrayList<>();
    for (int i = 0; i < 10; i++) {
      SampleResult sample = new SampleResult(System.currentTimeMillis(), 100 + i);
      sample.setSampleLabel("GET /a b,c=é");
      sample.setSuccessful(i % 5 != 0);
      sample.setResponseCode(i % 5 != 0 ? "200" : "500");
      sample.setResponseMessage("said \"no\", x=y");
      samples.add(sample);
    }
    listener.handleSampleResults(samples, context);
    arrived(given[0], "jmeter", given[1] + "\",\"responseCode\":\"500");
    listener.teardownTest(context);
    System.out.println("ok " + given[0]);
    System.out.println("end 1");
    System.exit(0);
  }

  /** Waits until a point of the measurement, as JSON, has the text. */
  static void arrived(String url, String measurement, String text) throws Exception {
    String query = "{\"measurement\":\"" + measurement + "\"}";
    HttpRequest request = HttpRequest.newBuilder(URI.create(url).resolve("/api/v1/svc/query"))
        .header("content-type", "application/json").POST(HttpRequest.BodyPublishers.ofString(query)).build();
    for (int i = 0; i < 300; i++) {
      if (HttpClient.newHttpClient().send(request, HttpResponse.BodyHandlers.ofString()).body().contains(text)) return;
      Thread.sleep(100);
    }
    throw new IllegalStateException(text + " is not there");
  }

  static void set(Arguments arguments, String name, String value) {
    arguments.removeArgument(name);
    arguments.addArgument(name, value);
  }
}
