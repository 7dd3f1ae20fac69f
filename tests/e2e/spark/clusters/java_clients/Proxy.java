import io.kroxylicious.proxy.KafkaProxy;
import io.kroxylicious.proxy.config.ConfigParser;
import io.kroxylicious.proxy.internal.config.Features;
import java.nio.file.Files;
import java.nio.file.Path;

/**
 * Kroxylicious in front of the cluster that FOLDER/target names, with FOLDER/NAME.yaml; it begins again when the name
 * changes, as an operator reloads it. Prints "at NAME" once it listens.
 */
public class Proxy {
    public static void main(String[] words) throws Exception {
        Path folder = Path.of(words[0]);
        ConfigParser parser = new ConfigParser();
        while (true) {
            String name = Files.readString(folder.resolve("target")).strip();
            var config = parser.parseConfiguration(Files.readString(folder.resolve(name + ".yaml")));
            try (KafkaProxy proxy = new KafkaProxy(parser, config, Features.defaultFeatures())) {
                proxy.startup();
                System.out.println("at " + name);
                while (name.equals(Files.readString(folder.resolve("target")).strip())) {
                    Thread.sleep(20);
                }
            }
        }
    }
}
