import java.time.Duration;
import java.util.Map;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.connect.mirror.MirrorClient;
import org.apache.kafka.connect.mirror.RemoteClusterUtils;

/**
 * What Kafka's own RemoteClusterUtils and MirrorClient read from a cluster, one line a fact.
 * Arguments: bootstrap servers, upstream alias, group, separator.
 */
public class RemoteClusters {
    public static void main(String[] args) {
        try {
            tell(args);
        } catch (Exception error) { // the launcher of single files cannot print one without a stack
            System.err.println(error);
            System.exit(1);
        }
    }

    static void tell(String[] args) throws Exception {
        Map<String, Object> client = Map.of("bootstrap.servers", args[0], "replication.policy.separator", args[3]);
        TreeMap<String, Integer> hops = new TreeMap<>();
        for (String upstream : RemoteClusterUtils.upstreamClusters(client)) {
            hops.put(upstream, RemoteClusterUtils.replicationHops(client, upstream));
        }
        System.out.println("hops " + hops);
        try (MirrorClient mirror = new MirrorClient(client)) {
            System.out.println("remote " + new TreeSet<>(mirror.remoteTopics()));
        }
        System.out.println("heartbeats " + new TreeSet<>(RemoteClusterUtils.heartbeatTopics(client)));
        System.out.println("checkpoints " + new TreeSet<>(RemoteClusterUtils.checkpointTopics(client)));
        Map<TopicPartition, OffsetAndMetadata> offsets =
            RemoteClusterUtils.translateOffsets(client, args[1], args[2], Duration.ofSeconds(30));
        TreeMap<String, String> found = new TreeMap<>();
        offsets.forEach((where, what) -> found.put(where.toString(), what.offset() + "/" + what.metadata()));
        System.out.println("offsets " + found);
    }
}
