import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.time.Instant;
import java.util.Base64;
import javax.security.auth.callback.Callback;
import javax.security.auth.callback.UnsupportedCallbackException;
import org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallback;
import org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallbackHandler;

/**
 * What Google's Managed Kafka does with a token, as Google's own login handler makes it: an envelope in the form of a JWT,
 * whose third part is an access token. Kafka's validator judges the access token; the envelope has to name its holder.
 */
public class GoogleValidator extends OAuthBearerValidatorCallbackHandler {
    private static final ObjectMapper JSON = new ObjectMapper();

    @Override
    public void handle(Callback[] callbacks) throws IOException, UnsupportedCallbackException {
        for (Callback callback : callbacks) {
            if (callback instanceof OAuthBearerValidatorCallback) {
                judge((OAuthBearerValidatorCallback) callback);
            } else {
                super.handle(new Callback[] {callback});
            }
        }
    }

    private void judge(OAuthBearerValidatorCallback callback) throws UnsupportedCallbackException {
        try {
            String[] parts = callback.tokenValue().split("\\.");
            JsonNode head = JSON.readTree(decoded(parts[0]));
            JsonNode claims = JSON.readTree(decoded(parts[1]));
            OAuthBearerValidatorCallback inner = new OAuthBearerValidatorCallback(decoded(parts[2]));
            super.handle(new Callback[] {inner});
            if (!head.path("alg").asText().equals("GOOG_OAUTH2_TOKEN") || !head.path("typ").asText().equals("JWT")) {
                callback.error("invalid_header", null, null);
            } else if (!claims.path("iss").asText().equals("Google") || !claims.path("scope").asText().equals("kafka")) {
                callback.error("invalid_claims", null, null);
            } else if (Instant.ofEpochMilli((long) (claims.path("exp").asDouble() * 1000)).isBefore(Instant.now())) {
                callback.error("token expired", null, null);
            } else if (inner.token() == null) {
                callback.error(inner.errorStatus(), null, null);
            } else if (!claims.path("sub").asText().equals(inner.token().principalName())) {
                callback.error("another holder", null, null);
            } else {
                callback.token(inner.token());
            }
        } catch (IOException | ArrayIndexOutOfBoundsException | IllegalArgumentException error) {
            callback.error("no envelope of Google", null, null);
        }
    }

    private static String decoded(String part) {
        return new String(Base64.getUrlDecoder().decode(part), StandardCharsets.UTF_8);
    }
}
