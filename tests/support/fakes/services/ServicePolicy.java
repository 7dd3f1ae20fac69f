import java.io.IOException;
import java.io.Reader;
import java.lang.instrument.Instrumentation;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.PolicyViolationException;
import org.apache.kafka.server.policy.AlterConfigPolicy;
import org.apache.kafka.server.policy.CreateTopicPolicy;

/**
 * Refuses topics and configs as a service does whose rules are in the file that the system property service.rules names,
 * read anew for each request: configs (all that can be set), fixed (cannot be set), creation (only then), factor, values
 * (key:value, lacking). What it refuses is written to the file beside it that ends in .refused. The JVM gets it as an agent,
 * which puts it on the class path.
 */
public class ServicePolicy {
    private static final Path RULES = Path.of(System.getProperty("service.rules"));

    public static void premain(String words, Instrumentation instrumentation) {}

    public static class Create implements CreateTopicPolicy {
        @Override
        public void configure(Map<String, ?> configs) {}

        @Override
        public void close() {}

        @Override
        public void validate(RequestMetadata asked) {
            if (asked.topic().startsWith("__consumer") || asked.topic().startsWith("__transaction")) {
                return; // the brokers' own
            }
            Properties rules = rules();
            String factor = rules.getProperty("factor");
            if (factor != null && asked.replicationFactor() != null && asked.replicationFactor() != Short.parseShort(factor)) {
                throw refused(asked.topic() + ": replication factor " + asked.replicationFactor() + " is not " + factor);
            }
            judge(asked.topic(), asked.configs(), rules, List.of());
        }
    }

    public static class Alter implements AlterConfigPolicy {
        @Override
        public void configure(Map<String, ?> configs) {}

        @Override
        public void close() {}

        @Override
        public void validate(RequestMetadata asked) {
            if (asked.resource().type() == ConfigResource.Type.TOPIC && !creates()) {
                Properties rules = rules();
                judge(asked.resource().name(), asked.configs(), rules, listed(rules, "creation"));
            }
        }
    }

    /** Controllers ask this policy of a topic that is created, too, without saying so. */
    private static boolean creates() {
        return StackWalker.getInstance().walk(frames -> frames.anyMatch(frame -> frame.getMethodName().equals("createTopics")));
    }

    private static void judge(String topic, Map<String, String> asked, Properties rules, List<String> only) {
        List<String> configs = listed(rules, "configs");
        List<String> fixed = listed(rules, "fixed");
        List<String> values = listed(rules, "values");
        for (String key : asked.keySet()) {
            boolean lacking = values.contains(key + ":" + asked.get(key)) || (!configs.isEmpty() && !configs.contains(key));
            if (lacking || fixed.contains(key) || only.contains(key)) {
                throw refused(topic + ": " + key + " cannot be set");
            }
        }
    }

    private static PolicyViolationException refused(String why) {
        try {
            Files.writeString(Path.of(RULES + ".refused"), why + "\n", StandardOpenOption.CREATE, StandardOpenOption.APPEND);
        } catch (IOException error) {
            return new PolicyViolationException(why + ", and it cannot be written down: " + error);
        }
        return new PolicyViolationException(why);
    }

    private static Properties rules() {
        Properties rules = new Properties();
        try (Reader reader = Files.newBufferedReader(RULES)) {
            rules.load(reader);
        } catch (IOException error) {
            throw new PolicyViolationException("no rules: " + error);
        }
        return rules;
    }

    private static List<String> listed(Properties rules, String name) {
        String words = rules.getProperty(name, "");
        return words.isEmpty() ? List.of() : Arrays.asList(words.split(","));
    }
}
