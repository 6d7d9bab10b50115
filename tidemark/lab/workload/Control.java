import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.Map;
import java.util.stream.Collectors;

/**
 * How this process gets commands, and reports what it did: files in one folder.
 *
 * <p>It writes {@code ready} once consumers run and messages flow. While {@code pause} exists nothing
 * is produced, and {@code paused} holds the messages sent so far, one {@code topic=count} a line.
 */
final class Control {
    private final Path folder;

    Control(Path folder) {
        this.folder = folder;
    }

    void ready() throws IOException {
        write("ready", "READY\n");
        System.out.println("READY");
    }

    boolean pauseAsked() {
        return Files.exists(folder.resolve("pause"));
    }

    void paused(Map<String, Long> sent) throws IOException {
        write("paused", sent.entrySet().stream()
            .map(entry -> entry.getKey() + "=" + entry.getValue() + "\n")
            .collect(Collectors.joining()));
    }

    void goesOn() throws IOException {
        Files.deleteIfExists(folder.resolve("paused"));
    }

    /** By rename, so that nobody reads half a file. */
    private void write(String name, String text) throws IOException {
        Path partial = folder.resolve(name + ".partial");
        Files.writeString(partial, text);
        Files.move(partial, folder.resolve(name), StandardCopyOption.ATOMIC_MOVE);
    }
}
