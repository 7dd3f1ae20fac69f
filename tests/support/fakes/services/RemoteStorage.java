import java.io.IOException;
import java.io.InputStream;
import java.lang.instrument.Instrumentation;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.Arrays;
import java.util.Map;
import java.util.Optional;
import java.util.stream.Stream;
import org.apache.kafka.server.log.remote.storage.LogSegmentData;
import org.apache.kafka.server.log.remote.storage.RemoteLogSegmentMetadata;
import org.apache.kafka.server.log.remote.storage.RemoteLogSegmentMetadata.CustomMetadata;
import org.apache.kafka.server.log.remote.storage.RemoteResourceNotFoundException;
import org.apache.kafka.server.log.remote.storage.RemoteStorageException;
import org.apache.kafka.server.log.remote.storage.RemoteStorageManager;

/** Keeps segments in the folder that the system property remote.storage names. The JVM gets it as an agent, which puts it on the class path. */
public class RemoteStorage implements RemoteStorageManager {
    private static final Path FOLDER = Path.of(System.getProperty("remote.storage"));

    public static void premain(String words, Instrumentation instrumentation) {}

    @Override
    public void configure(Map<String, ?> configs) {}

    @Override
    public void close() {}

    @Override
    public Optional<CustomMetadata> copyLogSegmentData(RemoteLogSegmentMetadata segment, LogSegmentData data)
            throws RemoteStorageException {
        try {
            Files.createDirectories(folder(segment));
            copy(data.logSegment(), segment, "log");
            copy(data.offsetIndex(), segment, IndexType.OFFSET.name());
            copy(data.timeIndex(), segment, IndexType.TIMESTAMP.name());
            copy(data.producerSnapshotIndex(), segment, IndexType.PRODUCER_SNAPSHOT.name());
            if (data.transactionIndex().isPresent()) {
                copy(data.transactionIndex().get(), segment, IndexType.TRANSACTION.name());
            }
            byte[] epochs = new byte[data.leaderEpochIndex().remaining()];
            data.leaderEpochIndex().duplicate().get(epochs);
            Files.write(folder(segment).resolve(IndexType.LEADER_EPOCH.name()), epochs);
            return Optional.empty();
        } catch (IOException error) {
            throw new RemoteStorageException(error);
        }
    }

    @Override
    public InputStream fetchLogSegment(RemoteLogSegmentMetadata segment, int start) throws RemoteStorageException {
        return fetchLogSegment(segment, start, Integer.MAX_VALUE);
    }

    @Override
    public InputStream fetchLogSegment(RemoteLogSegmentMetadata segment, int start, int end)
            throws RemoteStorageException {
        byte[] bytes = read(segment, "log");
        int until = (int) Math.min(bytes.length, end + 1L);
        return new java.io.ByteArrayInputStream(Arrays.copyOfRange(bytes, start, until));
    }

    @Override
    public InputStream fetchIndex(RemoteLogSegmentMetadata segment, IndexType type) throws RemoteStorageException {
        return new java.io.ByteArrayInputStream(read(segment, type.name()));
    }

    @Override
    public void deleteLogSegmentData(RemoteLogSegmentMetadata segment) throws RemoteStorageException {
        try (Stream<Path> files = Files.list(folder(segment))) {
            for (Path file : files.toList()) {
                Files.delete(file);
            }
        } catch (IOException error) {
            throw new RemoteStorageException(error);
        }
    }

    private static Path folder(RemoteLogSegmentMetadata segment) {
        return FOLDER.resolve(segment.remoteLogSegmentId().id().toString());
    }

    private static void copy(Path file, RemoteLogSegmentMetadata segment, String name) throws IOException {
        Files.copy(file, folder(segment).resolve(name), StandardCopyOption.REPLACE_EXISTING);
    }

    private static byte[] read(RemoteLogSegmentMetadata segment, String name) throws RemoteStorageException {
        try {
            return Files.readAllBytes(folder(segment).resolve(name));
        } catch (NoSuchFileException error) {
            throw new RemoteResourceNotFoundException(error);
        } catch (IOException error) {
            throw new RemoteStorageException(error);
        }
    }
}
