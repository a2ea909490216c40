// The client of QuestDB for Java. Argument: the URL.
import io.questdb.client.Sender;
import io.questdb.client.cutlass.line.LineSenderException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.time.Instant;
import java.time.temporal.ChronoUnit;

public class QuestDbJava {
  interface Check {
    void run(Sender sender) throws Exception;
  }

  static final Instant NOW = Instant.now().truncatedTo(ChronoUnit.SECONDS);
  static String url;
  static int ran;

  static void check(String title, Check check) {
    ran++;
    try (Sender sender = Sender.fromConfig("http::addr=" + url.split("//")[1] + ";token=any;retry_timeout=20000;auto_flush_rows=2500;")) {
      check.run(sender);
      sender.flush();
      System.out.println("ok " + title);
    } catch (Throwable error) {
      System.out.println("not ok " + title + "\t\"" + error.toString().replace("\\", "\\\\").replace("\"", "'").replaceAll("\\s+", " ") + '"');
    }
  }

  // The rows are forgotten afterwards, as else closing the sender would send them again.
  static void refused(Sender sender, String reason) {
    try {
      sender.flush();
    } catch (LineSenderException error) {
      sender.reset();
      if (!error.getMessage().contains(reason)) throw error;
      return;
    }
    throw new AssertionError("it was taken");
  }

  public static void main(String[] args) throws Exception {
    url = args[0];
    check("a row of each type, with its own time", (sender) ->
        sender.table("java trades").symbol("pair", "ETH,USD=1 x").doubleColumn("price", 2615.54).longColumn("amount", Long.MAX_VALUE)
            .stringColumn("note", "a \"b\" \\c").boolColumn("buy", true).at(NOW));
    check("the server's time", (sender) -> sender.table("java trades").symbol("pair", "x").doubleColumn("price", 1e-310).atNow());
    check("batches", (sender) -> {
      for (int i = 0; i < 10_000; i++) sender.table("java_batches").symbol("n", "" + i % 100).longColumn("i", i).at(NOW.toEpochMilli() * 1000 + i, ChronoUnit.MICROS);
    });
    check("503 is tried again", (sender) -> {
      HttpRequest request = HttpRequest.newBuilder(URI.create(url + "/faults")).header("content-type", "application/json")
          .PUT(HttpRequest.BodyPublishers.ofString("{\"code\":\"BACKPRESSURE\",\"left\":2}")).build();
      HttpClient.newHttpClient().send(request, HttpResponse.BodyHandlers.discarding());
      sender.table("java_retried").doubleColumn("v", 1.5).at(NOW);
    });
    check("what is refused is told: another type, a column of times", (sender) -> {
      sender.table("java trades").stringColumn("price", "text").at(NOW);
      refused(sender, "SCHEMA_ERROR");
      sender.table("java trades").timestampColumn("when", NOW).at(NOW);
      refused(sender, "unable to parse");
    });
    System.out.println("end " + ran);
  }
}
