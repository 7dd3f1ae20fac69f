import java.lang.instrument.Instrumentation;
import java.net.URI;
import java.net.URLDecoder;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.time.Duration;
import java.time.Instant;
import java.time.ZoneOffset;
import java.time.format.DateTimeFormatter;
import java.util.Base64;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import javax.crypto.Mac;
import javax.crypto.spec.SecretKeySpec;
import javax.security.auth.callback.Callback;
import javax.security.auth.callback.UnsupportedCallbackException;
import javax.security.auth.login.AppConfigurationEntry;
import org.apache.kafka.common.security.auth.AuthenticateCallbackHandler;
import org.apache.kafka.common.security.oauthbearer.OAuthBearerExtensionsValidatorCallback;
import org.apache.kafka.common.security.oauthbearer.OAuthBearerToken;
import org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallback;

/**
 * What MSK does with a token: it is a presigned URL (Signature Version 4) whose signature is made again with the secret of its
 * access key. Written from AWS' description of the signature, not from the signer that is tested. The JVM gets it as an
 * agent, which is how it comes on the class path of a broker whose jars are held to digests.
 */
public class MskIamValidator implements AuthenticateCallbackHandler {
    private static final DateTimeFormatter STAMP = DateTimeFormatter.ofPattern("yyyyMMdd'T'HHmmss'Z'").withZone(ZoneOffset.UTC);
    private static final Duration OFF = Duration.ofMinutes(5);

    private final String key = System.getProperty("msk.key");
    private final String secret = System.getProperty("msk.secret");
    private final String session = System.getProperty("msk.session");
    private final String region = System.getProperty("msk.region");

    public static void premain(String words, Instrumentation instrumentation) {}

    @Override
    public void configure(Map<String, ?> configs, String mechanism, List<AppConfigurationEntry> entries) {}

    @Override
    public void close() {}

    @Override
    public void handle(Callback[] callbacks) throws UnsupportedCallbackException {
        for (Callback callback : callbacks) {
            if (callback instanceof OAuthBearerValidatorCallback) {
                judge((OAuthBearerValidatorCallback) callback);
            } else if (callback instanceof OAuthBearerExtensionsValidatorCallback) {
                var extensions = (OAuthBearerExtensionsValidatorCallback) callback;
                extensions.inputExtensions().map().keySet().forEach(extensions::valid);
            } else {
                throw new UnsupportedCallbackException(callback);
            }
        }
    }

    private void judge(OAuthBearerValidatorCallback callback) {
        try {
            String why = null;
            URI url = URI.create(new String(Base64.getUrlDecoder().decode(callback.tokenValue()), StandardCharsets.UTF_8));
            TreeMap<String, String> query = new TreeMap<>();
            for (String pair : url.getRawQuery().split("&")) {
                String[] parts = pair.split("=", 2);
                query.put(URLDecoder.decode(parts[0], StandardCharsets.UTF_8), URLDecoder.decode(parts[1], StandardCharsets.UTF_8));
            }
            String signature = query.remove("X-Amz-Signature");
            query.remove("User-Agent");
            String stamp = query.get("X-Amz-Date");
            Instant signed = Instant.from(STAMP.parse(stamp));
            Duration life = Duration.ofSeconds(Long.parseLong(query.get("X-Amz-Expires")));
            String scope = stamp.substring(0, 8) + "/" + region + "/kafka-cluster/aws4_request";
            if (!url.getHost().equals("kafka." + region + ".amazonaws.com") || !"kafka-cluster:Connect".equals(query.get("Action"))) {
                why = "wrong host or action";
            } else if (!query.get("X-Amz-Credential").equals(key + "/" + scope)) {
                why = "UnrecognizedClientException";
            } else if (session != null && !session.equals(query.get("X-Amz-Security-Token"))) {
                why = "InvalidClientTokenId";
            } else if (life.compareTo(Duration.ofSeconds(900)) > 0 || signed.plus(life).isBefore(Instant.now())) {
                why = "token expired";
            } else if (signed.isAfter(Instant.now().plus(OFF))) {
                why = "token not yet current";
            } else if (!MessageDigest.isEqual(again(url, query, stamp, scope).getBytes(), signature.getBytes())) {
                why = "SignatureDoesNotMatch";
            }
            if (why != null) {
                callback.error(why, null, null);
            } else {
                callback.token(new Token(callback.tokenValue(), signed, life, key));
            }
        } catch (Exception error) {
            callback.error("no presigned URL", null, null);
        }
    }

    private String again(URI url, TreeMap<String, String> query, String stamp, String scope) throws Exception {
        StringBuilder words = new StringBuilder();
        query.forEach((name, value) -> words.append(words.length() == 0 ? "" : "&").append(encoded(name)).append("=").append(encoded(value)));
        String request = String.join("\n", "GET", "/", words, "host:" + url.getHost(), "", "host", hex(digest("")));
        String text = String.join("\n", "AWS4-HMAC-SHA256", stamp, scope, hex(digest(request)));
        byte[] made = ("AWS4" + secret).getBytes(StandardCharsets.UTF_8);
        for (String part : scope.split("/")) {
            made = hmac(made, part);
        }
        return hex(hmac(made, text));
    }

    private static String encoded(String text) {
        StringBuilder made = new StringBuilder();
        for (byte one : text.getBytes(StandardCharsets.UTF_8)) {
            boolean plain = one >= 'a' && one <= 'z' || one >= 'A' && one <= 'Z' || one >= '0' && one <= '9' || "-._~".indexOf(one) >= 0;
            made.append(plain ? String.valueOf((char) one) : String.format("%%%02X", one & 0xff));
        }
        return made.toString();
    }

    private static byte[] digest(String text) throws Exception {
        return MessageDigest.getInstance("SHA-256").digest(text.getBytes(StandardCharsets.UTF_8));
    }

    private static byte[] hmac(byte[] key, String text) throws Exception {
        Mac mac = Mac.getInstance("HmacSHA256");
        mac.init(new SecretKeySpec(key, "HmacSHA256"));
        return mac.doFinal(text.getBytes(StandardCharsets.UTF_8));
    }

    private static String hex(byte[] bytes) {
        return HexFormat.of().formatHex(bytes);
    }

    private static class Token implements OAuthBearerToken {
        private final String value;
        private final Instant from;
        private final Duration life;
        private final String name;

        Token(String value, Instant from, Duration life, String name) {
            this.value = value;
            this.from = from;
            this.life = life;
            this.name = name;
        }

        @Override
        public String value() {
            return value;
        }

        @Override
        public Set<String> scope() {
            return Set.of();
        }

        @Override
        public long lifetimeMs() {
            return from.plus(life).toEpochMilli();
        }

        @Override
        public String principalName() {
            return name;
        }

        @Override
        public Long startTimeMs() {
            return from.toEpochMilli();
        }
    }
}
