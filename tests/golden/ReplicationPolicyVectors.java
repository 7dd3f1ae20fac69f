import java.lang.reflect.Constructor;
import java.util.Map;
import org.apache.kafka.connect.mirror.ConfigPropertyFilter;
import org.apache.kafka.connect.mirror.DefaultReplicationPolicy;
import org.apache.kafka.connect.mirror.IdentityReplicationPolicy;
import org.apache.kafka.connect.mirror.MirrorSourceConnector;
import org.apache.kafka.connect.mirror.ReplicationPolicy;
import org.apache.kafka.connect.mirror.SourceAndTarget;
import org.apache.kafka.connect.mirror.TopicFilter;

/**
 * Prints what MirrorMaker 2's own classes say, one JSON line a case: replication_policy.jsonl beside this file.
 * Run with Kafka's libs: java -cp "libs/*" ReplicationPolicyVectors.java > replication_policy.jsonl
 * With those of 3.9.1: replication_policy_3_9.jsonl, for the older rule of internal topics.
 */
public class ReplicationPolicyVectors {
    static final String[] TOPICS = {
        "orders", "orders.eu", "east.orders", "west.orders", "east.west.orders", "west.east.orders", "north.orders",
        "north.west.east.orders", "east", "east.", ".east", ".", "..", "east..orders", "east-orders", "east_orders",
        "west--orders", "east--west--orders", "heartbeats", "east.heartbeats", "west.east.heartbeats", "myheartbeats",
        "east.myheartbeats", "east--heartbeats", "heartbeats.orders", "__consumer_offsets", "__x", "_x", ".hidden",
        "mm2-offset-syncs.west.internal", "mm2-offsets.east.internal", "mm2.internal", "mm2internal",
        "mm2-offset-syncs--west--internal", "east.checkpoints.internal", "checkpoints.internal",
        "east--checkpoints--internal", "orders.internal", "orders-internal", "east.orders.internal",
        "xmm2-status.east.internal", "topic.replica", "us.east.orders", "EAST.orders", "east.West.orders"
    };

    public static void main(String[] args) throws Exception {
        for (String separator : new String[] {".", "-", "--", "_"}) {
            DefaultReplicationPolicy standard = new DefaultReplicationPolicy();
            standard.configure(Map.of("replication.policy.separator", separator));
            IdentityReplicationPolicy identity = new IdentityReplicationPolicy();
            identity.configure(Map.of("replication.policy.separator", separator, "source.cluster.alias", "east"));
            for (String topic : TOPICS) {
                print("default", separator, topic, standard);
                print("identity", separator, topic, identity);
            }
        }
    }

    static void print(String name, String separator, String topic, ReplicationPolicy policy) throws Exception {
        Constructor<MirrorSourceConnector> make = MirrorSourceConnector.class.getDeclaredConstructor(
            SourceAndTarget.class, ReplicationPolicy.class, TopicFilter.class, ConfigPropertyFilter.class);
        make.setAccessible(true);
        var connector = make.newInstance(new SourceAndTarget("east", "west"), policy, null, null);
        var cycle = MirrorSourceConnector.class.getDeclaredMethod("isCycle", String.class);
        cycle.setAccessible(true);
        System.out.printf(
            "{\"policy\": %s, \"separator\": %s, \"topic\": %s, \"remote\": %s, \"source\": %s, \"upstream\": %s, "
                + "\"internal\": %s, \"cycle\": %s, \"original\": %s, \"heartbeats\": %s, \"checkpoints\": %s, "
                + "\"mm2_internal\": %s, \"checkpoints_topic\": %s, \"offset_syncs_topic\": %s}%n",
            json(name), json(separator), json(topic), json(policy.formatRemoteTopic("east", topic)),
            json(policy.topicSource(topic)), json(policy.upstreamTopic(topic)), policy.isInternalTopic(topic),
            cycle.invoke(connector, topic), json(policy.originalTopic(topic)),
            policy.isHeartbeatsTopic(topic), policy.isCheckpointsTopic(topic), policy.isMM2InternalTopic(topic),
            json(policy.checkpointsTopic("east")), json(policy.offsetSyncsTopic("west")));
    }

    static String json(String text) {
        return text == null ? "null" : "\"" + text + "\"";
    }
}
