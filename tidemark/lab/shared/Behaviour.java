import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.AtomicReference;

/**
 * How a member handles its messages, and how many it began with and finished; a command changes it
 * while the member runs.
 *
 * <ul>
 *   <li>{@code takes:MILLIS} works so long on each message;
 *   <li>{@code retries:N} requests one in N messages again, twice, and then takes it;
 *   <li>{@code fails} never takes a message;
 *   <li>{@code blocks} never ends with the next message, however often it is handed out, and takes
 *       all others;
 *   <li>{@code hangs} never ends with any message;
 *   <li>{@code keeps} acknowledges nothing, and {@code late} acknowledges when the message has been
 *       handed out again: of simple consumers, which acknowledge themselves.
 * </ul>
 */
final class Behaviour {
    private static final int ATTEMPTS_REFUSED = 2;

    private final AtomicLong messages = new AtomicLong();
    private final AtomicInteger begun = new AtomicInteger();
    private final AtomicInteger finished = new AtomicInteger();
    private final AtomicReference<String> blocking = new AtomicReference<>();
    private volatile String kind;
    private volatile long number;

    Behaviour(String words) {
        become(words);
    }

    void become(String words) {
        String[] parts = words.split(":");
        number = parts.length > 1 ? Long.parseLong(parts[1]) : 0;
        kind = parts[0];
        blocking.set(null);
    }

    boolean is(String other) {
        return kind.equals(other);
    }

    /** Messages that were begun with, and that were finished. */
    String counts() {
        return begun + " " + finished;
    }

    /** Works on a message that was handed out so often before, and returns whether it is done. */
    boolean handle(String id, int attempts) throws InterruptedException {
        begun.incrementAndGet();
        boolean done = work(id, attempts);
        if (done) {
            finished.incrementAndGet();
        }
        return done;
    }

    private boolean work(String id, int attempts) throws InterruptedException {
        switch (kind) {
            case "takes":
                Thread.sleep(number);
                return true;
            case "retries":
                return attempts >= ATTEMPTS_REFUSED
                    || attempts == 0 && messages.incrementAndGet() % number != 0;
            case "fails":
            case "keeps":
                return false;
            case "hangs":
                neverEnd();
                return false;
            case "blocks":
                blocking.compareAndSet(null, id);
                if (id.equals(blocking.get())) {
                    neverEnd();
                }
                return true;
            default:
                return true;
        }
    }

    private static void neverEnd() throws InterruptedException {
        new CountDownLatch(1).await();
    }
}
