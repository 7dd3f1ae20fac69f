import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.Reader;
import java.lang.reflect.Constructor;
import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import org.apache.kafka.common.Configurable;
import org.apache.kafka.connect.mirror.ConfigPropertyFilter;
import org.apache.kafka.connect.mirror.DefaultGroupFilter;
import org.apache.kafka.connect.mirror.DefaultTopicFilter;
import org.apache.kafka.connect.mirror.MirrorMakerConfig;
import org.apache.kafka.connect.mirror.MirrorSourceConnector;
import org.apache.kafka.connect.mirror.ReplicationPolicy;
import org.apache.kafka.connect.mirror.SourceAndTarget;
import org.apache.kafka.connect.mirror.TopicFilter;

/**
 * Flows whose records MirrorMaker 2 copies: one answer for each line of settings, which have tabs between them. With
 * arguments, a file of names and files of properties: a line for each file, flow and name, with the remote topic or "-",
 * and whether a group of that name is synced.
 */
public class ClusterPairs {
    private static final String DEFAULT = "org.apache.kafka.connect.mirror.DefaultReplicationPolicy";

    public static void main(String[] args) throws Exception {
        if (args.length > 0) {
            List<String> names = Files.readAllLines(Path.of(args[0]));
            for (String file : Arrays.copyOfRange(args, 1, args.length)) {
                decide(file, names);
            }
            return;
        }
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            Map<String, String> settings = new HashMap<>();
            for (String setting : line.split("\t")) {
                settings.put(setting.split("=")[0], setting.split("=")[1]);
            }
            System.out.println("pairs " + String.join(",", run(settings).keySet()));
        }
    }

    /** Settings of the source connector by flow. */
    static Map<String, Map<String, String>> run(Map<String, String> settings) {
        Map<String, String> all = new HashMap<>(settings);
        all.put("plugin.discovery", "service_load"); // else a scan each time
        MirrorMakerConfig config = new MirrorMakerConfig(all);
        Map<String, Map<String, String>> run = new TreeMap<>();
        for (SourceAndTarget pair : config.clusterPairs()) {
            Map<String, String> connector = config.connectorBaseConfig(pair, MirrorSourceConnector.class);
            if (Boolean.parseBoolean(connector.get("enabled"))) {
                connector.putIfAbsent("source.cluster.alias", pair.source());
                connector.putIfAbsent("target.cluster.alias", pair.target());
                run.put(pair.source() + "-to-" + pair.target(), connector);
            }
        }
        return run;
    }

    static void decide(String file, List<String> names) throws Exception {
        Method replicates = MirrorSourceConnector.class.getDeclaredMethod("shouldReplicateTopic", String.class);
        Field beats = MirrorSourceConnector.class.getDeclaredField("heartbeatsReplicationEnabled");
        Constructor<MirrorSourceConnector> make = MirrorSourceConnector.class.getDeclaredConstructor(
            SourceAndTarget.class, ReplicationPolicy.class, TopicFilter.class, ConfigPropertyFilter.class);
        replicates.setAccessible(true);
        beats.setAccessible(true);
        make.setAccessible(true);
        Properties properties = new Properties();
        try (Reader reader = Files.newBufferedReader(Path.of(file))) {
            properties.load(reader);
        }
        Map<String, String> settings = new HashMap<>();
        properties.stringPropertyNames().forEach(name -> settings.put(name, properties.getProperty(name)));
        for (Map.Entry<String, Map<String, String>> flow : run(settings).entrySet()) {
            Map<String, String> given = flow.getValue();
            Class<?> kind = Class.forName(given.getOrDefault("replication.policy.class", DEFAULT).trim());
            ReplicationPolicy policy = (ReplicationPolicy) kind.getDeclaredConstructor().newInstance();
            ((Configurable) policy).configure(given);
            DefaultTopicFilter topics = new DefaultTopicFilter();
            DefaultGroupFilter groups = new DefaultGroupFilter();
            topics.configure(given);
            groups.configure(given);
            String source = given.get("source.cluster.alias");
            MirrorSourceConnector connector = make.newInstance(
                new SourceAndTarget(source, given.get("target.cluster.alias")), policy, topics, null);
            beats.set(connector, Boolean.parseBoolean(given.getOrDefault("heartbeats.replication.enabled", "true")));
            for (String name : names) {
                boolean goes = (boolean) replicates.invoke(connector, name);
                System.out.println(String.join("\t", "asked", file, flow.getKey(), name,
                    goes ? policy.formatRemoteTopic(source, name) : "-", "" + groups.shouldReplicateGroup(name)));
            }
        }
    }
}
