/** Kafka's own client. Arguments: a file of properties, then `create topic partitions [name=value...]`, `produce topic` (a message a line of stdin) or `consume topic`. */
import java.io.*;
import java.nio.charset.StandardCharsets;
import java.nio.file.*;
import java.time.Duration;
import java.util.*;
import java.util.concurrent.Future;
import org.apache.kafka.clients.admin.*;
import org.apache.kafka.clients.consumer.*;
import org.apache.kafka.clients.producer.*;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.serialization.*;

public class KafkaAccess {
  private static final Base64.Encoder BASE64 = Base64.getEncoder();

  public static void main(String[] args) throws Exception {
    Properties properties = new Properties();
    try (Reader reader = Files.newBufferedReader(Path.of(args[0]))) {
      properties.load(reader);
    }
    switch (args[1]) {
      case "create" -> create(properties, args);
      case "produce" -> produce(properties, args[2]);
      case "consume" -> consume(properties, args[2]);
      default -> throw new IllegalArgumentException(args[1]);
    }
  }

  private static void create(Properties properties, String[] args) throws Exception {
    Map<String, String> settings = new HashMap<>();
    for (int i = 4; i < args.length; i++) settings.put(args[i].split("=", 2)[0], args[i].split("=", 2)[1]);
    try (Admin admin = Admin.create(properties)) {
      admin.createTopics(List.of(new NewTopic(args[2], Integer.parseInt(args[3]), (short) 1).configs(settings))).all().get();
    }
  }

  private static void produce(Properties properties, String topic) throws Exception {
    BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    List<Future<RecordMetadata>> sent = new ArrayList<>();
    try (var producer = new KafkaProducer<>(properties, new ByteArraySerializer(), new StringSerializer())) {
      for (String line; (line = lines.readLine()) != null; ) sent.add(producer.send(new ProducerRecord<>(topic, line)));
      for (var one : sent) one.get();
    }
  }

  private static String text(byte[] bytes) {
    return bytes == null ? "-" : BASE64.encodeToString(bytes);
  }

  private static void consume(Properties properties, String topic) throws Exception {
    PrintStream out = new PrintStream(new BufferedOutputStream(new FileOutputStream(FileDescriptor.out), 1 << 16), false, StandardCharsets.UTF_8);
    try (var consumer = new KafkaConsumer<>(properties, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
      List<TopicPartition> partitions = consumer.partitionsFor(topic).stream().map(p -> new TopicPartition(topic, p.partition())).toList();
      Map<TopicPartition, Long> ends = consumer.endOffsets(partitions);
      consumer.assign(partitions);
      consumer.seekToBeginning(partitions);
      while (partitions.stream().anyMatch(p -> consumer.position(p) < ends.get(p))) {
        for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(200))) {
          out.print(record.partition() + " " + record.offset() + " " + record.timestamp() + " " + text(record.key()) + " " + text(record.value()));
          for (Header header : record.headers())
            out.print(" " + text(header.key().getBytes(StandardCharsets.UTF_8)).replace('=', '.') + "=" + text(header.value()).replace('=', '.'));
          out.print("\n");
        }
      }
    }
    out.flush();
  }
}
