import java.io.FileInputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Properties;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * An application of Kafka's Java clients: FOLDER TOPIC PARTITIONS TRANSACTION. It produces numbered records, in
 * transactions of as many as asked or idempotent alone for 1, and reads them as the group TOPIC-app. FOLDER/TOPIC.address
 * names the cluster, whose client properties are in FOLDER/NAME.properties; when it changes, both clients are made anew.
 * Prints "w NUMBER MS" for what a cluster has accepted, "r NUMBER" for what was read, "x ..." for a refusal. It stops
 * producing while FOLDER/TOPIC.held is there and once FOLDER/TOPIC.over is, and ends when it is killed.
 */
public class MovingClients {
    static Path folder;
    static String topic;

    public static void main(String[] words) throws Exception {
        folder = Path.of(words[0]);
        topic = words[1];
        int partitions = Integer.parseInt(words[2]), transaction = Integer.parseInt(words[3]);
        Thread reader = new Thread(MovingClients::read);
        reader.start();
        write(partitions, transaction);
        reader.join();
    }

    static String address() {
        try {
            return Files.readString(folder.resolve(topic + ".address")).strip();
        } catch (Exception error) {
            throw new IllegalStateException(error);
        }
    }

    static Properties at(String cluster) {
        Properties settings = new Properties();
        try (FileInputStream file = new FileInputStream(folder.resolve(cluster + ".properties").toFile())) {
            settings.load(file);
        } catch (Exception error) {
            throw new IllegalStateException(error);
        }
        return settings;
    }

    static boolean over() {
        return Files.exists(folder.resolve(topic + ".over"));
    }

    static boolean held() {
        return Files.exists(folder.resolve(topic + ".held"));
    }

    static synchronized void say(String line) {
        System.out.println(line);
        System.out.flush();
    }

    static void read() {
        while (true) {
            String here = address();
            Properties settings = at(here);
            settings.put("group.id", topic + "-app");
            settings.put("enable.auto.commit", "false");
            settings.put("auto.offset.reset", "earliest");
            settings.put("isolation.level", "read_committed");
            settings.put("session.timeout.ms", "6000");
            settings.put("heartbeat.interval.ms", "1000");
            try (var consumer = new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer())) {
                consumer.subscribe(List.of(topic));
                while (here.equals(address())) {
                    ConsumerRecords<String, String> some = consumer.poll(Duration.ofMillis(200));
                    for (ConsumerRecord<String, String> each : some) {
                        say("r " + each.value());
                    }
                    if (!some.isEmpty()) {
                        consumer.commitSync();
                    }
                }
            } catch (KafkaException error) {
                say("x read " + error);
                pause(200);
            }
        }
    }

    static void write(int partitions, int transaction) throws Exception {
        long number = 0;
        while (!over()) {
            String here = address();
            Properties settings = at(here);
            settings.put("enable.idempotence", "true");
            settings.put("acks", "all");
            settings.put("max.block.ms", "10000");
            if (transaction > 1) {
                settings.put("transactional.id", topic + "-writer");
            }
            try (var producer = new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer())) {
                if (transaction > 1) {
                    producer.initTransactions();
                }
                while (!over() && here.equals(address())) {
                    if (held()) {
                        pause(20);
                        continue;
                    }
                    if (transaction > 1) {
                        producer.beginTransaction();
                    }
                    try {
                        List<Future<?>> sent = new ArrayList<>();
                        for (long each = number; each < number + transaction; each++) {
                            int partition = (int) (each % partitions);
                            sent.add(producer.send(new ProducerRecord<>(topic, partition, "k" + each % 7, "" + each)));
                        }
                        for (Future<?> one : sent) {
                            one.get();
                        }
                    } catch (ExecutionException error) {
                        say("x " + number + " " + error.getCause());
                        if (transaction > 1) {
                            producer.abortTransaction();
                        }
                        pause(200);
                        continue;
                    }
                    if (transaction > 1) {
                        producer.commitTransaction();
                    }
                    for (long end = number + transaction; number < end; number++) {
                        say("w " + number + " " + System.currentTimeMillis());
                    }
                    pause(20);
                }
            } catch (KafkaException error) {
                say("x write " + error);
                pause(200);
            }
        }
    }

    static void pause(long ms) {
        try {
            Thread.sleep(ms);
        } catch (InterruptedException error) {
            Thread.currentThread().interrupt();
        }
    }
}
