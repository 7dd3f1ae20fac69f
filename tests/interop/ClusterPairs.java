import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.HashMap;
import java.util.Map;
import java.util.TreeSet;
import org.apache.kafka.connect.mirror.MirrorMakerConfig;
import org.apache.kafka.connect.mirror.MirrorSourceConnector;
import org.apache.kafka.connect.mirror.SourceAndTarget;

/** Flows whose records MirrorMaker 2 copies: one answer for each line of settings, which have tabs between them. */
public class ClusterPairs {
    public static void main(String[] args) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            Map<String, String> settings = new HashMap<>(Map.of("plugin.discovery", "service_load")); // else a scan a line
            for (String setting : line.split("\t")) {
                settings.put(setting.split("=")[0], setting.split("=")[1]);
            }
            MirrorMakerConfig config = new MirrorMakerConfig(settings);
            TreeSet<String> run = new TreeSet<>();
            for (SourceAndTarget pair : config.clusterPairs()) {
                Map<String, String> connector = config.connectorBaseConfig(pair, MirrorSourceConnector.class);
                if (Boolean.parseBoolean(connector.get("enabled"))) {
                    run.add(pair.source() + "-to-" + pair.target());
                }
            }
            System.out.println("pairs " + String.join(",", run));
        }
    }
}
