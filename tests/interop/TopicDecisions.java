import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.reflect.Constructor;
import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.util.HashMap;
import java.util.Map;
import org.apache.kafka.connect.mirror.ConfigPropertyFilter;
import org.apache.kafka.connect.mirror.DefaultReplicationPolicy;
import org.apache.kafka.connect.mirror.DefaultTopicFilter;
import org.apache.kafka.connect.mirror.IdentityReplicationPolicy;
import org.apache.kafka.connect.mirror.MirrorSourceConnector;
import org.apache.kafka.connect.mirror.ReplicationPolicy;
import org.apache.kafka.connect.mirror.SourceAndTarget;
import org.apache.kafka.connect.mirror.TopicFilter;

/**
 * Which topics MirrorMaker 2's source connector replicates, and under which name: one answer for each line of the input,
 * which is a flow (policy, separator, whether internal topics have it, source, target, topics, topics.exclude, heartbeats) or, after one, a topic's name.
 * Columns have tabs between them. An answer is the remote name, or "-".
 */
public class TopicDecisions {
    public static void main(String[] args) throws Exception {
        Method replicates = MirrorSourceConnector.class.getDeclaredMethod("shouldReplicateTopic", String.class);
        Field beats = MirrorSourceConnector.class.getDeclaredField("heartbeatsReplicationEnabled");
        Constructor<MirrorSourceConnector> make = MirrorSourceConnector.class.getDeclaredConstructor(
            SourceAndTarget.class, ReplicationPolicy.class, TopicFilter.class, ConfigPropertyFilter.class);
        replicates.setAccessible(true);
        beats.setAccessible(true);
        make.setAccessible(true);
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        StringBuilder answers = new StringBuilder();
        MirrorSourceConnector connector = null;
        ReplicationPolicy policy = null;
        String source = "";
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] flow = line.split("\t", -1);
            if (flow.length == 1) {
                boolean goes = (boolean) replicates.invoke(connector, line);
                answers.append(goes ? policy.formatRemoteTopic(source, line) : "-").append('\n');
                continue;
            }
            source = flow[3];
            policy = policy(flow[0], flow[1], flow[2], source);
            DefaultTopicFilter filter = new DefaultTopicFilter();
            Map<String, Object> settings = new HashMap<>(Map.of("topics", flow[5]));
            if (!flow[6].isEmpty()) {
                settings.put("topics.exclude", flow[6]);
            }
            filter.configure(settings);
            connector = make.newInstance(new SourceAndTarget(source, flow[4]), policy, filter, null);
            beats.set(connector, flow[7].equals("true"));
        }
        System.out.print(answers);
    }

    static ReplicationPolicy policy(String name, String separator, String internal, String source) {
        DefaultReplicationPolicy made =
            name.equals("identity") ? new IdentityReplicationPolicy() : new DefaultReplicationPolicy();
        made.configure(Map.of("replication.policy.separator", separator, "source.cluster.alias", source,
            "replication.policy.internal.topic.separator.enabled", internal));
        return made;
    }
}
