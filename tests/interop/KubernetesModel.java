import io.fabric8.kubernetes.client.utils.KubernetesSerialization;
import java.lang.reflect.Method;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Collection;
import java.util.Map;

/** Prints what manifests hold that Kubernetes' model does not know: unknown kinds, and fields at any depth. */
public class KubernetesModel {
    public static void main(String[] files) throws Exception {
        KubernetesSerialization serialization = new KubernetesSerialization();
        for (String file : files) {
            for (String document : Files.readString(Path.of(file)).split("(?m)^---$")) {
                Object read = serialization.unmarshal(document);
                String name = Path.of(file).getFileName() + " " + read.getClass().getSimpleName();
                System.out.println("read " + name);
                if (read.getClass().getSimpleName().startsWith("Generic")) {
                    System.out.println("unknown kind in " + name);
                    continue;
                }
                look(name, read);
            }
        }
    }

    private static void look(String place, Object value) throws Exception {
        if (value instanceof Collection<?> each) {
            for (Object item : each) {
                look(place, item);
            }
        } else if (value instanceof Map<?, ?> map) {
            for (Map.Entry<?, ?> item : map.entrySet()) {
                look(place + "." + item.getKey(), item.getValue());
            }
        } else if (value != null && value.getClass().getName().startsWith("io.fabric8")) {
            for (Method method : value.getClass().getDeclaredMethods()) {
                String name = method.getName();
                if (!name.startsWith("get") || method.getParameterCount() > 0) {
                    continue;
                }
                Object inner = method.invoke(value);
                if (!name.equals("getAdditionalProperties")) {
                    look(place + "." + name.substring(3), inner);
                } else if (!((Map<?, ?>) inner).isEmpty()) {
                    System.out.println("unknown fields in " + place + ": " + ((Map<?, ?>) inner).keySet());
                }
            }
        }
    }
}
