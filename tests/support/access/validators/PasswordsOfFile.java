import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import org.apache.kafka.common.security.plain.internals.PlainServerCallbackHandler;

/** Takes by PLAIN the password that a file has at that moment, whoever logs in: brokers read theirs once, as they start. */
public class PasswordsOfFile extends PlainServerCallbackHandler {
    private final Path file = Path.of(System.getProperty("passwords.of.file"));

    @Override
    protected boolean authenticate(String user, char[] password) throws IOException {
        return Files.readString(file).equals(String.valueOf(password));
    }
}
